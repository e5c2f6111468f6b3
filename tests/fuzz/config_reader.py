"""What config_fuzz.cc runs: a config file of any content is read as any reader of it does.

``check(path)`` gives the variables that the file stands for; what is wrong with it is named, with a line that it has.
"""

from __future__ import annotations

import pathlib
import sys
import types


def _without_its_start(folder: str) -> None:
    """The package as a folder of modules: what ``import hocket`` does to a job is not wanted here."""
    package = types.ModuleType("hocket")
    package.__path__ = [folder]
    sys.modules["hocket"] = package


def load(python: str) -> None:
    _without_its_start(f"{python}/hocket")
    global _config
    from hocket import _config


def check(path: str) -> dict[str, str]:
    file = pathlib.Path(path)
    settings, mistakes = _config.read([file])
    most = file.read_bytes().count(b"\n") + 1
    for mistake in mistakes:
        assert str(mistake).startswith(path) and mistake.what, mistake
        assert len(mistake.what) < 1_000, "nobody reads that"
        assert 0 <= mistake.line <= most, mistake
    return {} if mistakes else {key.variable: setting.text for key, setting in settings.items()}
