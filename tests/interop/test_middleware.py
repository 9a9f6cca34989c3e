"""Middleware against a server: each outcome, headers across nsqd, and what the statistics say."""

from collections import Counter

import anyio
import pytest

import nsq_anyio as nsq

from ..middleware.noting import Notes
from .cluster import Server
from .observe import LIMIT, PROMPT, until

pytestmark = pytest.mark.anyio

OPTIONS = nsq.ConsumerOptions(max_backoff_duration=0, requeue_delay=0, max_attempts=3)


async def test_each_message_has_one_outcome_for_each_delivery(nsqd: Server, topic: str) -> None:
    published, handled = Notes(), Notes()

    async def handle(message: nsq.Message) -> None:
        assert message.headers["kind"] == message.payload.decode()
        match message.payload:
            case b"discarded":
                raise nsq.Discard("no")
            case b"requeued" if message.attempts == 1:
                raise nsq.Requeue(0, backoff=False)
            case b"failing":
                raise ValueError("always")
            case _:
                pass

    async with (
        nsq.produce(nsqd.tcp_address, middleware=[published.middleware("a")]) as producer,
        nsq.consume(
            topic,
            "c",
            nsqd=nsqd.tcp_address,
            max_in_flight=10,
            middleware=[handled.middleware("a")],
            options=OPTIONS,
            connection=PROMPT,
        ) as consumer,
    ):
        for kind in ("fine", "discarded", "requeued", "failing"):
            await producer.publish(topic, kind, headers={"kind": kind})
        with anyio.fail_after(LIMIT):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: consumer.run(handle, concurrency=3))
                await until(lambda: consumer.statistics().finished == 4)
                consumer.stop()
        statistics = consumer.statistics()
    assert published == ["+a", "-a stored"] * 4
    outcomes = Counter(note.removeprefix("-a ") for note in handled if note.startswith("-"))
    # max_attempts=3: the failing one is given up after its third failure.
    assert outcomes == {"finished": 2, "discarded": 1, "requeued": 4, "gave_up": 1}
    assert (statistics.failed, statistics.discarded, statistics.gave_up) == (3, 1, 1)
    assert (await nsqd.channel(topic, "c")).depth == 0


async def test_a_batch_is_answered_as_one(nsqd: Server, topic: str) -> None:
    notes = Notes()
    await nsqd.publish(topic, b"a", b"b", b"c")
    async with nsq.consume(
        topic,
        "c",
        nsqd=nsqd.tcp_address,
        max_in_flight=3,
        middleware=[notes.middleware("a")],
        options=OPTIONS,
        connection=PROMPT,
    ) as consumer:
        seen: set[bytes] = set()
        with anyio.fail_after(LIMIT):
            async for batch in consumer.batches(3, 0.2):
                async with batch:
                    if batch[0].attempts == 1:
                        raise nsq.Requeue(0, backoff=False)
                    seen |= {message.body for message in batch}
                if consumer.statistics().finished == 3:
                    break
    assert seen == {b"a", b"b", b"c"}
    assert set(notes) == {"+a", "-a requeued", "-a finished"}
    channel = await nsqd.channel(topic, "c")
    assert (channel.depth, channel.in_flight_count) == (0, 0)
