"""The producer's block: what it waits for at its end, how long, and what ends it early."""

from __future__ import annotations

from functools import partial

import anyio
import pytest

import nsq_anyio as nsq

from ..fake_nsqd import Events, FakeConnection, client_tasks, fake_nsqd, until

pytestmark = pytest.mark.anyio

REFUSAL = b"E_BAD_BODY IDENTIFY msg timeout (1000000) is invalid"


async def refuse_identify(connection: FakeConnection) -> None:
    await connection.introduction()
    await connection.error(REFUSAL)


async def test_a_refused_identify_is_raised_out_of_the_block() -> None:
    async with fake_nsqd(refuse_identify) as fake:
        with pytest.raises(nsq.PermanentRefusal, match="msg timeout") as refused:
            async with nsq.produce(fake.address):
                with anyio.fail_after(5):
                    await anyio.sleep_forever()
        assert refused.value.code == "E_BAD_BODY"
        assert len(fake.connections) == 1  # a permanent refusal is not tried again
        assert not client_tasks()


async def test_a_publish_that_waits_is_ended_by_the_refusal() -> None:
    async with fake_nsqd(refuse_identify) as fake:
        with pytest.raises(nsq.PermanentRefusal):
            async with nsq.produce(fake.address) as producer:
                await producer.publish("t", b"x")


async def test_the_users_error_wins_over_the_refusal() -> None:
    async with fake_nsqd(refuse_identify) as fake:
        events = Events()
        with pytest.raises(LookupError, match="mine"):
            async with nsq.produce(fake.address, on_event=events):
                try:
                    await anyio.sleep_forever()
                finally:
                    raise LookupError("mine")


@pytest.mark.parametrize("coalesce", [False, True])
async def test_publishing_after_the_block(coalesce: bool) -> None:
    options = nsq.ProducerOptions(drain_timeout=0, coalesce=coalesce)
    async with fake_nsqd() as fake:
        async with nsq.produce(fake.address, options=options) as producer:
            pass
        assert "closed" in repr(producer)
        for publish in (producer.publish("t", b"x"), producer.publish_many("t", [b"x"])):
            with pytest.raises(nsq.Closed, match=r"inside `async with nsq\.produce"):
                await publish


async def test_the_end_waits_for_answers() -> None:
    """Also for those that nobody waits for any more."""
    steps: list[str] = []

    async def be_slow(connection: FakeConnection) -> None:
        await connection.identify()
        await connection.expect(b"PUB t")
        arrived.set()
        await connection.eof()  # half-closed: nothing more comes, but the answer is waited for
        steps.append("half-closed")
        await connection.response()
        steps.append("answered")

    arrived = anyio.Event()
    events = Events()
    async with fake_nsqd(be_slow) as fake:
        async with nsq.produce(fake.address, on_event=events) as producer:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(producer.publish, "t", b"x")
                with anyio.fail_after(5):
                    await arrived.wait()
                tasks.cancel_scope.cancel()
        assert steps == ["half-closed", "answered"]
        assert not client_tasks()
    assert [event.confirmed for event in events.of(nsq.events.ConnectionClosed)] == [True]


@pytest.mark.parametrize("cancelled", [False, True])
async def test_the_end_is_bounded(cancelled: bool) -> None:
    async def never_answer(connection: FakeConnection) -> None:
        await connection.identify()
        await connection.expect(b"PUB t")
        arrived.set()
        await anyio.sleep_forever()

    async def publish(producer: nsq.Producer) -> None:
        with pytest.raises(nsq.OutcomeUnknown):
            await producer.publish("t", b"x")

    arrived = anyio.Event()
    options = nsq.ProducerOptions(
        drain_timeout=60 if cancelled else 0.1, cancelled_drain_timeout=0.1 if cancelled else 60
    )
    events = Events()
    async with fake_nsqd(never_answer) as fake, anyio.create_task_group() as tasks:
        started_at = anyio.current_time()
        with anyio.CancelScope() as scope:
            async with nsq.produce(fake.address, options=options, on_event=events) as producer:
                tasks.start_soon(publish, producer)
                with anyio.fail_after(5):
                    await arrived.wait()
                if cancelled:
                    scope.cancel()
                    await anyio.sleep_forever()
        assert scope.cancelled_caught == cancelled
        assert 0.1 <= anyio.current_time() - started_at < 5
        assert not client_tasks()
    assert [event.confirmed for event in events.of(nsq.events.ConnectionClosed)] == [False]


async def test_a_publish_that_waits_for_a_connection_ends_with_the_block() -> None:
    async def publish(producer: nsq.Producer) -> None:
        with pytest.raises(nsq.NotSent, match="block ended before this message was sent"):
            await producer.publish("t", b"x")
        ended.set()

    async def be_silent(connection: FakeConnection) -> None:
        await connection.introduction()
        await anyio.sleep_forever()

    ended = anyio.Event()
    async with fake_nsqd(be_silent) as fake, anyio.create_task_group() as tasks:
        async with nsq.produce(fake.address) as producer:
            tasks.start_soon(publish, producer)
            await until(lambda: fake.connections)
        with anyio.fail_after(5):
            await ended.wait()


@pytest.mark.parametrize("coalesce", [False, True])
async def test_the_end_sends_what_waits_for_room(coalesce: bool) -> None:
    stored: list[bytes] = []

    async def store(connection: FakeConnection) -> None:
        await connection.identify()
        while True:
            await connection.command()
            stored.append(connection.body)
            await anyio.sleep(0.01)
            await connection.response()

    options = nsq.ProducerOptions(max_outstanding=1, coalesce=coalesce)
    async with fake_nsqd(store) as fake, anyio.create_task_group() as tasks:
        async with nsq.produce(fake.address, options=options) as producer:
            await until(lambda: producer.connections)
            for number in range(10):
                tasks.start_soon(producer.publish, "t", b"%d" % number)
            await until(lambda: stored)
        assert producer.statistics().published == 10
    assert sorted(stored) == [b"%d" % number for number in range(10)]


async def test_the_end_does_not_wait_for_who_leaves_meanwhile() -> None:
    async def never_answer(connection: FakeConnection) -> None:
        await connection.identify()
        await connection.command()
        arrived.set()
        await connection.eof()

    arrived = anyio.Event()
    options = nsq.ProducerOptions(drain_timeout=60)
    async with fake_nsqd(never_answer) as fake, anyio.create_task_group() as tasks:
        with anyio.fail_after(5):
            async with nsq.produce(fake.address, options=options) as producer:
                tasks.start_soon(producer.publish, "t", b"x")
                await arrived.wait()
                tasks.start_soon(cancel_soon, tasks.cancel_scope)


async def cancel_soon(scope: anyio.CancelScope) -> None:
    await anyio.wait_all_tasks_blocked()
    scope.cancel()


async def test_the_end_waits_for_the_connection_that_what_was_refused_behind_needs() -> None:
    """It was handed in and is certainly not stored: it is sent on the next connection."""
    stored: list[bytes] = []

    async def refuse_first(connection: FakeConnection) -> None:
        await connection.identify()
        for _ in range(2):
            await connection.command()
        arrived.set()
        with anyio.fail_after(5):
            await ending.wait()
        await connection.error(b"E_BAD_MESSAGE PUB no")

    async def store(connection: FakeConnection) -> None:
        await connection.identify()
        await connection.command()
        stored.append(connection.body)
        await connection.response()
        await connection.eof()

    async def publish(producer: nsq.Producer, body: bytes) -> None:
        if body == b"0":
            with pytest.raises(nsq.PublishRejected):
                await producer.publish("t", body)
        else:
            await producer.publish("t", body)

    arrived, ending = anyio.Event(), anyio.Event()
    options = nsq.ProducerOptions(reconnect_delay=0.05)
    async with fake_nsqd(refuse_first, store) as fake, anyio.create_task_group() as tasks:
        async with nsq.produce(fake.address, options=options) as producer:
            await until(lambda: producer.connections)
            for body in (b"0", b"1"):
                tasks.start_soon(publish, producer, body)
                await until(lambda: producer.statistics().outstanding)
            await arrived.wait()
            ending.set()
    assert stored == [b"1"]


async def test_what_was_not_begun_when_the_end_is_over_is_not_sent() -> None:
    """nsqd reads nothing, so the first body keeps the writer: only that one may be stored."""
    outcomes: list[type[nsq.PublishError]] = []

    async def read_nothing(connection: FakeConnection) -> None:
        await connection.identify()
        await anyio.sleep_forever()

    async def publish(producer: nsq.Producer, mebibytes: int) -> None:
        with pytest.raises(nsq.PublishError) as caught:
            await producer.publish("t", b"x" * mebibytes * 1024 * 1024)
        outcomes.append(caught.type)

    options = nsq.ProducerOptions(drain_timeout=0.05, max_msg_size=16 * 1024 * 1024)
    async with fake_nsqd(read_nothing) as fake, anyio.create_task_group() as tasks:
        async with nsq.produce(fake.address, options=options) as producer:
            await until(lambda: producer.connections)
            for mebibytes, publishes in ((16, 1), (1, 16)):
                outstanding = producer.statistics().outstanding
                for _ in range(publishes):
                    tasks.start_soon(publish, producer, mebibytes)
                await until(partial(is_outstanding, producer, outstanding + publishes))
                await anyio.wait_all_tasks_blocked()
    assert outcomes.count(nsq.OutcomeUnknown) == 1
    assert outcomes.count(nsq.NotSent) == 16


def is_outstanding(producer: nsq.Producer, count: int) -> bool:
    return producer.statistics().outstanding == count


async def test_an_nsqd_that_misbehaves_at_the_end_is_told() -> None:
    async def babble(connection: FakeConnection) -> None:
        await connection.identify()
        await connection.eof()
        await connection.send(b"HTTP/1.1 400 Bad Request")
        await anyio.sleep_forever()

    events = Events()
    async with fake_nsqd(babble) as fake:
        async with nsq.produce(fake.address, on_event=events) as producer:
            await until(lambda: producer.connections)
    (lost,) = events.of(nsq.events.Disconnected)
    assert "HTTP" in str(lost.error)
    assert [event.confirmed for event in events.of(nsq.events.ConnectionClosed)] == [False]


async def test_topics_without_number() -> None:
    """Those that were checked are remembered, but not all for ever."""
    topics: set[bytes] = set()

    async def store(connection: FakeConnection) -> None:
        await connection.identify()
        while True:
            topics.add(await connection.command())
            await connection.response()

    async with fake_nsqd(store) as fake, nsq.produce(fake.address) as producer:
        for number in range(2100):
            await producer.publish(f"t{number}", b"x")
        with pytest.raises(nsq.InvalidName):
            await producer.publish("t 1", b"x")
    assert len(topics) == 2100


async def test_an_error_of_the_block_leaves_as_it_is() -> None:
    async with fake_nsqd() as fake:
        with pytest.raises(LookupError, match="mine"):
            async with nsq.produce(fake.address):
                raise LookupError("mine")
        assert not client_tasks()


async def test_events_in_order() -> None:
    async def store(connection: FakeConnection) -> None:
        await connection.identify({"version": "1.3.0"})
        while True:
            await connection.command()
            await connection.response()

    events = Events()
    async with fake_nsqd(store) as fake:
        async with nsq.produce(fake.address, on_event=events) as producer:
            await producer.publish("t", b"x")
    (published,) = events.of(nsq.events.PublishedMessages)
    assert list(events) == [
        nsq.events.Connected(fake.address, "1.3.0"),
        nsq.events.PublishedMessages(fake.address, 1, published.seconds, topic="t"),
        nsq.events.ConnectionClosed(fake.address, confirmed=True),
    ]
    assert 0 <= published.seconds < 5  # 0 on uvloop, whose clock counts milliseconds


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit])
async def test_an_interrupt_in_the_block_waits_no_longer_than_a_cancellation(
    raised: type[BaseException],
) -> None:
    """Trio raises it there for Ctrl-C, where asyncio cancels the task; nsqd answers nothing any more."""

    async def silent(connection: FakeConnection) -> None:
        await connection.identify()
        while True:
            await connection.command()

    options = nsq.ProducerOptions(drain_timeout=60, cancelled_drain_timeout=0.1)
    async with fake_nsqd(silent) as fake, anyio.create_task_group() as tasks:
        with anyio.fail_after(20), pytest.raises(raised):
            async with nsq.produce(fake.address, options=options) as producer:
                await producer.ready()
                tasks.start_soon(expect_unknown, producer)
                await until(lambda: producer.statistics().outstanding)
                raise raised
    assert not client_tasks()


async def expect_unknown(producer: nsq.Producer) -> None:
    with pytest.raises(nsq.OutcomeUnknown):
        await producer.publish("t", b"x")
