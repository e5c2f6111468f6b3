"""``hocket systemd``: units with which systemd keeps the coordinator, and the page, for a user; or one for all."""

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

FOR_ALL = """\
# Hocket's coordinator for all users of this machine, kept by systemd.
[Unit]
Description=Hocket: turns on this machine's GPUs, for all users

[Service]
{environment}ExecStart={hocket} serve --system
Restart=always
RestartSec=1
# /run/hocket; jobs that find it wait for the coordinator while it is being restarted.
RuntimeDirectory=hocket
RuntimeDirectoryMode=0755
RuntimeDirectoryPreserve=restart
# /var/lib/hocket, for what root has set.
StateDirectory=hocket
StateDirectoryMode=0700
# It is root to give each user a folder for the locks of his lanes, and for nothing else.
CapabilityBoundingSet=CAP_CHOWN
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=read-only
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
RestrictAddressFamilies=AF_UNIX
RestrictNamespaces=yes
LimitNOFILE=65536

[Install]
WantedBy=multi-user.target
"""

# What the coordinator's places depend on: a unit's environment is not a shell's.
KEPT = ("HOCKET_RUNTIME_DIR", "HOCKET_CONFIG", "XDG_CONFIG_HOME", "XDG_STATE_HOME")


def units(system: bool = False) -> dict[str, str]:
    """File name -> text."""
    from hocket import _config
    from hocket.cli import common

    with common.sentences():
        settings = {str(key): setting.value for key, setting in _config.settings().items()}
    port = settings.get("web.port", next(key.default for key in _config.KEYS if str(key) == "web.port"))
    # The place of the one for all is where every user's jobs look.
    names = ("HOCKET_CONFIG",) if system else KEPT
    kept = {name: os.path.abspath(os.environ[name]) for name in names if os.environ.get(name)}
    environment = "".join(f"Environment={_word(f'{name}={value}')}\n" for name, value in kept.items())
    values = {"hocket": _word(_program().replace("$", "$$")), "environment": environment, "port": port}
    if system:
        return {"hocket.service": FOR_ALL.format(**values)}
    return {"hocket.service": COORDINATOR.format(**values), "hocket-web.service": WEB.format(**values)}


def _own_folder() -> Path:
    from hocket import _config
    from hocket.cli import common

    with common.sentences():
        return _config.place("XDG_CONFIG_HOME", ".config") / "systemd" / "user"


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
@click.option("--user", is_flag=True, help="Units of your own; so it is where --system is not given.")
@click.option("--system", is_flag=True, help="One that serves all users of this machine, for root to install.")
@click.option("--install", is_flag=True, help="Write them where systemd looks, instead of printing them.")
@click.option("--root", type=click.Path(path_type=Path), default="/", help="With --system: of the machine's files.",
              hidden=True)  # fmt: skip
def command(user: bool, system: bool, install: bool, root: Path) -> None:
    """Print systemd units for `hocket serve` and `hocket web`, or install them.

    Nothing is started: what to type for that is said.
    """
    if user and system:
        raise click.UsageError("units are a user's or the system's: give one of --user and --system")
    made = units(system)
    if not install:
        click.echo("\n".join(f"# ----- {name}\n{text}" for name, text in made.items()), nl=False)
        return
    folder = root / "etc/systemd/system" if system else _own_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in made.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        hint = " Those of the system are root's to write." if system else ""
        raise click.ClickException(f"cannot write units into {folder}: {error.strerror}.{hint}") from None
    click.echo(f"written: {', '.join(str(folder / name) for name in made)}")
    if system:
        click.echo("To start it, now and when the machine starts:")
        click.echo("  systemctl daemon-reload")
        click.echo(f"  systemctl enable --now {' '.join(made)}")
        return
    click.echo("To start them, now and when you log in:")
    click.echo("  systemctl --user daemon-reload")
    click.echo(f"  systemctl --user enable --now {' '.join(made)}")
    click.echo("To keep them while you are logged out: loginctl enable-linger")
