"""One producer's share of the work of ``pub``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..errors import NotSent, PublishRejected
from ..producer import Producer
from .pace import batches

__all__ = ["PubSender"]

_COUNT = 4
"""Bytes before the messages of an MPUB, which tell their number."""

_LIMIT = re.compile(r"MPUB body too big \d+ > (\d{1,19})", re.ASCII)


class PubSender:
    """Publishes batches, in as many MPUBs as nsqd wants them in.

    nsqd looks at the size of an MPUB first: one beyond its --max-body-size is answered with E_BAD_BODY, and
    nothing of it is stored. It tells that size to nobody before, but in that answer.

    :param max_bytes: of an MPUB, until nsqd says otherwise
    :ivar done: how many messages of the last batch nsqd has taken
    :ivar maybe: how many more of it nsqd may have taken
    """

    def __init__(self, producer: Producer, topic: str, max_bytes: int) -> None:
        self._producer = producer
        self._topic = topic
        self._max_bytes = max_bytes
        self.done: int = 0
        self.maybe: int = 0

    async def send(self, batch: Sequence[bytes]) -> None:
        """Publish messages in their order.

        :raises NSQError: as `Producer.publish` does
        """
        self.done = 0
        while self.done < len(batch):
            rest = batch[self.done :]
            part = next(batches(rest, self._max_bytes - _COUNT, None))
            try:
                await self._publish(part)
            except PublishRejected as refusal:
                if refusal.code != "E_BAD_BODY" or len(part) == 1:
                    raise
                self._max_bytes = _limit(refusal, below=self._max_bytes) or self._max_bytes // 2

    async def _publish(self, part: Sequence[bytes]) -> None:
        self.maybe = len(part)
        try:
            if len(part) == 1:
                await self._producer.publish(self._topic, part[0])  # PUB takes what may be too large for MPUB
            else:
                await self._producer.publish_many(self._topic, part)
        except (PublishRejected, NotSent):
            self.maybe = 0
            raise
        self.done += len(part)
        self.maybe = 0


def _limit(refusal: PublishRejected, *, below: int) -> int | None:
    """nsqd's --max-body-size, if it names one; what is no less than was sent is not the reason."""
    found = _LIMIT.fullmatch(refusal.detail)
    return int(found[1]) if found and int(found[1]) < below else None
