"""Dead letters of messages that nsqd has hardly room for."""

from __future__ import annotations

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.consumer.dead_letter import original_body
from nsq_anyio.events import DeadLetterFailed, Disconnected

from ..fake_nsqd import Events
from .cluster import KINDS, Cluster, Kind
from .observe import until_told

pytestmark = pytest.mark.anyio

LIMIT = 4000


async def fail(message: nsq.Message) -> None:
    """A handler."""
    raise ValueError(f"cannot handle {message.body[:10]!r}")


@pytest.mark.parametrize("kind", KINDS)
async def test_the_largest_messages(cluster: Cluster, kind: Kind) -> None:
    nsqd = await cluster.nsqd(kind, channels={"t": ["c"], "t.dead": ["dead-letter"]}, max_msg_size=LIMIT)
    address = nsqd.tcp_address
    bodies = [letter * size for letter, size in ((b"a", 3000), (b"b", 3200), (b"c", 2900))]
    too_large = b"z" * (LIMIT - 50)
    events, lost = Events(), Events()
    async with nsq.produce(address, on_event=lost) as producer:
        for body in (*bodies, too_large):
            await producer.publish("t", body)
        async with nsq.consume(
            "t",
            "c",
            nsqd=address,
            on_event=events,
            dead_letter=nsq.DeadLetter("{topic}.dead", producer=producer),
            options=nsq.ConsumerOptions(max_attempts=1, requeue_delay=0, max_backoff_duration=0),
        ) as consumer:

            async def three_are_dead() -> bool:
                found = await nsqd.channel("t.dead", "dead-letter")
                return found.depth == len(bodies) and bool(events.of(DeadLetterFailed))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(consumer.run, fail)
                await until_told(three_are_dead)
                tasks.cancel_scope.cancel()
        (error,) = {str(event.error) for event in events.of(DeadLetterFailed)}
        assert error.startswith("the dead letter has 4")
        assert f"> {LIMIT})" in error  # what nsqd has said
        # nsqd ends the connection with each refusal: once to learn the limit, and once for each failure.
        assert len(lost.of(Disconnected)) <= 1 + len(events.of(DeadLetterFailed))
        async with nsq.consume("t.dead", "dead-letter", nsqd=address, max_in_flight=10) as consumer:
            found: set[bytes] = set()
            for _ in bodies:
                async with await anext(consumer) as dead:
                    assert dead.headers["nsq-dead-error-type"] == "ValueError"
                    assert dead.headers["nsq-dead-error"].startswith("cannot handle")
                    found.add(original_body(dead.payload, dead.headers))
        assert found == set(bodies)
    channel = await nsqd.channel("t", "c")
    assert channel.depth + channel.in_flight_count + channel.deferred_count == 1  # the one without room
