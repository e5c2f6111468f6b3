"""The ``hocket`` command: one file per subcommand, imported only when it is called. README.md says how to add one."""

from __future__ import annotations

import importlib

import click

# name: (module in this package, one line for `hocket --help`)
COMMANDS = {
    "run": ("run", "Run a program that shares the GPU, without a line of Hocket in it."),
    "emulate": ("emulate", "Run a command on an emulated GPU."),
    "status": ("status", "Jobs, who has the turn, who waits and why, memory, turns, step times."),
    "top": ("top", "The node, live: turns, waits, memory, slowdown, time to go."),
    "web": ("web", "The node in the browser, and for Prometheus, on 127.0.0.1."),
    "explain": ("explain", "Why a job runs, or waits."),
    "logs": ("logs", "What the coordinator has done, as sentences."),
    "policy": ("policy", "Show or change who decides whose turn is next."),
    "set": ("set_job", "Change a job's weight, priority, number of steps, memory limit or group."),
    "quota": ("quota", "Show or change what jobs, groups and users may use at most, and get at least."),
    "pause": ("pause", "Give a job no turns until it is resumed."),
    "resume": ("resume", "Let a paused job have turns again."),
    "trace": ("trace", "Write what the coordinator has recorded: to look at, or to replay."),
    "simulate": ("simulate", "Play recorded or invented jobs under other policies."),
    "config": ("config", "What holds for all your jobs: show it, and check the file that says it."),
    "systemd": ("systemd", "Units with which systemd keeps the coordinator and the page."),
    "completion": ("completion", "What makes bash or zsh complete hocket's words."),
    "doctor": ("doctor", "What was found on this machine, and what to do about each problem."),
    "demo": ("demo", "Two real trainings, each alone, then in turns on one GPU."),
    "serve": ("serve", "Run the coordinator in the foreground."),
    "restart": ("restart", "Replace the coordinator by this installation's, while jobs run."),
    "stop": ("stop", "End the coordinator when no job needs it."),
}


class _LazyGroup(click.Group):
    """Imports a subcommand's module when it is called, so that ``hocket run`` starts fast."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        return importlib.import_module(f"hocket.cli.{COMMANDS[name][0]}").command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="hocket", message="hocket %(version)s")
def main() -> None:
    """Several PyTorch jobs share one GPU and take turns by training step."""
