"""Which event loop runs, for the few places where that is worth code of its own."""

from __future__ import annotations

import asyncio
import os
import sys

__all__ = ["SWITCH", "continues_in_callbacks", "on_asyncio", "waits_for_sockets"]

SWITCH = "NSQ_ANYIO_STREAMS"
"""The environment variable that leaves all sockets to AnyIO's own streams, with the value ``anyio``."""

_FIRST_TESTED = (3, 11)
_LAST_TESTED = (3, 13)


def on_asyncio() -> bool:
    """Whether the running task is one of asyncio's, of whatever loop; otherwise it is one of Trio's."""
    try:
        # Trio may run as the guest of an asyncio loop: that loop runs then, but no task of its.
        return asyncio.current_task() is not None
    except RuntimeError:  # no asyncio loop runs here
        return False


def waits_for_sockets() -> bool:
    """Whether the running loop is known to wait well for a socket that a stream of ours reads and writes.

    Trio is, and of asyncio's the loops that stand on a selector, and uvloop. A ProactorEventLoop waits in a
    thread apart, and of other loops nothing is known.
    """
    if os.environ.get(SWITCH) == "anyio" or sys.platform == "win32":
        return False
    return not on_asyncio() or _loop_has_selector()


def continues_in_callbacks() -> bool:
    """Whether a task may go on in the callback of the running loop that brings its bytes.

    It uses what asyncio's futures do inside, so only interpreters count on which the tests have run.
    """
    is_tested = _FIRST_TESTED <= sys.version_info[:2] <= _LAST_TESTED
    return sys.implementation.name == "cpython" and is_tested and on_asyncio() and _loop_has_selector()


def _loop_has_selector() -> bool:
    loop = asyncio.get_running_loop()
    return isinstance(loop, asyncio.SelectorEventLoop) or type(loop).__module__.partition(".")[0] == "uvloop"
