"""The messages that handlers get."""

from __future__ import annotations

import sys
from typing import TypeAlias

from faststream.message import StreamMessage

import nsq_anyio as nsq

__all__ = ["NsqBatchMessage", "NsqMessage", "RawMessage"]

RawMessage: TypeAlias = nsq.Message | tuple[nsq.Message, ...]
"""The messages that middlewares get: one of nsq_anyio, or all of a batch."""


class NsqMessage(StreamMessage[nsq.Message]):
    """A message; ``raw_message`` is nsq_anyio's, with its ``attempts``, ``timestamp`` and ``nsqd``."""

    async def ack(self) -> None:
        """Finish the message (FIN). Nothing happens if it is answered."""
        if not self.raw_message.responded:
            self.raw_message.finish()
        await super().ack()

    async def nack(self, delay: float | None = None, *, backoff: bool = True) -> None:
        """Requeue the message (REQ). Nothing happens if it is answered.

        :param delay: seconds until nsqd delivers it again, 0 or more; default: ``requeue_delay`` of the
            subscriber's options, times the attempts
        :param backoff: whether this counts as a failure that slows the subscriber down; default True
        :raises InvalidOption: if the delay is negative or not finite
        """
        await self.raw_message._settle(_requeue(delay, backoff=backoff))
        await super().nack()

    async def reject(self, reason: str = "") -> None:
        """Finish the message as one that cannot be processed. Nothing happens if it is answered.

        Its dead letter is published first, if there is a topic for dead letters.

        :param reason: for the dead letter and the log; default: the error that is being handled
        """
        await self.raw_message._settle(nsq.Discard(reason or _reason()))
        await super().reject()


class NsqBatchMessage(StreamMessage[tuple[nsq.Message, ...]]):
    """Several messages; ``raw_message`` is a tuple. An answer applies to the messages that have none yet."""

    async def ack(self) -> None:
        """Finish the messages (FIN)."""
        for each in self.raw_message:
            if not each.responded:
                each.finish()
        await super().ack()

    async def nack(self, delay: float | None = None, *, backoff: bool = True) -> None:
        """Requeue the messages (REQ), as `NsqMessage.nack` does."""
        requeue = _requeue(delay, backoff=backoff)
        for each in self.raw_message:
            await each._settle(requeue)
        await super().nack()

    async def reject(self, reason: str = "") -> None:
        """Finish the messages, and publish dead letters, as `NsqMessage.reject` does."""
        discard = nsq.Discard(reason or _reason())
        for each in self.raw_message:
            await each._settle(discard)
        await super().reject()


def _requeue(delay: float | None, *, backoff: bool) -> nsq.Requeue:
    requeue = nsq.Requeue(delay, backoff=backoff)
    requeue.__cause__ = sys.exception()  # the dead letter reports it
    return requeue


def _reason() -> str:
    error = sys.exception()
    return "" if error is None else repr(error)
