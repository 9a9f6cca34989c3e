"""Publishes that travel together: what shares a batch, when it leaves, and who is told what."""

from __future__ import annotations

import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

import nsq_anyio as nsq

from .. import virtual_time
from ..fake_nsqd import FakeConnection, fake_nsqd, until
from .gate import Gate

anyio_backend = virtual_time.anyio_backend
pytestmark = pytest.mark.anyio


def bodies_in(line: bytes, data: bytes) -> list[bytes]:
    """The messages of a PUB, DPUB or MPUB."""
    if not line.startswith(b"MPUB "):
        return [data]
    (count,) = struct.unpack_from(">I", data)
    bodies: list[bytes] = []
    position = 4
    for _ in range(count):
        (size,) = struct.unpack_from(">I", data, position)
        bodies.append(data[position + 4 : position + 4 + size])
        position += 4 + size
    assert position == len(data)
    return bodies


class Batches(Gate):
    """A gate that tells the messages of each command."""

    @property
    def batches(self) -> list[list[bytes]]:
        return [bodies_in(line, body) for line, body in zip(self.lines, self.received, strict=True)]

    @property
    def sizes(self) -> list[int]:
        return [len(batch) for batch in self.batches]


@asynccontextmanager
async def coalescing(**options: Any) -> AsyncGenerator[tuple[nsq.Producer, Batches, TaskGroup]]:
    """A producer, its nsqd, which answers when told to, and tasks to publish in."""
    gate = Batches()
    producer_options = nsq.ProducerOptions(coalesce=True, **options)
    async with (
        fake_nsqd(gate.script) as fake,
        nsq.produce(fake.address, options=producer_options) as producer,
        anyio.create_task_group() as tasks,
    ):
        await until(lambda: producer.connections)
        yield producer, gate, tasks


async def test_what_waits_at_the_same_time_travels_together() -> None:
    async with coalescing() as (producer, gate, tasks):
        for number in range(20):
            tasks.start_soon(producer.publish, "t", b"%d" % number)
        await until(lambda: gate.received)
        await gate.answer()
    assert gate.lines == [b"MPUB t"]
    assert sorted(gate.batches[0]) == sorted(b"%d" % number for number in range(20))


async def test_one_alone_is_a_pub_and_does_not_wait() -> None:
    async with coalescing() as (producer, gate, tasks):
        for number in range(3):
            tasks.start_soon(producer.publish, "t", b"%d" % number)
            await until(partial(has_received, gate, number + 1))
            await gate.answer()
            await until(partial(has_published, producer, number + 1))
    assert gate.lines == [b"PUB t"] * 3


def has_received(gate: Gate, count: int) -> bool:
    return len(gate.received) >= count


def has_published(producer: nsq.Producer, count: int) -> bool:
    return producer.statistics().published == count


async def test_while_one_batch_is_on_its_way_the_next_gathers() -> None:
    async with coalescing() as (producer, gate, tasks):
        tasks.start_soon(producer.publish, "t", b"first")
        await until(lambda: gate.received)
        for number in range(5):
            tasks.start_soon(producer.publish, "t", b"%d" % number)
            await anyio.wait_all_tasks_blocked()
        assert await gate.is_stuck_at(1)
        assert producer.statistics().waiting == 5
        await gate.answer()
        assert await gate.is_stuck_at(2)
        await gate.answer()
    assert gate.batches == [[b"first"], [b"%d" % number for number in range(5)]]


async def test_topics_do_not_mix_and_do_not_wait_for_each_other() -> None:
    async with coalescing() as (producer, gate, tasks):
        for number in range(6):
            tasks.start_soon(producer.publish, f"t{number % 2}", b"%d" % number)
        await until(lambda: len(gate.received) == 2)
        await gate.answer(2)
    assert sorted(gate.lines) == [b"MPUB t0", b"MPUB t1"]
    assert gate.sizes == [3, 3]


@pytest.mark.parametrize(
    ("options", "bodies", "full", "rest"),
    [
        ({"max_batch_messages": 4}, 10, [4, 4], 2),
        ({"max_outstanding": 4}, 4, [4], 0),
        ({"max_batch_bytes": 35}, 10, [3, 3, 3], 1),
        ({"max_batch_bytes": 9}, 3, [1, 1], 1),  # one alone always travels
        ({"max_body_size": 2020, "max_batch_messages": 500}, 4, [1, 1, 1], 1),
    ],
)
async def test_full_batches_leave_at_once(
    options: dict[str, int], bodies: int, full: list[int], rest: int
) -> None:
    async with coalescing(**options) as (producer, gate, tasks):
        for number in range(bodies):
            tasks.start_soon(producer.publish, "t", b"%10d" % number)
        assert await gate.is_stuck_at(len(full))
        await gate.answer(len(full))
        if rest:
            assert await gate.is_stuck_at(len(full) + 1)
            await gate.answer()
    assert gate.sizes == full + [rest] * bool(rest)


async def test_deferred_ones_travel_alone() -> None:
    async with coalescing() as (producer, gate, tasks):
        for number in range(3):
            tasks.start_soon(partial(producer.publish, "t", b"%d" % number, defer=1.0))
        await until(lambda: len(gate.received) == 3)
        await gate.answer(3)
    assert gate.lines == [b"DPUB t 1000"] * 3


async def test_publish_many_stays_one_batch() -> None:
    async with coalescing() as (producer, gate, tasks):
        tasks.start_soon(producer.publish, "t", b"other")
        tasks.start_soon(producer.publish_many, "t", [b"a", b"b"])
        await until(lambda: len(gate.received) == 2)
        await gate.answer(2)
    assert sorted(gate.batches) == [[b"a", b"b"], [b"other"]]


async def test_the_order_of_one_task_is_kept() -> None:
    async with coalescing(max_batch_messages=3) as (producer, gate, tasks):

        async def publish(name: str) -> None:
            for number in range(10):
                await producer.publish("t", f"{name}{number}")

        async def answer_all() -> None:
            for answered in range(40):
                await until(partial(has_received, gate, answered + 1))
                await gate.answer()

        async with anyio.create_task_group() as publishing:
            tasks.start_soon(answer_all)
            for name in "abcd":
                publishing.start_soon(publish, name)
        tasks.cancel_scope.cancel()
    sent = [body.decode() for batch in gate.batches for body in batch]
    for name in "abcd":
        assert [body for body in sent if body[0] == name] == [f"{name}{number}" for number in range(10)]


# Lingering


async def test_lingering_waits_for_others() -> None:
    async with coalescing(linger=0.15) as (producer, gate, tasks):
        started_at = anyio.current_time()
        for number in range(3):
            tasks.start_soon(producer.publish, "t", b"%d" % number)
            await anyio.sleep(0.03)
        assert gate.received == []
        await until(lambda: gate.received)
        assert 0.14 <= anyio.current_time() - started_at < 1  # from the first
        await gate.answer()
    assert gate.batches == [[b"0", b"1", b"2"]]


async def test_lingering_does_not_wait_for_answers() -> None:
    async with coalescing(linger=0.02) as (producer, gate, tasks):
        for number in range(3):
            tasks.start_soon(producer.publish, "t", b"%d" % number)
            await until(partial(has_received, gate, number + 1))
        await gate.answer(3)
    assert gate.sizes == [1, 1, 1]


async def test_a_full_batch_does_not_linger() -> None:
    async with coalescing(linger=60, max_batch_messages=2) as (producer, gate, tasks):
        tasks.start_soon(producer.publish, "t", b"a")
        tasks.start_soon(producer.publish, "t", b"b")
        await until(lambda: gate.received)
        await gate.answer()
    assert gate.sizes == [2]


async def test_the_end_of_the_block_sends_what_lingers() -> None:
    gate = Batches()
    stored: list[bytes] = []

    async def publish(producer: nsq.Producer, body: bytes) -> None:
        await producer.publish("t", body)
        stored.append(body)

    options = nsq.ProducerOptions(coalesce=True, linger=60)
    async with fake_nsqd(gate.script) as fake, anyio.create_task_group() as tasks:
        async with nsq.produce(fake.address, options=options) as producer:
            await until(lambda: producer.connections)
            for number in range(3):
                tasks.start_soon(publish, producer, b"%d" % number)
            await until(lambda: producer.statistics().waiting == 3)
            tasks.start_soon(answer_first, gate)
    assert sorted(stored) == [b"0", b"1", b"2"]
    assert gate.sizes == [3]


async def answer_first(gate: Gate) -> None:
    await until(lambda: gate.received)
    await gate.answer()


# Outcomes


async def test_a_batch_that_is_refused_is_sent_one_by_one() -> None:
    """Each caller gets its own outcome: one is refused, the others are stored."""
    commands: list[bytes] = []
    stored: list[bytes] = []

    async def be_nsqd(connection: FakeConnection) -> None:
        await connection.identify()
        while True:
            line = await connection.command()
            commands.append(line)
            if line == b"MPUB t":
                await connection.error(b"E_BAD_MESSAGE MPUB message too big 11 > 10")
                return
            if len(connection.body) > 10:
                await connection.error(b"E_BAD_MESSAGE PUB message too big 11 > 10")
                return
            stored.append(connection.body)
            await connection.response()

    outcomes: dict[bytes, str] = {}

    async def publish(body: bytes) -> None:
        try:
            await producer.publish("t", body)
        except nsq.PublishError as error:
            outcomes[body] = str(error)
        else:
            outcomes[body] = "stored"

    options = nsq.ProducerOptions(coalesce=True, reconnect_delay=0.01, max_reconnect_delay=0.02)
    bodies = [b"a", b"too large 1", b"b", b"c"]
    async with (
        fake_nsqd(be_nsqd) as fake,
        nsq.produce(fake.address, options=options) as producer,
    ):
        await until(lambda: producer.connections)
        async with anyio.create_task_group() as tasks:
            for body in bodies:
                tasks.start_soon(publish, body)
        statistics = producer.statistics()
    assert outcomes.pop(b"too large 1") == "E_BAD_MESSAGE PUB message too big 11 > 10"
    assert outcomes == dict.fromkeys([b"a", b"b", b"c"], "stored")
    assert sorted(stored) == [b"a", b"b", b"c"]
    assert commands.count(b"MPUB t") == 1
    assert (statistics.published, statistics.rejected, statistics.unknown) == (3, 1, 0)


async def test_what_is_wrong_with_the_topic_is_told_to_all_at_once() -> None:
    """One by one would only end a connection for each."""
    refusals: list[nsq.PublishRejected] = []

    async def publish() -> None:
        with pytest.raises(nsq.PublishRejected) as caught:
            await producer.publish("t", b"x")
        refusals.append(caught.value)

    async with coalescing() as (producer, gate, tasks):
        for _ in range(5):
            tasks.start_soon(publish)
        await until(lambda: gate.received)
        await gate.refuse(b"E_UNAUTHORIZED AUTH failed for MPUB")
    assert gate.sizes == [5]
    assert [error.code for error in refusals] == ["E_UNAUTHORIZED"] * 5
    assert len(set(map(id, refusals))) == 5  # an exception of its own for each task
    assert all(isinstance(error.__cause__, nsq.ServerError) for error in refusals)


async def test_batches_become_smaller_when_nsqd_says_they_are_too_large() -> None:
    sizes: list[int] = []

    async def be_strict(connection: FakeConnection) -> None:
        await connection.identify()
        while True:
            bodies = bodies_in(await connection.command(), connection.body)
            sizes.append(len(bodies))
            if len(bodies) > 4:
                await connection.error(b"E_BAD_BODY MPUB body too big")
                return
            await connection.response()

    options = nsq.ProducerOptions(coalesce=True, reconnect_delay=0.01, max_reconnect_delay=0.02)
    async with fake_nsqd(be_strict) as fake, nsq.produce(fake.address, options=options) as producer:
        await until(lambda: producer.connections)
        for _ in range(2):
            async with anyio.create_task_group() as tasks:
                for _ in range(8):
                    tasks.start_soon(producer.publish, "t", b"12345678")
    assert sizes[:9] == [8] + [1] * 8
    assert max(sizes[9:]) == 4


async def test_an_unknown_outcome_is_told_to_each() -> None:
    unknown = 0

    async def publish() -> None:
        nonlocal unknown
        with pytest.raises(nsq.OutcomeUnknown):
            await producer.publish("t", b"x")
        unknown += 1

    async with coalescing() as (producer, gate, tasks):
        for _ in range(5):
            tasks.start_soon(publish)
        await until(lambda: gate.received)
        await gate.hang_up()
        await until(lambda: unknown == 5)
        assert producer.statistics().unknown == 5


async def test_an_unknown_outcome_stays_unknown_for_each() -> None:
    """A batch whose answer was lost is sent again, refused, and sent one by one, where one is refused."""

    async def lose(connection: FakeConnection) -> None:
        await connection.identify()
        await connection.command()
        await connection.close()

    async def be_strict(connection: FakeConnection) -> None:
        await connection.identify()
        while True:
            await connection.command()
            if b"bad" in connection.body:
                await connection.error(b"E_BAD_MESSAGE no")
                return
            await connection.response()

    outcomes: dict[bytes, type[nsq.PublishError] | None] = {}

    async def publish(body: bytes) -> None:
        try:
            await producer.publish("t", body)
        except nsq.PublishError as error:
            outcomes[body] = type(error)
        else:
            outcomes[body] = None

    options = nsq.ProducerOptions(coalesce=True, resend_unknown=True, reconnect_delay=0.01)
    async with (
        fake_nsqd(lose, be_strict) as fake,
        nsq.produce(fake.address, options=options) as producer,
    ):
        await until(lambda: producer.connections)
        async with anyio.create_task_group() as tasks:
            for body in (b"a", b"bad", b"b"):
                tasks.start_soon(publish, body)
    assert outcomes == {b"a": None, b"bad": nsq.OutcomeUnknown, b"b": None}


# Cancellation


async def test_who_is_cancelled_before_the_hand_over_is_taken_out() -> None:
    async with coalescing() as (producer, gate, tasks):
        tasks.start_soon(producer.publish, "t", b"first")
        await until(lambda: gate.received)
        tasks.start_soon(producer.publish, "t", b"stays")
        async with anyio.create_task_group() as cancelled:
            cancelled.start_soon(producer.publish, "t", b"goes")
            await until(lambda: producer.statistics().waiting == 2)
            cancelled.cancel_scope.cancel()
        assert producer.statistics().waiting == 1
        await gate.answer()
        await until(lambda: len(gate.received) == 2)
        await gate.answer()
    assert gate.batches == [[b"first"], [b"stays"]]


async def test_a_batch_that_all_have_left_is_not_sent() -> None:
    async with coalescing(linger=0.05) as (producer, gate, tasks):
        async with anyio.create_task_group() as cancelled:
            for _ in range(3):
                cancelled.start_soon(producer.publish, "t", b"goes")
            await until(lambda: producer.statistics().waiting == 3)
            cancelled.cancel_scope.cancel()
        assert producer.statistics().waiting == 0
        tasks.start_soon(producer.publish, "t", b"next")
        await until(lambda: gate.received)
        await gate.answer()
    assert gate.batches == [[b"next"]]


async def test_who_is_cancelled_after_the_hand_over_leaves_its_place() -> None:
    """The batch is stored whole; the others are told."""
    async with coalescing() as (producer, gate, tasks):
        async with anyio.create_task_group() as cancelled:
            cancelled.start_soon(producer.publish, "t", b"goes")
            tasks.start_soon(producer.publish, "t", b"stays")
            await until(lambda: gate.received)
            cancelled.cancel_scope.cancel()
        assert producer.statistics().outstanding == 2
        await gate.answer()
        await until(lambda: producer.statistics().published == 2)
    assert sorted(gate.batches[0]) == [b"goes", b"stays"]


async def test_who_is_cancelled_while_the_parts_are_sent_one_by_one() -> None:
    again = Batches()

    async def refuse(connection: FakeConnection) -> None:
        await connection.identify()
        await connection.command()
        await connection.error(b"E_BAD_MESSAGE MPUB no")

    async def accept_later(connection: FakeConnection) -> None:
        await is_cancelled.wait()
        await again.script(connection)

    is_cancelled = anyio.Event()
    options = nsq.ProducerOptions(coalesce=True)
    async with (
        fake_nsqd(refuse, accept_later) as fake,
        nsq.produce(fake.address, options=options) as producer,
        anyio.create_task_group() as tasks,
    ):
        await until(lambda: producer.connections)
        async with anyio.create_task_group() as cancelled:
            cancelled.start_soon(producer.publish, "t", b"goes")
            tasks.start_soon(producer.publish, "t", b"stays")
            await until(lambda: producer.statistics().waiting == 2 and not producer.connections)
            cancelled.cancel_scope.cancel()
        is_cancelled.set()
        await until(lambda: again.received)
        await again.answer()
    assert again.batches == [[b"stays"]]
