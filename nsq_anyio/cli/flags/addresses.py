"""The flags that name servers, with the same names in every command.

The names come from NSQ's programs. ``--nsqd`` and ``--nsqlookupd`` are short for the two that most commands
need.
"""

from __future__ import annotations

from typing import Any

from .fields import flag
from .names import complete_nsqd_http, complete_nsqd_tcp


def nsqd_tcp_flag(help: str, *, prefix: str = "", required: bool = False) -> Any:
    """Declare ``--nsqd-tcp-address``, or ``--nsqd``; it is repeatable.

    :param prefix: the prefix of both names, if the names without it are the source's
    """
    return flag(
        help,
        f"--{prefix}nsqd-tcp-address",
        f"--{prefix}nsqd",
        multiple=True,
        required=required,
        metavar="HOST:PORT|PATH",
        shell_complete=complete_nsqd_tcp,
    )


def nsqd_http_flag(help: str) -> Any:
    """Declare ``--nsqd-http-address``, which is repeatable."""
    return flag(help, multiple=True, metavar="HOST:PORT|URL", shell_complete=complete_nsqd_http)


def lookupd_http_flag(help: str, *, prefix: str = "") -> Any:
    """Declare ``--lookupd-http-address``, or ``--nsqlookupd``; it is repeatable.

    :param prefix: the prefix of both names, if the names without it are the source's
    """
    return flag(
        help,
        f"--{prefix}lookupd-http-address",
        f"--{prefix}nsqlookupd",
        multiple=True,
        metavar="HOST:PORT|URL",
    )
