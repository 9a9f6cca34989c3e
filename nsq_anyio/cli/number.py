"""Numbers with a fraction on the command line, in the environment and in a configuration file."""

from __future__ import annotations

import math
from typing import Any

import click

__all__ = ["Number"]


class Number(click.FloatRange):
    """A number in a range, such as ``0.5``.

    It is finite: ``nan`` is neither below nor above any bound, so click's own range takes it.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """See `click.ParamType.convert`."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a number to count with: use one such as 0.5", param, ctx)
        return number
