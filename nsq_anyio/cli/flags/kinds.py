"""Kinds of values of flags that several commands take."""

from __future__ import annotations

import math

import click

__all__ = ["FILE", "Integer", "Number"]

FILE = click.Path(dir_okay=False)
"""A path that shells complete; whether it can be used is said where it is used."""


class Integer(click.IntRange):
    """A whole number in a range."""

    name = "integer"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """See `click.ParamType.convert`; the error says what a number can be."""
        try:
            number = int(str(value))
        except ValueError:
            self.fail(f"{str(value)!r} is not a whole number: use {self._described()}", param, ctx)
        return super().convert(number, param, ctx)

    def _described(self) -> str:
        if self.max is None:
            return f"one from {self.min} on"
        return f"one from {self.min} to {self.max}"


class Number(click.FloatRange):
    """A number in a range; neither nan nor inf, with which nothing can be reckoned."""

    name = "number"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """See `click.ParamType.convert`."""
        try:
            number = float(str(value))
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            self.fail(f"{str(value)!r} is not a number: use one such as 0.5", param, ctx)
        return super().convert(number, param, ctx)
