"""``hocket policy [NAME or FILE]``."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from hocket import _config
from hocket.cli.common import ask, sentences
from hocket.cli.options import Percent

OVERDUE = {"wait": "wait", "go-on": "go on beside it, where they fit"}


@click.command()
@click.argument("name", required=False)
@click.option(
    "--switch-share",
    type=Percent(),
    help="At most this share of the time goes into hand-overs that move bytes (at first 2%).",
)
@click.option(
    "--bound",
    type=Percent(),
    help="With priority, the others cost jobs of high priority at most this share (at first 2%).",
)
@click.option(
    "--link-bound",
    type=Percent(),
    help="Bytes moved for others slow a holder's steps down by at most this share (at first 2%; 100%: no limit).",
)
@click.option(
    "--together", type=click.IntRange(1, 16), help="With pack, at most so many jobs run at the same time (at first 4)."
)
@click.option(
    "--overdue",
    type=click.Choice(["wait", "go-on"]),
    help="While a holder does not give its turn up: the others wait (at first), or go on beside it, where they fit.",
)
@click.option("--json", "as_json", is_flag=True, help="As data.")
def command(
    name: str | None,
    switch_share: float | None,
    bound: float | None,
    link_bound: float | None,
    together: int | None,
    overdue: str | None,
    as_json: bool,
) -> None:
    """Show who decides whose turn is next and what else there is; with NAME, change it, from the next turn on.

    NAME may be a policy of your own: a Python file (./mine.py, see `python -m pydoc hocket_policy`), a C++ file
    (./mine.cc, see hocket_policy.h), or a program that speaks as one. Where it fails, or answers later than
    `policy_patience_seconds` of `hocket config` says, fair decides, and it is tried again after a pause; given again
    here, at once.
    """
    own = program(name) if name and is_own(name) else None
    settings = {
        "switch_share": switch_share,
        "bound": bound,
        "link_bound": link_bound,
        "together": together,
        "overdue": overdue,
    }
    given = {"name": None if own else name or None, "program": own, **settings}
    answer = ask("policy", **{key: value for key, value in given.items() if value is not None})
    if "switch_share" not in answer:  # an older coordinator takes it by itself only
        answer["switch_share"] = ask("switch-share", **({} if switch_share is None else {"share": switch_share}))[
            "share"
        ]
    if as_json:
        click.echo(json.dumps(answer, indent=1))
        return
    if answer.get("trouble"):
        click.echo(f"{answer['policy']} has failed, fair decides: {answer['trouble']}")
    share = f"{answer['switch_share']:.1%}"
    click.echo(f"policy {answer['policy']}; hand-overs that move bytes take at most {share} of the time")
    if answer["policy"] == "priority":
        click.echo(f"jobs of high priority are slowed down by the others by at most {answer['bound']:.1%}")
    if answer.get("link_bound") is not None:  # an older coordinator knows none
        click.echo(f"bytes moved for others slow a holder down {_at_most(answer['link_bound'])}")
    if answer["policy"] == "pack":
        click.echo(f"at most {answer['together']} jobs run at the same time")
    if others := OVERDUE.get(answer.get("overdue", "")):
        click.echo(f"while a holder does not give its turn up, the others {others}")
    if not name and all(setting is None for setting in settings.values()):
        for policy in answer["policies"]:
            click.echo(f"  {policy['name']:<14} {policy['summary']}")


def _at_most(link_bound: float) -> str:
    return "without a limit" if link_bound >= 1 else f"by at most {link_bound:.1%}"


def is_own(name: str) -> bool:
    """Whether it is the file of a policy of the user's own."""
    return "/" in name or name.endswith((".py", ".cc", ".cpp"))


def program(file: str) -> str:
    """The command that serves the policy in ``file``, as the coordinator takes it; it is tried first."""
    path = os.path.abspath(file)
    if not os.path.isfile(path):
        raise click.UsageError(
            f"there is no file {path}. Give the path of a policy of yours, or a name that `hocket policy` lists."
        )
    if any(character in path for character in "\t\n"):
        raise click.UsageError(f"the path {path!r} has a tab or the end of a line in it: rename it.")
    if path.endswith((".cc", ".cpp")):
        return _compiled(path)
    if not path.endswith(".py"):
        if not os.access(path, os.X_OK):
            raise click.UsageError(
                f"{path} is neither a Python file (.py), nor a C++ file (.cc, .cpp), nor executable."
            )
        return path
    serve = [sys.executable, "-P", "-m", "hocket_policy"]
    tried = subprocess.run([*serve, "--check", path], capture_output=True, text=True)
    if tried.returncode != 0:
        raise click.ClickException(f"{file} does not work: {tried.stdout.strip() or tried.stderr.strip()}")
    return "\t".join([*serve, path])


def _compiled(file: str) -> str:
    """The program that the C++ file ``file`` makes; it is kept in the user's cache, under what it is made of."""
    try:
        compiler = shlex.split(os.environ.get("CXX", "")) or ["c++"]
    except ValueError as error:
        raise click.ClickException(f"CXX={os.environ['CXX']} names no C++ compiler: {error}. Correct it.") from None
    command = [*compiler, "-std=c++17", "-O2", "-I", str(Path(__file__).parents[1] / "include"), file]
    with sentences():
        cache = _config.place("XDG_CACHE_HOME", ".cache") / "hocket" / "policies"
    try:
        program = cache / _made_of(file, compiler, command) / Path(file).stem
        if program.exists():
            return str(program)
        program.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=program.parent) as folder:  # so that nobody sees half of it
            half = Path(folder) / "program"
            _compile(file, [*command, "-o", str(half)])
            half.rename(program)
    except FileNotFoundError:
        raise click.ClickException(
            f"{file} cannot be compiled: there is no {compiler[0]}. Install a C++ compiler, or name one in CXX."
        ) from None
    except OSError as error:
        raise click.ClickException(
            f"{file} cannot be compiled with {compiler[0]} into {cache}: {error.strerror}."
        ) from None
    return str(program)


def _made_of(file: str, compiler: list[str], command: list[str]) -> str:
    """Another one for another text of it or of what it includes, another compiler, and other options."""
    version = subprocess.run([*compiler, "--version"], capture_output=True, text=True)
    text = _compile(file, [*command, "-E"])
    return hashlib.sha256("\0".join([*command, version.stdout, text]).encode(errors="surrogateescape")).hexdigest()[:16]


def _compile(file: str, command: list[str]) -> str:
    made = subprocess.run(command, capture_output=True, text=True, errors="surrogateescape")
    if made.returncode != 0:
        raise click.ClickException(f"{file} does not compile ({shlex.join(command)}):\n{made.stderr.strip()}")
    return made.stdout
