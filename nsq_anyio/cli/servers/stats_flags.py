"""The flags of nsqd for latencies and statsd that are neither numbers nor durations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from ..flags.kinds import boolean_option, in_order

_Command = TypeVar("_Command", bound=Callable[..., Any])

STATS_OPTIONS = (
    "e2e_processing_latency_percentiles",
    "statsd_address",
    "statsd_mem_stats",
    "statsd_prefix",
    "statsd_exclude_ephemeral",
)
"""The options of nsqd that `stats_flags` sets."""


def percentiles(text: str) -> list[float]:
    """Parse percentiles, separated by commas.

    :raises click.BadParameter: if a percentile is not a number above 0, at most 1
    """
    numbers: list[float] = []
    for part in text.split(","):
        try:
            number = float(part)
        except ValueError:
            number = 0.0
        if not 0 < number <= 1:
            raise click.BadParameter(
                f"{text!r} is not valid: use numbers above 0, at most 1, such as 0.99,0.5"
            )
        numbers.append(number)
    return numbers


def _all_percentiles(
    context: click.Context, option: click.Parameter, given: tuple[list[float], ...]
) -> list[float]:
    numbers = [number for each in given for number in each]
    # nsqd sorts the values of its flags, but keeps the order of a list in its configuration file.
    from_file = context.get_parameter_source(str(option.name)) is ParameterSource.DEFAULT_MAP
    return numbers if from_file else sorted(numbers, reverse=True)


def _text_or_none(_: click.Context, __: click.Parameter, text: str) -> str | None:
    return text or None


def stats_flags(command: _Command) -> _Command:
    """Add the flags for latencies and statsd."""
    add = in_order(
        click.option(
            "--e2e-processing-latency-percentile",
            "e2e_processing_latency_percentiles",
            type=percentiles,
            metavar="NUMBERS",
            multiple=True,
            callback=_all_percentiles,
            help="Percentiles of the latency from publish to FIN for /stats, above 0 to 1, "
            "such as 0.99,0.5; repeatable.",
        ),
        click.option(
            "--statsd-address",
            metavar="HOST:PORT",
            default="",
            callback=_text_or_none,
            help="Where to send statistics for statsd by UDP.",
        ),
        click.option(
            "--statsd-prefix",
            metavar="TEXT",
            default="nsq.%s",
            show_default=True,
            help="What stands before each name for statsd; %s becomes host and port.",
        ),
        boolean_option(
            "--statsd-mem-stats",
            "Whether statsd gets the number of objects and of garbage collections.",
            default="true",
        ),
        boolean_option(
            "--statsd-exclude-ephemeral", "Whether statsd gets nothing about ephemeral topics and channels."
        ),
    )
    added: _Command = add(command)
    return added
