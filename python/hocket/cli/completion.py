"""``hocket completion``: words that the shell completes."""

from __future__ import annotations

import click


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh"]))
def command(shell: str) -> None:
    """Print what makes SHELL complete hocket's commands and options.

    bash: hocket completion bash > ~/.local/share/bash-completion/completions/hocket

    zsh: hocket completion zsh > a folder of $fpath/_hocket
    """
    from click.shell_completion import get_completion_class

    from hocket.cli import main

    made = get_completion_class(shell)
    assert made is not None
    script = made(main, {}, "hocket", "_HOCKET_COMPLETE").source()
    # From $fpath, click's says only in the first call that it is one: the second Tab of a shell would complete nothing.
    click.echo(script.replace("$zsh_eval_context[-1] == loadautofunc", "$funcstack[1] == _hocket"))
