"""The heartbeat task: ends a connection when nsqd has gone silent.

nsqd sends ``_heartbeat_`` every interval; the reader answers it. After two intervals without a byte,
the peer or the network to it is gone.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio

_INTERVALS = 2


async def watch_silence(last_received: Callable[[], float], interval: float) -> float:
    """Wait until nothing was received for more than two intervals; return the seconds of silence.

    :param last_received: returns when the last bytes arrived, on AnyIO's clock
    :param interval: nsqd's heartbeat interval in seconds
    """
    limit = _INTERVALS * interval
    while True:
        remaining = last_received() + limit - anyio.current_time()
        if remaining > 0:
            await anyio.sleep(remaining)
            continue
        # If user code blocked the event loop, received bytes may be unread. Let the reader run before a
        # healthy connection is ended.
        await anyio.sleep(interval / 10)
        silence = anyio.current_time() - last_received()
        if silence > limit:
            return silence
