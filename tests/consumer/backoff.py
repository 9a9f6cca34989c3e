# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
"""Consumers that back off, and fake nsqds whose messages fail."""

from typing import Any

import anyio

import nsq_anyio as nsq
from nsq_anyio.events import BackoffStarted

from ..fake_nsqd import Events, FakeConnection, until
from .flow import counts

STEP = 0.06
"""Seconds of the first wait; the next ones are multiples of it."""


def backing_off(step: float = STEP, **changes: Any) -> nsq.ConsumerOptions:
    options: dict[str, Any] = {
        "backoff_strategy": lambda level: level * step,  # pyright: ignore[reportUnknownLambdaType]
        "rdy_redistribute_interval": 0.005,
        "requeue_delay": 0,
        "reconnect_delay": 10,
    }
    return nsq.ConsumerOptions(**options | changes)


def levels(events: Events) -> list[int]:
    return [event.backoff_level for event in events.of(BackoffStarted)]


async def failure(consumer: nsq.Consumer, peer: FakeConnection) -> None:
    """One message of it fails, and the consumer waits."""
    await peer.message()
    (await anext(consumer)).requeue(0)
    assert consumer.statistics().backoff_level == 1


async def probed(consumer: nsq.Consumer, peers: list[FakeConnection]) -> FakeConnection:
    """The one that has RDY 1 once a wait is over, while the others have RDY 0."""
    await until(lambda: [rdy for rdy in sent(consumer) if rdy] == [1] and sum(counts(peers)) == 1)
    return next(peer for peer in peers if peer.rdy)


def sent(consumer: nsq.Consumer) -> list[int]:
    """The RDY counts as the client has them; an nsqd may not know of them yet."""
    return [connection.rdy for connection in consumer.statistics().per_connection]


async def trial(consumer: nsq.Consumer, peers: list[FakeConnection]) -> nsq.Message:
    """The message that is let through once a wait is over."""
    await (await probed(consumer, peers)).offer(b"on trial")
    return await anext(consumer)


async def always_failing(_message: nsq.Message) -> None:
    raise ValueError("mine")


def gated(gate: anyio.Event, *, held_back: int) -> Any:
    """The script of nsqds of which one, in the order of arrival, is not served before ``gate``."""
    arrivals = 0

    async def script(peer: FakeConnection) -> None:
        nonlocal arrivals
        arrivals += 1
        if arrivals == held_back:
            await gate.wait()
        await peer.serve()

    return script
