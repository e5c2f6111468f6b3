"""``hocket config check`` and ``show``: the config file, whose keys and rules are in ``hocket._config``."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import click

from hocket import _config
from hocket.cli import common

EXAMPLE = """\
  [coordinator]
  policy = "fair"
  [job]
  memory_limit = "20GiB"
"""


@click.group()
def command() -> None:
    """What holds for all your jobs: ~/.config/hocket/config.toml, over /etc/hocket/config.toml.

    The environment and the command line win over it. `hocket config show` lists the keys.
    """


@command.command()
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
def check(file: Path | None) -> None:
    """Name each mistake in the config files (or in FILE) with its line, and what would be right.

    Exit status 1 where there is one.
    """
    common.control()
    paths = _config.files() if file is None else [file]
    if file is not None and not file.exists():
        raise click.ClickException(f"there is no {file}.")
    settings, mistakes = _config.read(paths)
    for mistake in mistakes:
        click.echo(str(mistake), err=True)
    if mistakes:
        raise click.exceptions.Exit(1)
    found = [str(path) for path in paths if path.exists()]
    if found:
        click.echo(f"{', '.join(found)}: {len(settings)} settings, nothing wrong.")
    else:
        click.echo(f"no config file: everything is as it is by itself. To write one, {paths[-1]}:\n{EXAMPLE}", nl=False)


@dataclasses.dataclass(frozen=True)
class _Holds:
    key: str
    value: Any
    source: str
    what: str


@command.command()
@click.option("--json", "as_json", is_flag=True, help="As data.")
def show(as_json: bool) -> None:
    """What holds, and where it comes from: the environment, a file's line, or nobody has said it."""
    common.control()
    with common.sentences():
        settings = _config.settings()
        holds = [_holds(key, settings.get(key)) for key in _config.KEYS]
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(each) for each in holds], indent=1))
        return
    for each in holds:
        value = "-" if each.value is None else json.dumps(each.value)
        click.echo(f"{each.key:<26} {value:<12} {each.source}\n    {each.what}")
    now = common.ask_if_it_runs("policy")
    if now is not None:
        names = ("switch_share", "link_bound", "overdue")
        # An older coordinator does not say each of them.
        said = [f"{name.replace('_', ' ')} {_short(now[name])}" for name in names if now.get(name) is not None]
        click.echo(f"\nThe coordinator that runs has {', '.join(['policy ' + now['policy'], *said])}.")


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _holds(key: _config.Key, setting: _config.Setting | None) -> _Holds:
    if said := os.environ.get(key.variable):
        return _Holds(str(key), said, f"${key.variable}", key.what)
    if setting is not None:
        return _Holds(str(key), setting.value, f"{setting.path}:{setting.line}", key.what)
    return _Holds(str(key), key.default, "default", key.what)
