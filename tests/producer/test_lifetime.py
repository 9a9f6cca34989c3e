"""The producer's block: what it waits for at its end, how long, and what ends it early."""

from __future__ import annotations

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


async def test_publishing_after_the_block() -> None:
    async with fake_nsqd() as fake:
        async with nsq.produce(fake.address, options=nsq.ProducerOptions(drain_timeout=0)) as producer:
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
        nsq.events.PublishedMessages(fake.address, "t", 1, published.seconds),
        nsq.events.ConnectionClosed(fake.address, confirmed=True),
    ]
    assert 0 <= published.seconds < 5  # 0 on uvloop, whose clock counts milliseconds
