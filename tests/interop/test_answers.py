"""What becomes of a message: finished, requeued, discarded, given up, touched, timed out."""

import anyio
import pytest

import nsq_anyio as nsq

from .cluster import Cluster, Kind, Server, on_both_kinds
from .observe import LIMIT, Events, take, until

pytestmark = pytest.mark.anyio

SHORT = nsq.ConnectionOptions(msg_timeout=1.0)
"""The least that nsqd takes."""


@pytest.fixture
async def known(cluster: Cluster, nsqd_kind: Kind) -> Server:
    """An nsqd in whose channel t/c delays and timeouts end in time."""
    return await cluster.nsqd(nsqd_kind, channels={"t": ["c"]})


async def test_requeue_with_a_delay(known: Server) -> None:
    await known.publish("t", b"x")
    async with nsq.consume("t", "c", nsqd=known.tcp_address) as consumer:
        with anyio.fail_after(LIMIT):
            first = await anext(consumer)
            first.requeue(0.3)
            requeued_at = anyio.current_time()
            second = await anext(consumer)
            assert anyio.current_time() - requeued_at >= 0.3
            second.requeue(0)
            third = await anext(consumer)
        assert first.id == second.id == third.id
        assert [message.attempts for message in (first, second, third)] == [1, 2, 3]
        third.finish()
        assert consumer.statistics().requeued == 2
    channel = await known.channel("t", "c")
    assert (channel.requeue_count, channel.depth, channel.deferred_count) == (2, 0, 0)


async def test_handlers_say_it_by_raising(known: Server) -> None:
    await known.publish("t", b"requeue", b"discard", b"fail")
    events = Events()
    seen: dict[bytes, int] = {}

    async def handle(message: nsq.Message) -> None:
        seen[message.body] = message.attempts
        if message.attempts == 2:
            if len(seen) == 3 and seen[b"requeue"] == seen[b"fail"] == 2:
                consumer.stop()
            return
        match message.body:
            case b"requeue":
                raise nsq.Requeue(delay=0.1, backoff=False)
            case b"discard":
                raise nsq.Discard("of no use")
            case _:
                raise LookupError("mine")

    options = nsq.ConsumerOptions(requeue_delay=0)
    async with nsq.consume("t", "c", nsqd=known.tcp_address, options=options, on_event=events) as consumer:
        with anyio.fail_after(LIMIT):
            await consumer.run(handle)
    assert seen == {b"requeue": 2, b"discard": 1, b"fail": 2}
    assert [event.reason for event in events.of(nsq.events.MessageDiscarded)] == ["of no use"]
    (failed,) = events.of(nsq.events.HandlerFailed)
    assert isinstance(failed.error, LookupError)
    channel = await known.channel("t", "c")
    assert (channel.depth, channel.in_flight_count, channel.deferred_count) == (0, 0, 0)


async def test_a_message_is_given_up_after_max_attempts(nsqd: Server, topic: str) -> None:
    await nsqd.publish(topic, b"bad", b"good")
    events = Events()
    given_up: list[tuple[bytes, int]] = []
    handled: list[tuple[bytes, int]] = []

    async def give_up(message: nsq.Message) -> None:
        given_up.append((message.body, message.attempts))

    async def handle(message: nsq.Message) -> None:
        handled.append((message.body, message.attempts))
        if message.body == b"bad":
            raise nsq.Requeue(delay=0, backoff=False)

    async with nsq.consume(
        topic,
        "c",
        nsqd=nsqd.tcp_address,
        options=nsq.ConsumerOptions(max_attempts=2),
        on_give_up=give_up,
        on_event=events,
    ) as consumer:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, handle)
            await events.wait_for(nsq.events.GaveUp)
            await until(lambda: len(handled) == 3)
            consumer.stop()
    assert given_up == [(b"bad", 2)]
    assert sorted(handled) == [(b"bad", 1), (b"bad", 2), (b"good", 1)]
    channel = await nsqd.channel(topic, "c")
    assert (channel.depth, channel.in_flight_count, channel.requeue_count) == (0, 0, 1)


async def test_touch_extends(cluster: Cluster) -> None:
    async def check(kind: Kind) -> None:
        nsqd = await cluster.nsqd(kind, channels={"t": ["c"]})
        await nsqd.publish("t", b"x")
        async with nsq.consume("t", "c", nsqd=nsqd.tcp_address, connection=SHORT) as consumer:
            with anyio.fail_after(LIMIT):
                message = await anext(consumer)
            taken_at = anyio.current_time()
            while anyio.current_time() < taken_at + 1.4:  # longer than msg_timeout and nsqd's next look
                message.touch()
                await anyio.sleep(0.2)
            message.finish()
            assert consumer.statistics().timed_out == 0
        channel = await nsqd.channel("t", "c")
        assert (channel.timeout_count, channel.in_flight_count, channel.depth) == (0, 0, 0)

    await on_both_kinds(check)


async def test_an_unanswered_message_comes_again_and_its_late_answer_is_dropped(cluster: Cluster) -> None:
    async def check(kind: Kind) -> None:
        nsqd = await cluster.nsqd(kind, channels={"t": ["c"]})
        await nsqd.publish("t", b"x")
        events = Events()
        async with nsq.consume(
            "t", "c", nsqd=nsqd.tcp_address, connection=SHORT, on_event=events
        ) as consumer:
            with anyio.fail_after(LIMIT):
                first = await anext(consumer)
                second = await anext(consumer)
            assert (first.id, first.attempts) == (second.id, 1)
            assert second.attempts == 2
            first.finish()  # must not answer the second delivery
            assert consumer.statistics().late == 1
            assert (await nsqd.channel("t", "c")).in_flight_count == 1
            second.finish()
        assert not events.of(nsq.events.ResponseFailed)
        channel = await nsqd.channel("t", "c")
        assert (channel.timeout_count, channel.in_flight_count, channel.depth) == (1, 0, 0)
        # However soon nsqd delivers it again: before the consumer's next look at its deadlines, or after.
        assert [event.message_id for event in events.of(nsq.events.MessageTimedOut)] == [first.id]

    await on_both_kinds(check)


@pytest.mark.parametrize("answer", ["finish", "requeue", "touch"])
async def test_an_answer_that_nsqd_refuses_is_an_event(nsqd: Server, topic: str, answer: str) -> None:
    await nsqd.publish(topic, b"x")
    events = Events()
    async with nsq.consume(topic, "c", nsqd=nsqd.tcp_address, on_event=events) as consumer:
        with anyio.fail_after(LIMIT):
            message = await anext(consumer)
        async with nsqd.http() as http:
            await http.empty_channel(topic, "c")  # takes it out of flight behind the consumer's back
        getattr(message, answer)()
        (refused,) = await events.wait_for(nsq.events.ResponseFailed)
        codes = {"finish": "E_FIN_FAILED", "requeue": "E_REQ_FAILED", "touch": "E_TOUCH_FAILED"}
        assert (refused.code, refused.message_id) == (codes[answer], message.id)
        assert consumer.statistics().refused == 1
        # The connection is none the worse for it.
        if answer == "touch":
            message.finish()
        await nsqd.publish(topic, b"y")
        assert [message.body for message in await take(consumer, 1)] == [b"y"]
    assert not events.of(nsq.events.Disconnected)
