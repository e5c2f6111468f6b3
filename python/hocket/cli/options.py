"""Option types that several commands share."""

from __future__ import annotations

import math
import pwd
from typing import Any, ClassVar

import click

from hocket._job import GROUP_NAMES, is_group, parse_bytes

NO_LIMIT = "none"


def said(options: dict[str, Any]) -> dict[str, Any]:
    """The options that were given, for the coordinator: to it, none is null."""
    return {name: None if value == NO_LIMIT else value for name, value in options.items() if value is not None}


class Size(click.ParamType):
    """``8GiB``, ``512MiB`` or bytes; > 0. With ``or_none`` also ``none``, which stays that word."""

    name = "size"

    def __init__(self, or_none: bool = False) -> None:
        self.or_none = or_none

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> int | str:
        if self.or_none and value == NO_LIMIT:
            return NO_LIMIT
        try:
            size = parse_bytes(value)
        except ValueError as error:
            self.fail(str(error), parameter, context)
        if size <= 0:
            self.fail(f"{value!r} is no size: it must be > 0, for example 8GiB", parameter, context)
        return size


class Number(click.FloatRange):
    """A finite number of a range: "nan" is in every one of click's, "inf" in those without an end."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> float:
        number = float(super().convert(value, parameter, context))
        if not math.isfinite(number):
            self.fail(f"{value!r} is no finite number, such as 0.5", parameter, context)
        return number


INTERVAL = Number(0.05, 86_400)  # seconds


class Weight(click.ParamType):
    """A finite number > 0. With ``or_none`` also ``none``, which stays that word."""

    name = "number"

    def __init__(self, or_none: bool = False) -> None:
        self.or_none = or_none

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> float | str:
        if self.or_none and value == NO_LIMIT:
            return NO_LIMIT
        try:
            weight = float(value)
        except ValueError:
            self.fail(
                f"{value!r} is no number; a weight is > 0 (1 is usual; 2 gets twice the time)", parameter, context
            )
        if not (math.isfinite(weight) and weight > 0):
            self.fail(f"{value!r} is not > 0 and finite (1 is usual; 2 gets twice the time)", parameter, context)
        return weight


class Percent(click.ParamType):
    """``25%`` or ``0.25``: above 0, at most 100 %. With ``or_none`` also ``none``, which stays that word."""

    name = "share"

    def __init__(self, or_none: bool = False) -> None:
        self.or_none = or_none

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> float | str:
        if self.or_none and value == NO_LIMIT:
            return NO_LIMIT
        text = str(value).strip()
        number = text.removesuffix("%").strip()
        try:
            share = float(number) / (100 if text.endswith("%") else 1)
        except ValueError:
            share = math.nan
        if not 0 < share <= 1:
            none = f", or {NO_LIMIT}" if self.or_none else ""
            self.fail(f"{value!r} is no share: write 25% or 0.25, above 0 and at most 100%{none}", parameter, context)
        return share


class Span(click.ParamType):
    """A time: ``24h``, ``90m``, ``30s`` or ``7d``, above 0; in seconds."""

    name = "time"
    SECONDS: ClassVar = {"s": 1, "m": 60, "h": 3600, "d": 86400}

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        text = str(value).strip()
        try:
            span = float(text[:-1]) * self.SECONDS[text[-1:]]
        except (ValueError, KeyError):
            span = math.nan
        if not 0 < span < math.inf:
            self.fail(f"{value!r} is no time: write 24h, 90m, 30s or 7d", parameter, context)
        return span


class GroupName(click.ParamType):
    """As the coordinator takes it. With ``or_none`` also ``none``, which stays that word."""

    name = "name"

    def __init__(self, or_none: bool = False) -> None:
        self.or_none = or_none

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> str:
        if value == NO_LIMIT and not self.or_none:
            self.fail(f"{NO_LIMIT} means no group: give the name of one", parameter, context)
        if not is_group(value):
            self.fail(f"{value!r} is no name of a group: {GROUP_NAMES}", parameter, context)
        return str(value)


class User(click.ParamType):
    """A name of this machine, or a uid; the uid."""

    name = "user"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> int:
        text = str(value)
        if text.isascii() and text.isdigit() and int(text) < 1 << 32:
            return int(text)
        try:
            return pwd.getpwnam(text).pw_uid
        except KeyError:
            self.fail(f"there is no user {text!r} on this machine, and it is no uid", parameter, context)


PRIORITY = click.Choice(["high", "normal", "low"])
WEIGHT_HELP = "Share of the device, > 0: 2 gets twice the time of 1."
PRIORITY_HELP = "high: before all others under priority, 4 times the weight under fair, pack and srtf; low: 1/4 of it."
GROUP_HELP = "Group of the job; the group's quotas (hocket quota --group) apply to it."
LIMIT_HELP = "The most memory it may hold, on the device and spilled, for example 20GiB."
COMMAND = click.argument("command", nargs=-1, type=click.UNPROCESSED)
PROGRAM = {"ignore_unknown_options": True, "allow_interspersed_args": False}
