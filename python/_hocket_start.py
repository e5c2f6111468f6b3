"""The ways into the package that are not ``import hocket`` in a program.

They live outside the package because ``import hocket`` prepares PyTorch (see hocket/__init__.py), and neither of
these may: the ``hocket`` command must start fast and work without torch, and PyTorch calls ``autoload`` at the end
of every ``import torch`` in this environment, wanted or not.
"""

from __future__ import annotations

import os
import sys

# False while the package is imported by one of the two functions below.
imported_by_program = True


def autoload() -> None:
    """Entry point of group ``torch.backends``: called as the last act of ``import torch``.

    Does nothing, and imports nothing, unless the environment says ``hocket run`` or ``hocket emulate``. A program
    never breaks because of it: a failure is one sentence on stderr.
    """
    global imported_by_program
    if not (os.environ.get("HOCKET_RUN") or os.environ.get("HOCKET_EMULATOR_NAME")):
        return
    known = "hocket" in sys.modules
    before, imported_by_program = imported_by_program, False
    try:
        from hocket import _autoload

        _autoload.autoload()
    except Exception as error:
        print(f"hocket: {error}\n  The program goes on without it.", file=sys.stderr)
    finally:
        imported_by_program = before
        if not known:  # the program's own `import hocket` is then its first, and prepares PyTorch
            sys.modules.pop("hocket", None)


def command_line() -> None:
    """The console script ``hocket``."""
    global imported_by_program
    imported_by_program = False
    from hocket.cli import main

    main()


def coordinator() -> None:
    """The console script ``hocketd``: becomes the installed coordinator."""
    global imported_by_program
    imported_by_program = False
    from hocket import _config
    from hocket.cli.serve import DAEMON
    from hocket.errors import HocketError

    try:
        _config.apply()
    except HocketError as error:
        sys.exit(f"hocketd: {error}")
    os.execv(DAEMON, [str(DAEMON), *sys.argv[1:]])
