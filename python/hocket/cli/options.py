"""Option types that several commands share."""

from __future__ import annotations

import math
from typing import Any

import click

from hocket._job import parse_bytes


class Size(click.ParamType):
    """``8GiB``, ``512MiB`` or bytes; > 0."""

    name = "size"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> int:
        try:
            size = parse_bytes(value)
        except ValueError as error:
            self.fail(str(error), parameter, context)
        if size <= 0:
            self.fail(f"{value!r} is no size: it must be > 0, for example 8GiB", parameter, context)
        return size


class Weight(click.ParamType):
    """A finite number > 0."""

    name = "number"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> float:
        try:
            weight = float(value)
        except ValueError:
            self.fail(
                f"{value!r} is no number; a weight is > 0 (1 is usual; 2 gets twice the time)", parameter, context
            )
        if not (math.isfinite(weight) and weight > 0):
            self.fail(f"{value!r} is not > 0 and finite (1 is usual; 2 gets twice the time)", parameter, context)
        return weight


PRIORITY = click.Choice(["high", "normal", "low"])
COMMAND = click.argument("command", nargs=-1, type=click.UNPROCESSED)
PROGRAM = {"ignore_unknown_options": True, "allow_interspersed_args": False}
