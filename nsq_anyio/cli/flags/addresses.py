"""The flags that name servers: every command has the same names for the same kind of server.

The names are those of NSQ's programs; ``--nsqd`` and ``--nsqlookupd`` are short for the two that most
commands need.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from .names import complete_nsqd_http, complete_nsqd_tcp

_Option = Callable[[Any], Any]


def nsqd_tcp_option(
    help: str, name: str = "nsqd_tcp_address", *, prefix: str = "", required: bool = False
) -> _Option:
    """Return a decorator that adds ``--nsqd-tcp-address``, or ``--nsqd``; it is repeatable.

    :param name: the parameter of the command
    :param prefix: what both names begin with, if the flag without it names the source
    """
    return click.option(
        f"--{prefix}nsqd-tcp-address",
        f"--{prefix}nsqd",
        name,
        multiple=True,
        required=required,
        metavar="HOST:PORT|PATH",
        shell_complete=complete_nsqd_tcp,
        help=help,
    )


def nsqd_http_option(help: str) -> _Option:
    """Return a decorator that adds ``--nsqd-http-address``, which is repeatable."""
    return click.option(
        "--nsqd-http-address",
        multiple=True,
        metavar="HOST:PORT|URL",
        shell_complete=complete_nsqd_http,
        help=help,
    )


def lookupd_http_option(help: str, name: str = "lookupd_http_address", *, prefix: str = "") -> _Option:
    """Return a decorator that adds ``--lookupd-http-address``, or ``--nsqlookupd``; it is repeatable.

    :param name: the parameter of the command
    :param prefix: what both names begin with, if the flag without it names the source
    """
    return click.option(
        f"--{prefix}lookupd-http-address",
        f"--{prefix}nsqlookupd",
        name,
        multiple=True,
        metavar="HOST:PORT|URL",
        help=help,
    )
