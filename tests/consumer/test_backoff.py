# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
"""Backoff on the wire: RDY 0 everywhere after a failure, a wait, one message on trial, and no stall."""

from typing import Any

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.consumer.distribution import Budget
from nsq_anyio.events import BackoffEnded, BackoffStarted, GaveUp

from ..fake_nsqd import Events, consuming, until
from .backoff import always_failing, backing_off, failure, levels, probed, trial
from .flow import consuming_from, settled

pytestmark = pytest.mark.anyio


# The waits.


async def test_a_failure_stops_all_connections_and_then_exactly_one_is_probed() -> None:
    events = Events()
    options = backing_off(0.15)
    async with consuming_from(3, max_in_flight=6, options=options, on_event=events) as (consumer, peers):
        await settled(peers, 2, 2, 2)
        failed_at = anyio.current_time()
        await failure(consumer, peers[0])
        await settled(peers, 0, 0, 0)
        received = consumer.statistics().received
        await probed(consumer, peers)
        assert anyio.current_time() - failed_at >= 0.149
        await settled(peers, 0, 0, 1)
        assert consumer.statistics().received == received
    (started,) = events.of(BackoffStarted)
    assert started.backoff_level == 1
    assert started.seconds == pytest.approx(0.15)


async def test_a_success_on_trial_ends_it_and_rdy_is_full_again() -> None:
    events = Events()
    async with consuming_from(2, max_in_flight=6, options=backing_off(), on_event=events) as (
        consumer,
        peers,
    ):
        await settled(peers, 3, 3)
        await failure(consumer, peers[0])
        (await trial(consumer, peers)).finish()
        await settled(peers, 3, 3)
        assert len(events.of(BackoffEnded)) == 1
        assert consumer.statistics().backoff_level == 0


async def test_each_failure_waits_longer_and_each_success_for_less() -> None:
    events = Events()
    options = backing_off(0.01)
    async with consuming_from(2, max_in_flight=4, options=options, on_event=events) as (consumer, peers):
        await settled(peers, 2, 2)
        await failure(consumer, peers[0])
        for good in (False, False, True, True):
            message = await trial(consumer, peers)
            message.finish() if good else message.requeue(0)
            assert events.of(BackoffEnded) == []
        (await trial(consumer, peers)).finish()
        await settled(peers, 2, 2)
        assert levels(events) == [1, 2, 3, 2, 1]
        seconds = [event.seconds for event in events.of(BackoffStarted)]
        assert seconds == pytest.approx([0.01, 0.02, 0.03, 0.02, 0.01])
        assert len(events.of(BackoffEnded)) == 1


async def test_only_one_result_counts_for_each_wait() -> None:
    """Those that end during the wait say nothing new: they were started before it."""
    events = Events()
    async with consuming(max_in_flight=5, options=backing_off(), on_event=events) as (consumer, peer):
        await peer.saw(b"RDY 5")
        await peer.messages(*[b"x"] * 5)
        one, two, three, four, five = [await anext(consumer) for _ in range(5)]
        one.requeue(0)
        two.requeue(0)
        three.finish()
        four.requeue(0, backoff=False)
        assert levels(events) == [1]
        await until(lambda: peer.rdy == 1)  # the place that the fifth has still
        five.finish()
        await peer.saw(b"RDY 0")
        await until(lambda: peer.rdy == 5)
        assert levels(events) == [1]
        assert len(events.of(BackoffEnded)) == 1


async def test_a_requeue_that_is_no_failure_starts_no_backoff() -> None:
    events = Events()
    async with consuming(max_in_flight=5, options=backing_off(), on_event=events) as (consumer, peer):
        await peer.message()
        (await anext(consumer)).requeue(0, backoff=False)
        await until(lambda: not peer.in_flight)
        await settled([peer], 5)
    assert levels(events) == []


async def test_a_requeue_that_is_no_failure_waits_again_and_never_stalls() -> None:
    events = Events()
    options = backing_off(0.01)
    async with consuming_from(2, max_in_flight=4, options=options, on_event=events) as (consumer, peers):
        await settled(peers, 2, 2)
        await failure(consumer, peers[0])
        for _ in range(3):
            (await trial(consumer, peers)).requeue(0, backoff=False)
        (await trial(consumer, peers)).finish()
        await settled(peers, 2, 2)
    assert levels(events) == [1, 1, 1, 1]


async def test_a_message_that_is_given_up_is_neither_success_nor_failure() -> None:
    events = Events()
    async with consuming(max_in_flight=2, options=backing_off(0.01), on_event=events) as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, always_failing)
            await peer.message(attempts=101)
            await until(lambda: events.of(GaveUp))
            assert levels(events) == []
            await peer.message()
            await until(lambda: peer.rdy == 1)
            await peer.message(attempts=101)
            await until(lambda: len(events.of(GaveUp)) == 2)
            assert levels(events) == [1]
            assert peer.rdy == 1
            assert events.of(BackoffEnded) == []
            consumer.stop()


async def test_messages_that_are_given_up_cost_no_waits() -> None:
    """Nobody has tried them: the first message that is tried ends the backoff."""
    events = Events()

    async def handler(message: nsq.Message) -> None:
        if message.body == b"fails":
            raise ValueError("mine")

    async with consuming(max_in_flight=2, options=backing_off(0.05), on_event=events) as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, handler)
            await peer.message(b"fails")
            await until(lambda: peer.rdy == 1)
            for count in range(20):
                await peer.message(attempts=101)
                await until(lambda count=count: len(events.of(GaveUp)) > count)  # type: ignore[misc]
            await peer.message(b"good")
            await until(lambda: peer.rdy == 2)
            consumer.stop()
    assert levels(events) == [1]
    assert peer.lines.count(b"RDY 1") == 1


async def test_a_discarded_message_counts_as_a_success() -> None:
    async with consuming(max_in_flight=3, options=backing_off(0.01)) as (consumer, peer):
        await peer.saw(b"RDY 3")
        await failure(consumer, peer)
        async with await trial(consumer, [peer]):
            raise nsq.Discard("no use")
        await until(lambda: peer.rdy == 3)


async def test_messages_go_on_when_handlers_fail_for_a_while() -> None:
    attempts = 0

    async def handler(_message: nsq.Message) -> None:
        nonlocal attempts
        attempts += 1
        if attempts <= 4:
            raise ValueError("mine")

    events = Events()
    async with consuming_from(2, max_in_flight=4, options=backing_off(0.005), on_event=events) as (
        consumer,
        peers,
    ):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: consumer.run(handler, concurrency=4))
            for peer in peers:
                await peer.offer(*[b"x"] * 10)
            await until(lambda: consumer.statistics().finished >= 16)
            consumer.stop()
    assert levels(events)[0] == 1
    assert events.of(BackoffEnded)


# How long.


@pytest.mark.parametrize(
    ("strategy", "maximum", "expected"),
    [("exponential", 120.0, [0.02, 0.04, 0.08]), ("exponential", 0.03, [0.02, 0.03, 0.03])],
)
async def test_the_waits_are_those_of_the_options(
    strategy: Any, maximum: float, expected: list[float]
) -> None:
    events = Events()
    options = backing_off(backoff_strategy=strategy, backoff_multiplier=0.01, max_backoff_duration=maximum)
    async with consuming(max_in_flight=3, options=options, on_event=events) as (consumer, peer):
        await failure(consumer, peer)
        (await trial(consumer, [peer])).requeue(0)
        (await trial(consumer, [peer])).requeue(0)
    assert [event.seconds for event in events.of(BackoffStarted)] == pytest.approx(expected)


async def test_full_jitter_waits_at_random_up_to_that() -> None:
    events = Events()
    options = backing_off(backoff_strategy="full_jitter", backoff_multiplier=0.005)
    async with consuming(max_in_flight=3, options=options, on_event=events) as (consumer, peer):
        await failure(consumer, peer)
        for _ in range(4):
            (await trial(consumer, [peer])).requeue(0, backoff=False)
    seconds = [event.seconds for event in events.of(BackoffStarted)]
    assert len(set(seconds)) > 1
    assert max(seconds) <= 0.01


@pytest.mark.parametrize("seconds", [0, 0.0001, 0.0104, 0.02049])
async def test_a_wait_of_any_length_ends(seconds: float) -> None:
    """Timers may end early: those of uvloop count milliseconds."""
    options = backing_off(backoff_strategy=lambda _level: seconds)
    async with consuming(max_in_flight=2, options=options) as (consumer, peer):
        await failure(consumer, peer)
        for _ in range(3):
            (await trial(consumer, [peer])).requeue(0, backoff=False)


async def test_no_maximum_is_no_backoff() -> None:
    events = Events()
    options = backing_off(max_backoff_duration=0)
    async with consuming(max_in_flight=3, options=options, on_event=events) as (consumer, peer):
        await peer.message()
        (await anext(consumer)).requeue(0)
        await until(lambda: not peer.in_flight)
        await settled([peer], 3)
    assert levels(events) == []
    assert peer.lines.count(b"RDY 0") == 0


async def test_a_consumer_that_waits_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no use for a slot of its budget, and asks for none."""
    asked = 0
    wait_for_one = Budget.wait_for_one

    async def counted(budget: Budget) -> None:
        nonlocal asked
        asked += 1
        await wait_for_one(budget)

    monkeypatch.setattr(Budget, "wait_for_one", counted)
    async with consuming(max_in_flight=3, options=backing_off(0.1)) as (consumer, peer):
        await peer.saw(b"RDY 3")
        await failure(consumer, peer)
        asked = 0
        await until(lambda: peer.rdy == 1)
        assert asked <= 1
