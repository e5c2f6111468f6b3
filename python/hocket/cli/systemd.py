"""``hocket systemd``: units with which systemd keeps the coordinator, and the page, for a user."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import click

COORDINATOR = """\
# Hocket's coordinator, kept by systemd. Without it the first job that needs one starts one.
[Unit]
Description=Hocket: turns on this machine's GPUs
# One that a job has started may serve still: this one tries again until that has ended.
StartLimitIntervalSec=0

[Service]
{environment}ExecStart={hocket} serve
Restart=on-failure
RestartSec=5

[Install]
WantedBy=default.target
"""

WEB = """\
# The page of Hocket's turns, on http://127.0.0.1:{port}/, and /metrics for Prometheus.
[Unit]
Description=Hocket: turns in the browser and for Prometheus
After=hocket.service

[Service]
{environment}ExecStart={hocket} web
Restart=on-failure
RestartSec=5
NoNewPrivileges=yes

[Install]
WantedBy=default.target
"""

# What the coordinator's place depends on: a unit's environment is not a shell's.
KEPT = ("HOCKET_RUNTIME_DIR", "HOCKET_CONFIG", "XDG_CONFIG_HOME")


def units() -> dict[str, str]:
    """File name -> text."""
    from hocket import _config
    from hocket.cli import common

    with common.sentences():
        settings = {str(key): setting.value for key, setting in _config.settings().items()}
    port = settings.get("web.port", next(key.default for key in _config.KEYS if str(key) == "web.port"))
    kept = {name: os.path.abspath(os.environ[name]) for name in KEPT if os.environ.get(name)}
    environment = "".join(f"Environment={_word(f'{name}={value}')}\n" for name, value in kept.items())
    values = {"hocket": _word(_program().replace("$", "$$")), "environment": environment, "port": port}
    return {"hocket.service": COORDINATOR.format(**values), "hocket-web.service": WEB.format(**values)}


def _program() -> str:
    """The `hocket` of this environment, by its full path: systemd knows no virtual environments."""
    beside = Path(sys.executable).with_name("hocket")
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("hocket")
    if not found:
        raise click.ClickException(f"there is no command hocket beside {sys.executable}. Install Hocket again.")
    return found


def _word(text: str) -> str:
    """One word for systemd (systemd.service(5), Command lines; systemd.unit(5), Specifiers)."""
    text = text.replace("%", "%%")
    if re.fullmatch(r"[\w/.:=@%$+,-]+", text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@click.command()
@click.option("--user", is_flag=True, help="Units of your own. There are no others, so this may be left out.")
@click.option("--install", is_flag=True, help="Write them where your systemd looks, instead of printing them.")
def command(user: bool, install: bool) -> None:
    """Print systemd units for `hocket serve` and `hocket web`, or install them.

    Nothing is started: what to type for that is said.
    """
    made = units()
    if not install:
        click.echo("\n".join(f"# ----- {name}\n{text}" for name, text in made.items()), nl=False)
        return
    folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd" / "user"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in made.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"cannot write units into {folder}: {error.strerror}.") from None
    click.echo(f"written: {', '.join(str(folder / name) for name in made)}")
    click.echo("To start them, now and when you log in:")
    click.echo("  systemctl --user daemon-reload")
    click.echo(f"  systemctl --user enable --now {' '.join(made)}")
    click.echo("To keep them while you are logged out: loginctl enable-linger")
