"""What people have written down for all their jobs: /etc/hocket/config.toml, and ~/.config/hocket/config.toml over it.

    [coordinator]
    policy = "fair"

Each key stands for an environment variable, and becomes it where that is not set: so the environment and the command
line win, and whatever is started from there (the coordinator, jobs) has it. Read by `hocket run`, `serve`, `restart`,
`web`, `systemd` and `config show`, by `hocketd`, and by ``import hocket``, which may start a coordinator. A file that
is wrong stops all of them, with each mistake and its line: nothing is started otherwise than it says. A key that is not
known here is only said, for a newer Hocket may know it.

$HOCKET_CONFIG names one file instead of the two. A new key is a row in ``KEYS``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import math
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, MutableMapping
from pathlib import Path
from typing import Any

from hocket._job import GROUP_NAMES, PRIORITIES, is_group, parse_bytes
from hocket.errors import BrokenConfig, HocketError

POLICIES = ("fair", "fifo", "pack", "priority", "round-robin", "srtf")  # coordinator/policies/registry.cc
LOG_LEVELS = ("debug", "info", "warning", "error")
MOST_BYTES = 1 << 63  # csrc/base/bytes.h
MOST_SHOWN = 60  # characters of what somebody wrote


@dataclasses.dataclass(frozen=True)
class Key:
    """``read`` makes the variable's text of a value; ValueError says what would be right."""

    section: str
    name: str
    variable: str
    default: Any  # None: nothing is set
    read: Callable[[Any], str]
    what: str

    def __str__(self) -> str:
        return f"{self.section}.{self.name}"


def _one_of(*words: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in words or not isinstance(value, str):
            raise ValueError(f"one of {', '.join(words)}")
        return value

    return read


def _finite(value: float) -> bool:
    """Also for a whole number that is larger than any other kind can be."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _number(right: str, fits: Callable[[float], bool]) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not _finite(value) or not fits(value):
            raise ValueError(right)
        return repr(value)

    return read


def _size(value: Any) -> str:
    right = 'bytes, or a text such as "20GiB"; more than 0, less than 8 EiB'
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(right)
    try:
        size = parse_bytes(value)
    except ValueError:
        size = 0
    if not 0 < size < MOST_BYTES:
        raise ValueError(right)
    return str(size)


def _history_size(value: Any) -> str:
    right = 'bytes, or a text such as "1GiB"; 1 MiB or more, less than 8 EiB, or 0 for none'
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(right)
    try:
        size = parse_bytes(value)
    except ValueError:
        size = -1
    if size != 0 and not 1 << 20 <= size < MOST_BYTES:
        raise ValueError(right)
    return str(size)


def _port(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 65535:
        raise ValueError("a whole number from 1 to 65535")
    return str(value)


def _switch(value: Any) -> str:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return "1" if value else "0"


def _group(value: Any) -> str:
    if not is_group(value):
        raise ValueError(GROUP_NAMES)
    return str(value)


KEYS = (
    Key("coordinator", "policy", "HOCKET_POLICY", "fair", _one_of(*POLICIES),
        "who is next, until `hocket policy` sets another"),
    Key("coordinator", "policy_patience_seconds", "HOCKET_POLICY_PATIENCE_SECONDS", 1,
        _number("seconds, from 0.001 to 3600", lambda x: 0.001 <= x <= 3600),
        "how long an answer of a policy of your own may take, during which no turn is given"),
    Key("coordinator", "switch_share", "HOCKET_SWITCH_SHARE", 0.02,
        _number("a number above 0, 1 at most", lambda x: 0 < x <= 1),
        "most share of the time for hand-overs that move bytes, until `hocket policy` sets another"),
    Key("coordinator", "link_bound", "HOCKET_LINK_BOUND", 0.02,
        _number("a number from 0.001 to 1", lambda x: 0.001 <= x <= 1),
        "by so much bytes moved for others may slow a holder down, until `hocket policy` sets another; 1: no limit"),
    Key("coordinator", "overdue", "HOCKET_OVERDUE", "wait", _one_of("wait", "go-on"),
        "what others do while a holder does not give its turn up, until `hocket policy` sets another"),
    Key("coordinator", "grace_seconds", "HOCKET_GRACE_SECONDS", 30, _number("seconds, 0 or more", lambda x: x >= 0),
        "how long a coordinator that a job has started stays without one"),
    Key("coordinator", "log_level", "HOCKET_LOG_LEVEL", "info", _one_of(*LOG_LEVELS), "what `hocket logs` shows"),
    Key("coordinator", "history_size", "HOCKET_HISTORY_SIZE", "256MiB", _history_size,
        "the most bytes on disk for what `hocket trace` writes; 0: the last 100,000 turns, in memory"),
    Key("coordinator", "history_days", "HOCKET_HISTORY_DAYS", 7,
        _number("days, more than 0, 10,000 at most", lambda x: 0 < x <= 10_000),
        "how many days `hocket trace` can go back"),
    Key("job", "weight", "HOCKET_WEIGHT", 1, _number("a number above 0", lambda x: x > 0),
        "share of the device of each job: 2 gets twice the time of 1"),
    Key("job", "priority", "HOCKET_PRIORITY", "normal", _one_of(*PRIORITIES),
        "high: before all others under priority, 4 times the weight under fair, pack and srtf; low: 1/4 of it"),
    Key("job", "group", "HOCKET_GROUP", None, _group, "the group that jobs belong to: `hocket quota --group`"),
    Key("job", "memory_limit", "HOCKET_MEMORY_LIMIT", None, _size,
        "the most memory that a job may hold, on the device and spilled"),
    Key("job", "host_budget", "HOCKET_HOST_BUDGET", None, _size,
        "the most host memory for a job's spilled memory; not set: up to half of what is free"),
    Key("job", "headroom", "HOCKET_HEADROOM", None, _size,
        "device memory that should stay free beside the jobs'; not set: by the device's size"),
    Key("web", "port", "HOCKET_WEB_PORT", 9465, _port, "where `hocket web` listens, on 127.0.0.1"),
    Key("web", "any_user", "HOCKET_WEB_ANY_USER", False, _switch,
        "whether other users of this machine may read `hocket web`, too"),
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Mistake:
    path: Path
    line: int  # 0: of the file as a whole
    what: str
    unknown: bool = False  # a section or key that this Hocket does not have

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}" if self.line else f"{self.path}: {self.what}"


@dataclasses.dataclass(frozen=True)
class Setting:
    value: Any
    text: str  # of the variable
    path: Path
    line: int


def files() -> list[Path]:
    """Where to look, the weakest first. They need not exist."""
    if named := os.environ.get("HOCKET_CONFIG"):
        return [Path(named)]
    found = [Path("/etc/hocket/config.toml")]
    with contextlib.suppress(RuntimeError):  # a user without a home
        found.append(folder() / "config.toml")
    return found


def folder() -> Path:
    """The user's own folder for what Hocket keeps: this file, and the token of `hocket web`. HocketError: none is."""
    return place("XDG_CONFIG_HOME", ".config") / "hocket"


def place(variable: str, below_home: str) -> Path:
    """A folder of the user's: the one that ``variable`` names, or one in the home. HocketError: there is neither."""
    if named := os.environ.get(variable):
        return Path(named)
    try:
        return Path.home() / below_home
    except RuntimeError:
        raise HocketError(
            f"uid {os.geteuid()} has no home folder, in which ~/{below_home} would be. "
            f"Set {variable}, or HOME, to a folder of yours."
        ) from None


def read(paths: list[Path] | None = None) -> tuple[dict[Key, Setting], list[Mistake]]:
    """What the files say, later ones over earlier ones; and all that is wrong with them."""
    settings: dict[Key, Setting] = {}
    mistakes: list[Mistake] = []
    for path in files() if paths is None else paths:
        for found in _read_file(path):
            if isinstance(found, Mistake):
                mistakes.append(found)
            else:
                settings[found[0]] = found[1]
    return settings, mistakes


def settings() -> dict[Key, Setting]:
    """BrokenConfig: with each mistake, and nothing else has happened. What is not known is said on stderr."""
    found, mistakes = read()
    lines = "\n  ".join(map(str, mistakes))
    if not all(mistake.unknown for mistake in mistakes):
        raise BrokenConfig(f"Hocket's config file is wrong:\n  {lines}\n  Correct it; `hocket config check` checks it.")
    if mistakes:
        print(f"hocket: in the config file, without effect:\n  {lines}", file=sys.stderr)
    return found


def apply(environment: MutableMapping[str, str] = os.environ) -> None:
    """Adds to ``environment`` what the files say and it does not. BrokenConfig: as in :func:`settings`.

    A relative $HOCKET_RUNTIME_DIR is made absolute: what is started from here may run elsewhere.
    """
    if runtime_dir := environment.get("HOCKET_RUNTIME_DIR"):
        environment["HOCKET_RUNTIME_DIR"] = os.path.join(os.getcwd(), runtime_dir)
    for key, setting in settings().items():
        if not environment.get(key.variable):
            environment[key.variable] = setting.text


def _read_file(path: Path) -> Iterator[Mistake | tuple[Key, Setting]]:
    try:
        text = path.read_bytes().decode("utf-8-sig")  # some editors begin a file with a mark of its encoding
        sections = tomllib.loads(text)
    except OSError as error:
        named = bool(os.environ.get("HOCKET_CONFIG"))
        if named and isinstance(error, FileNotFoundError):
            yield Mistake(path, 0, "there is no such file, and HOCKET_CONFIG names it")
        elif named or _exists(path):
            yield Mistake(path, 0, f"cannot be read: {error.strerror}")
        return
    except UnicodeDecodeError as error:
        yield Mistake(path, error.object.count(b"\n", 0, error.start) + 1, "is not UTF-8")
        return
    except tomllib.TOMLDecodeError as error:
        said = re.fullmatch(r"(.*) \(at line (\d+), column \d+\)", str(error))
        yield Mistake(path, int(said[2]) if said else text.count("\n") + 1, f"no TOML: {said[1] if said else error}")
        return
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, brackets thousands deep
        yield Mistake(path, 0, f"no TOML that can be read: {error}")
        return
    lines = _lines(text)
    for section, inside in sections.items():
        known = {key.name: key for key in KEYS if key.section == section}
        if not known or not isinstance(inside, dict):
            said = _unknown_section(section, bool(known))
            unknown = isinstance(inside, dict) and not known
            yield Mistake(path, lines.get((section, ""), 0), said, unknown)
            continue
        for name, value in inside.items():
            line = lines.get((section, name), lines.get((section, ""), 0))
            if name not in known:
                said = _unknown(f"{section}.{name}", [str(key) for key in known.values()])
                yield Mistake(path, line, said, unknown=True)
                continue
            key = known[name]
            try:
                yield key, Setting(value, key.read(value), path, line)
            except ValueError as error:
                yield Mistake(path, line, f"{key} is {_shown(value)}: it must be {error}")


def _exists(path: Path) -> bool:
    """Whether there is such a file for us: not in a folder that we may not enter, or below something that is none."""
    try:
        path.lstat()
    except OSError:
        return False
    return True


def _unknown_section(section: str, known: bool) -> str:
    if known:
        return f"{section} is a section: write [{section}], and its keys under it"
    of_it = [str(key) for key in KEYS if key.name == section]
    if of_it:
        return f"{section} stands outside a section: it is {of_it[0]}, so write it under [{of_it[0].split('.')[0]}]"
    return _unknown(section, list(dict.fromkeys(key.section for key in KEYS)))


def _shown(value: Any) -> str:
    """As it was written, or its begin where that is long."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no whole number of thousands of digits (sys.set_int_max_str_digits)
        return "a number of thousands of digits" if isinstance(value, int) else "of numbers of thousands of digits"
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}... ({len(text):,} characters)"


def _unknown(name: str, known: list[str]) -> str:
    if len(name) > MOST_SHOWN:
        name = f"{name[:MOST_SHOWN]}... ({len(name):,} characters)"
    near = difflib.get_close_matches(name, known, 1)
    meant = f"did you mean {near[0]}? " if near else ""
    return f"there is no {name}; {meant}There are: {', '.join(known)}"


def _lines(text: str) -> dict[tuple[str, str], int]:
    """(section, key) -> the line it is on, which tomllib does not tell; (section, "") -> where the section begins."""
    found: dict[tuple[str, str], int] = {}
    section = ""
    for number, line in enumerate(text.split("\n"), 1):  # what else str.splitlines() knows ends no line of TOML
        head, closed, _ = line.lstrip().partition("]")
        name, equals, _ = line.partition("=")
        if head.startswith("[") and closed:
            section = _bare(head.lstrip("[").strip())
            found.setdefault((section, ""), number)
        elif equals and _KEY.fullmatch(name):
            first, _, rest = _bare(name.strip()).partition(".")
            key = (section, first) if section else (first, rest)
            found.setdefault(key, number)
            found.setdefault((key[0], ""), number)
    return found


_KEY = re.compile(r"[\w\"'.\s-]+")


def _bare(name: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in name.split("."))
