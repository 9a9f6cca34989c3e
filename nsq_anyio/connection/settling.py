"""The wait for what nsqd still pushes after it has answered CLS."""

from __future__ import annotations

from collections.abc import Callable

import anyio

_FLOWING = 1.0
"""Seconds without a message after which a connection counts as quiet."""

_SETTLING = 0.03
"""Seconds without a message after which no more are expected after CLOSE_WAIT. Without this wait, one stop
in about 1,500 under load left a message in flight."""


async def settled(last_message_at: Callable[[], float]) -> None:
    """Wait until no message is expected any more; at once, if none came lately.

    One goroutine of nsqd answers CLS while another may be about to push a message that it has already taken
    from the queue. nsqd does not say when that is over. On a busy connection such a message arrives within
    milliseconds; it must be handed back.

    :param last_message_at: returns when the last message arrived, on the clock of the event loop
    """
    if anyio.current_time() - last_message_at() > _FLOWING:
        return
    quiet_until = anyio.current_time() + _SETTLING
    while (remaining := quiet_until - anyio.current_time()) > 0:
        await anyio.sleep(remaining)
        quiet_until = max(quiet_until, last_message_at() + _SETTLING)
