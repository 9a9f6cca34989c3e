"""``--max-in-flight``, whose default depends on the command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from .kinds import Integer

DEFAULT_MAX_IN_FLIGHT = 200


def max_in_flight_option(default: str) -> Callable[[Any], Any]:
    """Return a decorator that adds ``--max-in-flight``, whose value is None if it is not given.

    :param default: the default that the help shows
    """
    return click.option(
        "--max-in-flight",
        type=Integer(min=1),
        help=f"The most messages in flight, over all nsqds.  [default: {default}]",
    )
