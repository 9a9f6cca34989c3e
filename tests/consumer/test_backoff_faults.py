# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
"""Backoff when connections come and go, when answers are late, when a strategy fails, and at the end."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.events import BackoffEnded, BackoffStarted, MessageTimedOut, ResponseFailed

from .. import virtual_time
from ..fake_nsqd import LIMIT, Events, FakeConnection, client_tasks, consuming, fake_nsqds, until
from .backoff import always_failing, backing_off, failure, gated, levels, probed, trial
from .flow import consuming_from, settled
from .late_answers import impatient

anyio_backend = virtual_time.anyio_backend
pytestmark = pytest.mark.anyio


# Connections.


async def test_a_connection_that_comes_during_a_wait_gets_nothing_before_its_end() -> None:
    gate = anyio.Event()
    async with fake_nsqds(2, gated(gate, held_back=2)) as nsqds:
        addresses = [nsqd.address for nsqd in nsqds]
        options = backing_off(0.15)
        async with nsq.consume("t", "c", nsqd=addresses, max_in_flight=4, options=options) as consumer:
            await until(lambda: any(c.rdy == 4 for nsqd in nsqds for c in nsqd.connections))
            old, new = [c for nsqd in nsqds for c in nsqd.connections]
            if new.rdy:
                old, new = new, old
            await failure(consumer, old)
            gate.set()
            await until(lambda: len(consumer.connections) == 2)
            await anyio.sleep(0.03)
            assert new.lines == []
            (await trial(consumer, [old, new])).finish()
            await settled([old, new], 2, 2)


async def test_without_a_connection_at_the_end_of_a_wait_the_next_one_is_probed() -> None:
    gate = anyio.Event()
    async with fake_nsqds(1, gated(gate, held_back=2)) as (nsqd,):
        options = backing_off(0.02, reconnect_delay=0.001)
        async with nsq.consume("t", "c", nsqd=nsqd.address, max_in_flight=4, options=options) as consumer:
            peer = await nsqd.subscribed()
            await until(lambda: peer.rdy == 4)
            await failure(consumer, peer)
            await peer.close()
            await anyio.sleep(0.03)  # the wait is over, and one message would be let through
            assert consumer.connections == ()
            gate.set()
            again = await nsqd.subscribed(1)
            (await trial(consumer, [again])).finish()
            await until(lambda: again.rdy == 4)
            assert again.lines[0] == b"RDY 1"


@pytest.mark.parametrize("holds_a_message", [False, True])
async def test_when_the_probed_connection_is_lost_another_is_probed(holds_a_message: bool) -> None:
    events = Events()
    async with consuming_from(2, max_in_flight=4, options=backing_off(0.02), on_event=events) as (
        consumer,
        peers,
    ):
        await settled(peers, 2, 2)
        await failure(consumer, peers[0])
        first = await probed(consumer, peers)
        if holds_a_message:
            await first.offer(b"goes down with it")
            await anext(consumer)
        await first.close()
        (other,) = [peer for peer in peers if peer is not first]
        (await trial(consumer, [other])).finish()
        await until(lambda: other.rdy == 4)
    assert levels(events) == [1]
    assert len(events.of(BackoffEnded)) == 1


async def test_a_probe_on_an_nsqd_without_messages_passes_its_turn_on() -> None:
    options = backing_off(0.02, low_rdy_idle_timeout=0.03)
    async with consuming_from(3, max_in_flight=6, options=options) as (consumer, peers):
        await settled(peers, 2, 2, 2)
        await failure(consumer, peers[0])
        first = await probed(consumer, peers)
        (busy, _) = [peer for peer in peers if peer is not first]
        await busy.offer(b"the only one")
        with anyio.fail_after(LIMIT):
            (await anext(consumer)).finish()
        await settled(peers, 2, 2, 2)


# What counts.


@pytest.mark.parametrize("counts", [False, True])
async def test_a_message_that_times_out_counts_only_by_option(counts: bool) -> None:
    events = Events()
    options = backing_off(backoff_on_timeout=counts)
    async with consuming(impatient(20), max_in_flight=2, options=options, on_event=events) as (
        consumer,
        peer,
    ):
        await peer.message()
        await anext(consumer)
        await until(lambda: events.of(MessageTimedOut))
        assert levels(events) == [1] * counts
        await until(lambda: peer.rdy == (1 if counts else 2))


@pytest.mark.parametrize(
    ("command", "counts", "expected"),
    [("FIN", True, [1]), ("REQ", True, [1]), ("TOUCH", True, []), ("FIN", False, []), ("REQ", False, [])],
)
async def test_a_refused_answer_counts_only_by_option(
    command: str, counts: bool, expected: list[int]
) -> None:
    events = Events()
    options = backing_off(backoff_on_refused_answer=counts)
    async with consuming(max_in_flight=2, options=options, on_event=events) as (consumer, peer):
        id = (await peer.message()).decode()
        message = await anext(consumer)
        message.touch() if command == "TOUCH" else message.finish()
        await peer.error(f"E_{command}_FAILED {command} {id} failed ID not in flight".encode())
        await until(lambda: events.of(ResponseFailed))
        assert levels(events) == expected


async def test_an_answer_that_comes_too_late_counts_for_nothing() -> None:
    events = Events()
    async with consuming(impatient(20), max_in_flight=2, options=backing_off(), on_event=events) as (
        consumer,
        peer,
    ):
        await peer.message()
        message = await anext(consumer)
        await until(lambda: events.of(MessageTimedOut))
        message.requeue(0)
        assert consumer.statistics().late == 1
    assert levels(events) == []


# A strategy of the user's.


def raising(_level: int) -> float:
    raise ZeroDivisionError("mine")


NONSENSE = [
    pytest.param(raising, "raised ZeroDivisionError", id="raises"),
    pytest.param(lambda _level: -1, "returned -1", id="negative"),
    pytest.param(lambda _level: float("nan"), "returned nan", id="nan"),
    pytest.param(lambda _level: None, "returned None", id="None"),
    pytest.param(lambda _level: "1", "returned '1'", id="text"),
]


@asynccontextmanager
async def ended_by(
    strategy: Any, **changes: Any
) -> AsyncGenerator[tuple[nsq.Consumer, FakeConnection, pytest.ExceptionInfo[nsq.InvalidOption]]]:
    """A consumer whose block its strategy ends."""
    options = backing_off(backoff_strategy=strategy, **changes)
    async with fake_nsqds(1) as (nsqd,):
        with anyio.fail_after(LIMIT), pytest.raises(nsq.InvalidOption) as caught:
            async with nsq.consume("t", "c", nsqd=nsqd.address, options=options) as consumer:
                yield consumer, await nsqd.subscribed(), caught
        assert client_tasks() == []


@pytest.mark.parametrize(("strategy", "text"), NONSENSE)
async def test_a_strategy_that_makes_no_sense_ends_the_block_with_a_clear_error(
    strategy: Any, text: str
) -> None:
    async with ended_by(strategy) as (consumer, peer, caught):
        id = await peer.message()
        (await anext(consumer)).requeue(0)
        await anyio.sleep_forever()
    assert f"backoff_strategy {text}" in str(caught.value)
    assert str(caught.value).endswith("at level 1: return seconds, 0 or more")
    assert [line for line in peer.lines if id in line] == [b"REQ %b 0" % id]


async def test_a_strategy_that_raises_is_named_as_the_cause() -> None:
    async with ended_by(raising) as (consumer, peer, caught):
        await peer.message()
        (await anext(consumer)).requeue(0)
        await anyio.sleep_forever()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


async def test_a_strategy_that_fails_under_run_ends_the_block_too() -> None:
    async with ended_by(raising) as (consumer, peer, caught):
        await peer.message()
        await consumer.run(always_failing, concurrency=2)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


async def test_a_strategy_that_fails_on_what_the_reader_hears_ends_the_block_too() -> None:
    async with ended_by(raising, backoff_on_refused_answer=True) as (consumer, peer, caught):
        id = (await peer.message()).decode()
        (await anext(consumer)).finish()
        await peer.error(f"E_FIN_FAILED FIN {id} failed ID not in flight".encode())
        await anyio.sleep_forever()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


async def test_a_strategy_may_wait_for_ever_up_to_the_maximum() -> None:
    events = Events()
    options = backing_off(backoff_strategy=lambda _level: float("inf"), max_backoff_duration=0.02)
    async with consuming(max_in_flight=2, options=options, on_event=events) as (consumer, peer):
        await failure(consumer, peer)
        (await trial(consumer, [peer])).finish()
        await until(lambda: peer.rdy == 2)
    assert [event.seconds for event in events.of(BackoffStarted)] == pytest.approx([0.02])


# The end.


async def test_stop_during_a_wait_ends_at_once() -> None:
    began = anyio.current_time()
    async with consuming(max_in_flight=2, options=backing_off(60)) as (consumer, peer):
        await peer.messages(b"fails", b"waits")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, failing_once)
            await until(lambda: consumer.statistics().requeued == 1)
            consumer.stop()
    assert anyio.current_time() - began < 2


async def failing_once(message: nsq.Message) -> None:
    if message.body == b"fails":
        raise ValueError("mine")


async def test_the_block_ends_at_once_during_a_wait() -> None:
    began = anyio.current_time()
    async with consuming(options=backing_off(60)) as (consumer, peer):
        await failure(consumer, peer)
    assert anyio.current_time() - began < 2
    assert client_tasks() == []


async def test_after_stop_failures_start_no_backoff() -> None:
    events = Events()
    async with consuming(max_in_flight=2, options=backing_off(), on_event=events) as (consumer, peer):
        await peer.message()
        message = await anext(consumer)
        consumer.stop()
        message.requeue(0)
    assert levels(events) == []
