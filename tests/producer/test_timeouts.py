"""How long a publish waits, what it is told then, and what becomes of a publish that is cancelled."""

from __future__ import annotations

from functools import partial

import anyio
import pytest

import nsq_anyio as nsq

from .. import virtual_time
from ..fake_nsqd import Events, FakeConnection, fake_nsqd, until
from .gate import Gate

anyio_backend = virtual_time.anyio_backend
pytestmark = pytest.mark.anyio

both_ways = pytest.mark.parametrize("coalesce", [False, True], ids=["alone", "coalesced"])


async def wait_silently(connection: FakeConnection) -> None:
    await connection.introduction()
    await anyio.sleep_forever()


async def outcome(producer: nsq.Producer, outcomes: dict[str, type[BaseException] | None], body: str) -> None:
    """Publish, and note what the caller is told; nothing for a cancelled one."""
    try:
        await producer.publish("t", body)
    except nsq.PublishError as error:
        outcomes[body] = type(error)
    else:
        outcomes[body] = None


@both_ways
async def test_each_is_given_up_at_its_own_time(coalesce: bool) -> None:
    """Three that start one after the other, with an nsqd that never answers."""
    gate = Gate()
    options = nsq.ProducerOptions(publish_timeout=0.3, drain_timeout=0, coalesce=coalesce)
    times: list[float] = []

    async def publish(number: int) -> None:
        await anyio.sleep(number * 0.1)
        started_at = anyio.current_time()
        with pytest.raises((nsq.OutcomeUnknown, nsq.NotSent), match=r"publish_timeout=0\.3 s"):
            await producer.publish("t", b"%d" % number)
        times.append(anyio.current_time() - started_at)

    async with (
        fake_nsqd(gate.script) as fake,
        nsq.produce(fake.address, options=options) as producer,
        anyio.create_task_group() as tasks,
    ):
        for number in range(3):
            tasks.start_soon(publish, number)
    assert len(times) == 3
    assert all(0.29 <= time < 0.45 for time in times), times


@both_ways
async def test_each_publish_is_given_up_whatever_came_before(coalesce: bool) -> None:
    """An nsqd that is silent, answers, and is silent again: no publish waits for longer than its time."""
    gate = Gate()
    options = nsq.ProducerOptions(publish_timeout=0.3, drain_timeout=0, coalesce=coalesce)

    async def give_up(body: bytes) -> None:
        started_at = anyio.current_time()
        with anyio.fail_after(5), pytest.raises((nsq.OutcomeUnknown, nsq.NotSent), match="publish_timeout"):
            await producer.publish("t", body)
        assert 0.29 <= anyio.current_time() - started_at < 0.45

    async with fake_nsqd(gate.script) as fake, nsq.produce(fake.address, options=options) as producer:
        await give_up(b"first")
        await give_up(b"second")
        await gate.answer(len(gate.received))
        await until(lambda: not producer.statistics().outstanding)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(producer.publish, "t", b"third")
            await until(lambda: gate.received[-1] == b"third")
            await gate.answer()
        await give_up(b"fourth")
        await give_up(b"fifth")


@both_ways
async def test_the_place_of_one_that_was_given_up_is_kept(coalesce: bool) -> None:
    gate = Gate()
    options = nsq.ProducerOptions(publish_timeout=0.1, drain_timeout=0, coalesce=coalesce)
    outcomes: dict[str, type[BaseException] | None] = {}
    async with fake_nsqd(gate.script) as fake, nsq.produce(fake.address, options=options) as producer:
        await outcome(producer, outcomes, "late")
        assert outcomes == {"late": nsq.OutcomeUnknown}
        await gate.answer()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(outcome, producer, outcomes, "next")
            await until(lambda: len(gate.received) == 2)
            await gate.refuse(b"E_BAD_MESSAGE PUB no")
    assert outcomes["next"] is nsq.PublishRejected
    statistics = producer.statistics()
    assert (statistics.published, statistics.unknown, statistics.rejected) == (1, 1, 1)


@both_ways
async def test_the_timeout_covers_the_wait_for_a_connection(coalesce: bool) -> None:
    options = nsq.ProducerOptions(publish_timeout=0.1, connect_timeout=60, coalesce=coalesce)
    async with fake_nsqd(wait_silently) as fake, nsq.produce(fake.address, options=options) as producer:
        with pytest.raises(nsq.NotSent, match=r"no connection within publish_timeout=0\.1 s: nsqd"):
            await producer.publish("t", b"x")
        assert producer.statistics().waiting == 0
        assert producer.statistics().not_sent == 1


@both_ways
async def test_the_wait_for_a_connection_is_bounded(coalesce: bool) -> None:
    options = nsq.ProducerOptions(connect_timeout=0.1, coalesce=coalesce)
    async with fake_nsqd(wait_silently) as fake, nsq.produce(fake.address, options=options) as producer:
        for _ in range(2):
            started_at = anyio.current_time()
            with pytest.raises(nsq.NotSent, match=r"no connection within connect_timeout=0\.1 s"):
                await producer.publish("t", b"x")
            assert 0.099 <= anyio.current_time() - started_at < 1


async def test_the_wait_for_a_connection_begins_with_its_loss() -> None:
    """Not with the publish, which has waited for room before."""
    first, again = Gate(), Gate()
    outcomes: dict[str, type[BaseException] | None] = {}
    options = nsq.ProducerOptions(max_outstanding=1, connect_timeout=0.2, reconnect_delay=0.05)
    async with (
        fake_nsqd(first.script, again.script) as fake,
        nsq.produce(fake.address, options=options) as producer,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(outcome, producer, outcomes, "first")
        await until(lambda: first.received)
        tasks.start_soon(outcome, producer, outcomes, "second")
        await anyio.sleep(0.3)
        await first.hang_up()
        await until(lambda: again.received)
        await again.answer()
    assert outcomes == {"first": nsq.OutcomeUnknown, "second": None}


@both_ways
async def test_what_was_given_up_is_not_sent_again(coalesce: bool) -> None:
    """Although unknown ones are: its caller may have published it anew."""
    first, again = Gate(), Gate()
    outcomes: dict[str, type[BaseException] | None] = {}
    options = nsq.ProducerOptions(
        publish_timeout=0.1, resend_unknown=True, reconnect_delay=0.01, coalesce=coalesce
    )
    async with fake_nsqd(first.script, again.script) as fake:
        async with nsq.produce(fake.address, options=options) as producer:
            await outcome(producer, outcomes, "given up")
            assert outcomes == {"given up": nsq.OutcomeUnknown}
            await first.hang_up()
            await until(lambda: len(fake.connections) == 2)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(producer.publish, "t", b"next")
                await until(lambda: again.received)
                await again.answer()
    assert again.received == [b"next"]
    statistics = producer.statistics()
    assert (statistics.unknown, statistics.resent, statistics.published) == (1, 0, 1)


async def test_those_that_wait_for_a_connection_are_given_up_in_order() -> None:
    options = nsq.ProducerOptions(connect_timeout=0.1)
    gone: list[int] = []

    async def publish(number: int) -> None:
        await anyio.sleep(number * 0.03)
        with pytest.raises(nsq.NotSent, match="connect_timeout"):
            await producer.publish("t", b"x")
        gone.append(number)

    async with (
        fake_nsqd(wait_silently) as fake,
        nsq.produce(fake.address, options=options) as producer,
        anyio.create_task_group() as tasks,
    ):
        for number in range(3):
            tasks.start_soon(publish, number)
    assert gone == [0, 1, 2]


# Cancellation


@both_ways
async def test_cancelled_while_waiting_for_a_connection(coalesce: bool) -> None:
    gate = Gate()
    ready = anyio.Event()

    async def connect_late(connection: FakeConnection) -> None:
        with anyio.fail_after(5):
            await ready.wait()
        await gate.script(connection)

    options = nsq.ProducerOptions(coalesce=coalesce)
    async with fake_nsqd(connect_late) as fake, nsq.produce(fake.address, options=options) as producer:
        with anyio.move_on_after(0.03) as scope:
            await producer.publish("t", b"cancelled")
        assert scope.cancelled_caught
        assert producer.statistics().waiting == 0
        ready.set()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(producer.publish, "t", b"next")
            await until(lambda: gate.received)
            await gate.answer()
    assert gate.received == [b"next"]


@both_ways
async def test_cancelled_while_outstanding(coalesce: bool) -> None:
    """It is stored, and counted; the next answer goes to the next publish."""
    gate = Gate()
    options = nsq.ProducerOptions(coalesce=coalesce)
    async with fake_nsqd(gate.script) as fake, nsq.produce(fake.address, options=options) as producer:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(producer.publish, "t", b"cancelled")
            await until(lambda: gate.received)
            tasks.cancel_scope.cancel()
        assert producer.statistics().outstanding == 1
        async with anyio.create_task_group() as tasks:
            await gate.answer()
            await until(lambda: producer.statistics().published == 1)
            tasks.start_soon(producer.publish, "t", b"next")
            await until(lambda: len(gate.received) == 2)
            await gate.answer()
    assert gate.received == [b"cancelled", b"next"]


@both_ways
async def test_cancelled_while_it_was_to_be_sent_again(coalesce: bool) -> None:
    """nsqd refused the one before it; nobody waits any more when there is a connection again."""
    sent: list[bytes] = []

    async def refuse_first(connection: FakeConnection) -> None:
        await connection.identify()
        for _ in range(2):
            sent.append(await connection.command())
        await connection.error(b"E_BAD_MESSAGE PUB no")
        await connection.close()

    async def accept_later(connection: FakeConnection) -> None:
        await is_cancelled.wait()
        await again.script(connection)

    is_cancelled = anyio.Event()
    again = Gate()
    events = Events()
    outcomes: dict[str, type[BaseException] | None] = {}
    options = nsq.ProducerOptions(reconnect_delay=0.1, coalesce=coalesce, linger=0.001)
    async with (
        fake_nsqd(refuse_first, accept_later) as fake,
        nsq.produce(fake.address, options=options, on_event=events) as producer,
    ):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(outcome, producer, outcomes, "refused")
            await until(lambda: sent)
            tasks.start_soon(outcome, producer, outcomes, "cancelled")
            await until(partial(events.of, nsq.events.PublishResent))
            await until(lambda: outcomes)
            assert producer.statistics().waiting == 1
            tasks.cancel_scope.cancel()
        assert producer.statistics().waiting == 0
        is_cancelled.set()
        await until(lambda: len(events.of(nsq.events.Connected)) == 2)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(producer.publish, "t", b"next")
            await until(lambda: again.received)
            await again.answer()
    assert outcomes == {"refused": nsq.PublishRejected}
    assert again.received == [b"next"]


async def test_cancelled_ones_are_not_sent_again() -> None:
    """nsqd refuses the one before it, so it was not stored, and nobody waits for it."""
    first, again = Gate(), Gate()
    outcomes: dict[str, type[BaseException] | None] = {}
    options = nsq.ProducerOptions(reconnect_delay=0.01)
    async with (
        fake_nsqd(first.script, again.script) as fake,
        nsq.produce(fake.address, options=options) as producer,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(outcome, producer, outcomes, "refused")
        await until(lambda: first.received)
        async with anyio.create_task_group() as cancelled:
            cancelled.start_soon(producer.publish, "t", "goes")
            await until(lambda: len(first.received) == 2)
            cancelled.cancel_scope.cancel()
        tasks.start_soon(outcome, producer, outcomes, "stays")
        await until(lambda: len(first.received) == 3)
        await first.refuse(b"E_BAD_MESSAGE PUB no")
        await until(lambda: again.received)
        await again.answer()
    assert outcomes == {"refused": nsq.PublishRejected, "stays": None}
    assert again.received == [b"stays"]
    assert producer.statistics().resent == 1


async def test_cancelled_between_the_answer_and_its_turn() -> None:
    """The answer counts, whether the caller hears of it or not."""
    gate = Gate()
    async with fake_nsqd(gate.script) as fake, nsq.produce(fake.address) as producer:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(producer.publish, "t", b"x")
            await until(lambda: gate.received)
            await gate.answer()
            while not producer.statistics().published:
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        statistics = producer.statistics()
    assert (statistics.published, statistics.outstanding, statistics.unknown) == (1, 0, 0)
