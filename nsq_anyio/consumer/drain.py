"""How a subscription ends: no more messages come, what is unanswered is handed back, nsqd confirms it all."""

from __future__ import annotations

import anyio

from ..errors import ConnectionFailed
from ..events import ConnectionClosed, Disconnected
from ..protocol import commands
from .subscription import Subscription

__all__ = ["drain", "hand_back_at_once", "retire"]

_FLOWING = 1.0
"""Seconds without a message after which a connection counts as quiet."""

_SETTLING = 0.03
"""Seconds without a message, where messages flowed, until nothing more is expected after CLOSE_WAIT. Without
this wait, one stop in about 1,500 under load left a message in flight."""


async def drain(subscription: Subscription) -> None:
    """Stop, hand back what is unanswered, and see to it that nsqd has handled all answers."""
    if subscription.draining:  # by `retire`, and now the consumer ends; or the other way round
        await subscription.released.wait()
        return
    subscription.draining = True
    connection = subscription.connection
    confirmed = False
    try:
        if connection is not None:
            subscription.stop()
            # Before the wait, so that they go back even if nsqd never answers CLS.
            subscription.requeue_all(list(subscription.in_flight.values()))
            if subscription.close_wait is not None:
                await subscription.close_wait.wait()
                await _settle(subscription)
            await connection.close()
            confirmed = True
    except ConnectionFailed as error:
        subscription.emit(Disconnected(subscription.nsqd, error, None))
    finally:
        subscription.emit(ConnectionClosed(subscription.nsqd, confirmed))
        subscription.released.set()


async def retire(subscription: Subscription, drain_timeout: float, close_timeout: float) -> None:
    """Stop, let what was received be answered, and close: this nsqd is not wanted any more."""
    if subscription.stopping:
        return
    subscription.stop()
    with anyio.move_on_after(drain_timeout):
        while subscription.in_flight:
            subscription.answered = anyio.Event()
            await subscription.answered.wait()
    with anyio.move_on_after(close_timeout):
        await drain(subscription)


def hand_back_at_once(subscription: Subscription) -> None:
    """Hand back what is unanswered without waiting for anything, where no `drain` has come to its end.

    So it is when the event loop ends first: `asyncio.run` cancels all tasks when its main one is over, the
    connection's reader and writer among them. Over a stream of a user's dialer nothing can be sent.
    """
    connection = subscription.connection
    if connection is None or connection.ended or subscription.released.is_set():
        return
    if not subscription.stopping:
        subscription.stopping = True
        # Before the answers, or nsqd would push what is requeued to this connection again.
        connection.outbox.put_first(commands.CLS)
    subscription.requeue_all(list(subscription.in_flight.values()))
    connection.end_now()


async def _settle(subscription: Subscription) -> None:
    """Let a last message come, so that it can be handed back.

    nsqd answers CLS in one goroutine while another may be about to push a message that it took from the queue
    before; nothing tells when that is over. Where messages flow, it comes within milliseconds.
    """
    if anyio.current_time() - subscription.last_message_at > _FLOWING:
        return
    quiet_until = anyio.current_time() + _SETTLING
    while (remaining := quiet_until - anyio.current_time()) > 0:
        await anyio.sleep(remaining)
        quiet_until = max(quiet_until, subscription.last_message_at + _SETTLING)
