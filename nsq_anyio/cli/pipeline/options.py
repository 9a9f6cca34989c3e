"""What the commands around Spark have in common: options of the form ``KEY=VALUE``."""

from __future__ import annotations

import click

__all__ = ["OPTION", "assignments"]


def assignments(_: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    """Read ``KEY=VALUE`` of a repeatable option.

    :raises click.BadParameter: for anything else
    """
    pairs = [text.partition("=") for text in texts]
    for (key, equals, _value), text in zip(pairs, texts, strict=True):
        if not key or not equals:
            raise click.BadParameter(f"{text!r} is not valid: use KEY=VALUE", param=parameter)
    return {key: value for key, _equals, value in pairs}


OPTION = click.option(
    "--option",
    "options",
    multiple=True,
    metavar="KEY=VALUE",
    callback=assignments,
    help='An option of format("nsq"), such as compression=snappy; repeatable.',
)
"""``--option``, as a dict ``options``."""
