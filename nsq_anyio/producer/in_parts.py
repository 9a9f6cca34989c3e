"""Batches of messages, split into MPUBs that are small enough for nsqd.

nsqd checks the size of an MPUB first. If it exceeds --max-body-size, nsqd answers E_BAD_BODY and stores none
of the messages. Only this answer names the limit, so the limit is learned from the refusal.

This is for messages that need not be stored all or none: `Producer.publish_many` never splits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..errors import NotSent, PublishRejected
from ..protocol.mpub_encoding import EncodedBodies
from .bodies import SIZE_LENGTH, batch_size
from .producer import Producer

_REFUSAL = re.compile(r"MPUB body too big \d+ > (\d{1,19})", re.ASCII)


class MpubLimit:
    """The largest MPUB that nsqd accepts. Several `InParts` may share the limit that one of them learns.

    :ivar size: the limit in bytes, as far as it is known
    """

    def __init__(self, size: int) -> None:
        self.size: int = size

    def learn(self, refusal: PublishRejected, sent: int) -> None:
        """Lower the limit after a refusal of ``sent`` bytes, whatever limit nsqd names."""
        found = _REFUSAL.fullmatch(refusal.detail)
        named = int(found[1]) if found else sent
        self.size = min(self.size, named if named < sent else sent // 2)


class InParts:
    """Publishes batches that need not be stored all or none.

    :param limit: the limit of an MPUB, lowered when nsqd refuses one
    :ivar done: the number of messages of the last batch that nsqd has stored
    :ivar maybe: the number of further messages that nsqd may have stored
    """

    def __init__(self, producer: Producer, limit: MpubLimit) -> None:
        self._producer = producer
        self._limit = limit
        self.done: int = 0
        self.maybe: int = 0

    async def publish(self, topic: str, batch: Sequence[bytes]) -> None:
        """Publish messages in their order.

        :raises NSQError: as `Producer.publish` does
        """
        self.done = 0
        while self.done < len(batch):
            await self._publish_rest(topic, batch[self.done :])

    async def publish_encoded(self, topic: str, bodies: EncodedBodies) -> None:
        """Publish encoded messages, which is faster as long as nsqd accepts their MPUB.

        :raises NSQError: as `Producer.publish` does
        """
        size = batch_size(0, len(bodies.data))
        if bodies.messages > 1 and size <= self._limit.size:
            try:
                await self._producer._publish_encoded(topic, bodies)
            except PublishRejected as refusal:
                if refusal.code != "E_BAD_BODY":
                    raise
                self._limit.learn(refusal, size)
            else:
                return
        await self.publish(topic, bodies.bodies())

    async def _publish_rest(self, topic: str, rest: Sequence[bytes]) -> None:
        """Publish part after part, until the end, or until the limit falls below their size."""
        size = self._limit.size
        for part in batches(rest, size - batch_size(0, 0), None):
            if self._limit.size < size:
                return  # another `InParts` has lowered the limit
            try:
                await self._publish(topic, part)
            except PublishRejected as refusal:
                if refusal.code != "E_BAD_BODY" or len(part) == 1:
                    raise
                self._limit.learn(refusal, batch_size(len(part), sum(map(len, part))))
                return

    async def _publish(self, topic: str, part: Sequence[bytes]) -> None:
        self.maybe = len(part)
        try:
            if len(part) == 1:
                await self._producer.publish(topic, part[0])  # it may be too large for MPUB only
            else:
                await self._producer.publish_many(topic, part)
        except (PublishRejected, NotSent):
            self.maybe = 0
            raise
        self.done += len(part)
        self.maybe = 0


def batches(messages: Sequence[bytes], max_bytes: int, max_messages: int | None) -> Iterator[list[bytes]]:
    """Split messages into batches for MPUB; a message that is too large for any gets a batch of its own.

    :param max_bytes: the most bytes of a batch, which include 4 for each message
    :param max_messages: the most messages of a batch; None for no limit
    """
    batch: list[bytes] = []
    size = 0
    for message in messages:
        length = len(message) + SIZE_LENGTH
        if batch and (size + length > max_bytes or len(batch) == max_messages):
            yield batch
            batch, size = [], 0
        batch.append(message)
        size += length
    if batch:
        yield batch
