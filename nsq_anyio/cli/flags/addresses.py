"""The flags that name servers, with the same names in every command.

The names are those of NSQ's programs. ``--nsqd-tcp-address`` and ``--lookupd-http-address``, which most
commands have, may be shortened to ``--nsqd`` and ``--nsqlookupd``.
"""

from __future__ import annotations

from typing import Any

from .fields import flag
from .names import complete_nsqd_http, complete_nsqd_tcp


def nsqd_tcp_flag(help: str, *, prefix: str = "", required: bool = False) -> Any:
    """Declare ``--nsqd-tcp-address``, or ``--nsqd``, which is repeatable.

    :param prefix: the prefix of both names, in commands whose source has the names without it
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
    """Declare ``--lookupd-http-address``, or ``--nsqlookupd``, which is repeatable.

    :param prefix: the prefix of both names, in commands whose source has the names without it
    """
    return flag(
        help,
        f"--{prefix}lookupd-http-address",
        f"--{prefix}nsqlookupd",
        multiple=True,
        metavar="HOST:PORT|URL",
    )
