"""The heartbeat task: ends a connection on which nsqd has gone silent.

nsqd sends ``_heartbeat_`` every interval; the reader answers it. Two intervals without a byte mean that
the peer, or the way to it, is gone.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio

__all__ = ["watch_silence"]

_INTERVALS = 2


async def watch_silence(last_received: Callable[[], float], interval: float) -> float:
    """Return once nothing was received for more than two intervals; the seconds of silence.

    :param last_received: tells when the last bytes came, on AnyIO's clock
    :param interval: nsqd's heartbeat interval in seconds
    """
    limit = _INTERVALS * interval
    while True:
        remaining = last_received() + limit - anyio.current_time()
        if remaining > 0:
            await anyio.sleep(remaining)
            continue
        # When user code has blocked the event loop, bytes may lie unread: the reader gets a turn before
        # a healthy connection is given up.
        await anyio.sleep(interval / 10)
        silence = anyio.current_time() - last_received()
        if silence > limit:
            return silence
