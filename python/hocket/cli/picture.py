"""Pictures that commands draw: that one can be drawn is seen before anything is computed for it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import click


def check(path: Path) -> None:
    """Exit status 1 with a sentence where no picture could be drawn at ``path``."""
    with drawn(path):
        from matplotlib.backend_bases import FigureCanvasBase

        kinds = FigureCanvasBase.get_supported_filetypes()
    if path.suffix[1:].lower() not in kinds:
        raise click.ClickException(
            f"cannot draw {path}: its name says no kind of picture. "
            f"Let it end in .png, or in one of: {', '.join(sorted(kinds))}."
        )
    check_writable(path)


def check_writable(path: Path) -> None:
    """Exit status 1 with a sentence where no file can be written at ``path``. Nothing is written."""
    if not path.parent.is_dir():
        raise click.ClickException(f"cannot write {path}: there is no folder {path.parent}. Make it, or name another.")
    for wanted, use in ((path, os.W_OK), (path.parent, os.W_OK | os.X_OK)):
        if wanted.exists():
            if os.access(wanted, use):
                return
            raise click.ClickException(f"cannot write {path}: you may not write {wanted}. Name another file.")


@contextlib.contextmanager
def drawn(path: Path) -> Iterator[None]:
    """Exit status 1 with a sentence where what is inside fails to draw a picture at ``path``."""
    try:
        yield
    except ImportError as error:
        raise click.ClickException(
            f"cannot draw {path}: matplotlib is not installed in this environment, or does not work ({error}). "
            "Install it: pip install matplotlib"
        ) from None
    except (OSError, ValueError, RuntimeError) as error:
        raise click.ClickException(f"cannot draw {path}: {error}.") from None
