"""What RDY counts become, and messages that flow from fake nsqds."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio

import nsq_anyio as nsq
from nsq_anyio.events import Event, RdyChanged

from ..fake_nsqd import (
    FakeConnection,
    fake_nsqds,
    serve,
    until,
)

OFTEN = nsq.ConsumerOptions(rdy_redistribute_interval=0.005, reconnect_delay=10, max_reconnect_delay=10)


@asynccontextmanager
async def consuming_from(
    count: int, script: Callable[[FakeConnection], Any] = serve, **arguments: Any
) -> AsyncGenerator[tuple[nsq.Consumer, list[FakeConnection]]]:
    """A consumer and nsqd's ends of its connections to so many nsqds, all subscribed."""
    arguments.setdefault("options", OFTEN)
    async with (
        fake_nsqds(count, script) as nsqds,
        nsq.consume("t", "c", nsqd=[nsqd.address for nsqd in nsqds], **arguments) as consumer,
    ):
        yield consumer, [await nsqd.subscribed() for nsqd in nsqds]


def counts(peers: list[FakeConnection]) -> list[int]:
    return sorted(peer.rdy for peer in peers)


async def settled(peers: list[FakeConnection], *expected: int) -> None:
    """The RDY counts become these, and stay."""
    try:
        await until(lambda: counts(peers) == sorted(expected))
    except TimeoutError:
        raise AssertionError(f"{counts(peers)} instead of {sorted(expected)}") from None
    await anyio.sleep(0.02)
    assert counts(peers) == sorted(expected)


class Watch:
    """Looks whenever RDY is raised: what nsqd may have unanswered is within the limit then.

    After it is lowered there may be more for a moment: messages that nsqd had sent before it knew.
    """

    def __init__(self, limiter: anyio.CapacityLimiter | None) -> None:
        self.consumer: nsq.Consumer | None = None
        self.limiter = limiter
        self.raised = 0
        self.peak = 0
        self.broken: list[str] = []
        self._rdy: dict[str, int] = {}

    def __call__(self, event: Event) -> None:
        if not isinstance(event, RdyChanged):
            return
        before, self._rdy[event.nsqd] = self._rdy.get(event.nsqd, 0), event.rdy
        if self.consumer is None or event.rdy < before:
            return
        self.raised += 1
        connections = self.consumer.statistics().per_connection
        unanswered = sum(max(c.rdy, c.in_flight) for c in connections)
        self.peak = max(self.peak, unanswered)
        limit = self.consumer.max_in_flight
        # One that holds more than its RDY count is sent nothing when that is raised.
        sent_more = any(c.nsqd == event.nsqd and c.rdy > c.in_flight for c in connections)
        if (sent_more and unanswered > limit) or sum(c.rdy for c in connections) > limit:
            self.broken.append(f"{connections} exceed {limit}")
        if self.limiter is not None and sum(c.rdy for c in connections) > self.limiter.borrowed_tokens:
            self.broken.append(f"{connections} exceed what was borrowed")


LENDING = nsq.ConsumerOptions(rdy_redistribute_interval=0.005, lend_after=0.04, reconnect_delay=10)


@asynccontextmanager
async def busy(consumer: nsq.Consumer, *peers: FakeConnection) -> AsyncGenerator[None]:
    """Messages flow from these nsqds, and are finished, for the length of the block."""
    over = False

    async def flow(peer: FakeConnection) -> None:
        while not over:
            await peer.offer(b"x")
            (await anext(consumer)).finish()
            await anyio.sleep(0.005)

    async with anyio.create_task_group() as tasks:
        for peer in peers:
            tasks.start_soon(flow, peer)
        yield
        over = True


async def becomes(peers: list[FakeConnection], *expected: int) -> None:
    """The RDY counts become these, in this order."""
    try:
        await until(lambda: [peer.rdy for peer in peers] == list(expected))
    except TimeoutError:
        raise AssertionError(f"{[peer.rdy for peer in peers]} instead of {list(expected)}") from None
