"""A ledger of messages: what was published, how each delivery ended, and whether anything was lost.

::

    ledger = Ledger(fail_share=0.1)
    async with nsq.consume(..., on_event=ledger.on_event) as consumer:
        tasks.start_soon(consumer.run, ledger.handle)
        await ledger.publish(producer, "t", 100)
        ...
        await ledger.settled()

Each message carries a number of its own. A delivery is a message's id with its attempt, at one nsqd: nsqd
counts up with each, so a delivery is handled once at most.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress

import anyio

import nsq_anyio as nsq
from nsq_anyio.events import Event, MessageFinished

from .observe import LIMIT, until

Delivery = tuple[str, str, int]
"""An nsqd's address, a message's id there, and the attempt."""


class Failing(Exception):
    """What a handler of the ledger raises when it is its turn to fail."""


class Ledger:
    """Publishes numbers, handles them, and remembers.

    :param fail_share: of the handlers, 0 to 1: they raise `Failing`
    :param handler_seconds: how long each takes; 0 for no wait at all
    :param size: of the bodies, in bytes
    :ivar confirmed: the numbers that nsqd has taken and must deliver
    :ivar possible: those that it may have taken, or may have lost with its own memory
    :ivar starts: how often each number was handed to a handler
    """

    def __init__(self, *, fail_share: float = 0.0, handler_seconds: float = 0.0, size: int = 50) -> None:
        self.confirmed: set[int] = set()
        self.possible: set[int] = set()
        self.starts: Counter[int] = Counter()
        self.failures = 0
        self._handled: set[int] = set()
        self._missing: set[int] = set()
        self._succeeded: set[Delivery] = set()
        self._finished: set[Delivery] = set()
        self._numbers = 0
        self._fail_share = fail_share
        self._handler_seconds = handler_seconds
        self._padding = b"x" * size
        self._rng = random.Random(1)

    def __str__(self) -> str:
        return (
            f"{len(self.confirmed)} confirmed, {len(self.possible)} more possible, "
            f"{self.starts.total()} deliveries, {self.redeliveries} of them again, {self.failures} failed, "
            f"{len(self._finished)} finished"
        )

    @property
    def redeliveries(self) -> int:
        """Deliveries of numbers that were delivered before; those after a failure are among them."""
        return self.starts.total() - len(self.starts)

    @property
    def duplicates(self) -> int:
        """Deliveries that finished a number which was finished before."""
        return len(self._succeeded) - len(self._handled)

    # Publishing

    def new_bodies(self, count: int) -> list[bytes]:
        """Bodies with new numbers, which are `possible` until they are noted as confirmed."""
        first = self._numbers
        self._numbers += count
        self.possible.update(range(first, self._numbers))
        return [(b"%d " % number).ljust(len(self._padding), b"x") for number in range(first, self._numbers)]

    def note_confirmed(self, bodies: Iterable[bytes]) -> None:
        """nsqd has taken them."""
        numbers = set(map(number_in, bodies))
        self.possible -= numbers
        self.confirmed |= numbers
        self._missing |= numbers - self._handled

    def note_lost(self) -> None:
        """An nsqd has lost its memory: what it had confirmed, and nobody has handled, may never come."""
        self.confirmed -= self._missing
        self.possible |= self._missing
        self._missing = set()

    async def publish(self, producer: nsq.Producer, topic: str, count: int) -> None:
        """Publish a batch, under new numbers each time its outcome is unknown, until it is confirmed."""
        while True:
            bodies = self.new_bodies(count)
            try:
                await producer.publish_many(topic, bodies)
            except nsq.OutcomeUnknown:
                continue
            self.note_confirmed(bodies)
            return

    # Consuming

    async def handle(self, message: nsq.Message) -> None:
        """Note the start and how it ends: the handler to give to `Consumer.run`."""
        number = number_in(message.body)
        self.starts[number] += 1
        if self._handler_seconds:
            await anyio.sleep(self._handler_seconds)
        if self._rng.random() < self._fail_share:
            self.failures += 1
            raise Failing
        self.note_success(message)

    def note_success(self, message: nsq.Message) -> None:
        """The handler of ``message`` has done its work."""
        number = number_in(message.body)
        self._handled.add(number)
        self._missing.discard(number)
        self._succeeded.add((message.nsqd, message.id, message.attempts))

    def on_event(self, event: Event) -> None:
        """Note what is finished: the hook to give to `nsq.consume`."""
        if isinstance(event, MessageFinished):
            self._finished.add((event.nsqd, event.message_id, event.attempts))

    async def more_starts(self, count: int) -> None:
        """Wait until so many more numbers were handed to handlers for the first time.

        :raises TimeoutError: if they are not
        """
        enough = len(self.starts) + count
        await until(lambda: len(self.starts) >= enough)

    # The balance

    async def settled(self, limit: float = LIMIT) -> None:
        """Wait until every confirmed number was handled with success, ``limit`` seconds at most; `check`."""
        with suppress(TimeoutError):  # the check tells more
            await until(lambda: not self._missing, limit)
        self.check()

    def check(self) -> None:
        """Nothing was lost, nothing invented, and nothing finished without success."""
        assert not self._missing, f"{len(self._missing)} lost, such as {sorted(self._missing)[:10]}; {self}"
        invented = self.starts.keys() - self.confirmed - self.possible
        assert not invented, f"{len(invented)} never published, such as {sorted(invented)[:10]}"
        wrong = self._finished - self._succeeded
        assert not wrong, f"{len(wrong)} finished without success, such as {sorted(wrong)[:10]}"


def number_in(body: bytes) -> int:
    return int(body.partition(b" ")[0])
