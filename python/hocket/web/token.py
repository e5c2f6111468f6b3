"""The user's token: a random line in a file that only its user can read. Who can read it may write over HTTP."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import tempfile
from pathlib import Path

from hocket.errors import HocketError

LEAST = 32  # characters


class Token:
    """The line in ``path``; read anew each time, so that another token holds at once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def make(self) -> None:
        """Makes the file where there is none. HocketError: it cannot be made, or what is there protects nothing."""
        if os.path.lexists(self.path):
            self._line()
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor, unfinished = tempfile.mkstemp(dir=self.path.parent)  # 0600
            try:
                with os.fdopen(descriptor, "w") as file:
                    file.write(secrets.token_urlsafe(LEAST) + "\n")
                with contextlib.suppress(FileExistsError):  # another one was as fast: that one holds
                    os.link(unfinished, self.path)
            finally:
                os.unlink(unfinished)
        except OSError as error:
            raise HocketError(f"cannot write the token file {self.path}: {error.strerror}.") from None

    def read(self) -> str:
        """The token; empty where there is none that protects anything: then nobody may write."""
        try:
            return self._line()
        except HocketError:
            return ""

    def _line(self) -> str:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            raise HocketError(f"cannot read the token file {self.path}: {error.strerror}. Remove it.") from None
        try:
            self._check(os.fstat(descriptor))
            line = os.read(descriptor, 1024).decode("ascii", "replace").strip()
        finally:
            os.close(descriptor)
        if len(line) < LEAST:
            raise HocketError(
                f"the token in {self.path} has {len(line)} characters, which is too easily guessed: {LEAST} are "
                "the least. Remove the file; `hocket web` then makes another."
            )
        return line

    def _check(self, info: os.stat_result) -> None:
        if stat.S_ISREG(info.st_mode) and info.st_uid == os.geteuid() and not info.st_mode & 0o077:
            return
        raise HocketError(
            f"the token file {self.path} must be a file of uid {os.geteuid()} with mode 0600, and is of uid "
            f"{info.st_uid} with mode {stat.S_IMODE(info.st_mode):04o}: others could read it, or have written it. "
            "Remove it; `hocket web` then makes another."
        )
