# pyright: reportPossiblyUnboundVariable=false
"""Handlers whose message times out are cancelled then: nsqd gives it to another consumer."""

from typing import Any

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.events import BackoffStarted, HandlerFailed, MessageTimedOut

from .. import virtual_time
from ..fake_nsqd import LIMIT, Events, FakeConnection, client_tasks, consuming, until

anyio_backend = virtual_time.anyio_backend
pytestmark = pytest.mark.anyio

MSG_TIMEOUT = 0.1
EXACT = 0.05
"""Seconds that a cancellation may be late."""

SELDOM = nsq.ConsumerOptions(rdy_redistribute_interval=5, requeue_delay=0)
"""The regular look at timeouts comes too late to help."""


async def impatient(peer: FakeConnection) -> None:
    await peer.subscribe({"msg_timeout": round(MSG_TIMEOUT * 1000)})
    await peer.follow()


class Handler:
    """Sleeps for as long as its message says, and notes what becomes of it."""

    def __init__(self) -> None:
        self.started: list[bytes] = []
        self.done: list[bytes] = []
        self.cancelled: list[bytes] = []
        self.late_by: list[float] = []

    async def __call__(self, message: nsq.Message) -> None:
        self.started.append(message.body)
        try:
            await anyio.sleep(float(message.body))
        except anyio.get_cancelled_exc_class():
            self.cancelled.append(message.body)
            self.late_by.append(anyio.current_time() - message.deadline)
            raise
        self.done.append(message.body)


def answers(peer: FakeConnection) -> list[bytes]:
    return [line for line in peer.lines if line.startswith((b"FIN", b"REQ"))]


async def test_a_handler_is_cancelled_at_the_deadline_and_its_worker_goes_on() -> None:
    handler, events = Handler(), Events()
    async with consuming(impatient, options=SELDOM, on_event=events) as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, handler)
            await peer.message(b"60")
            await until(lambda: len(events.of(MessageTimedOut)) == 1)
            await peer.message(b"60")
            await until(lambda: len(events.of(MessageTimedOut)) == 2)
            id = await peer.message(b"0")
            await peer.saw(b"FIN " + id)
            consumer.stop()
        assert handler.cancelled == [b"60", b"60"]
        assert all(0 <= late <= EXACT for late in handler.late_by)
        assert answers(peer) == [b"FIN " + id]
        statistics = consumer.statistics()
        assert (statistics.timed_out, statistics.finished, statistics.late) == (2, 1, 0)
    assert not events.of(HandlerFailed)
    assert not events.of(BackoffStarted)


async def test_each_handler_has_its_own_deadline_and_the_others_are_not_disturbed() -> None:
    handler = Handler()
    async with consuming(impatient, options=SELDOM) as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: consumer.run(handler, concurrency=3))
            await peer.message(b"60")
            await anyio.sleep(MSG_TIMEOUT / 2)
            await peer.messages(b"0.07", b"61")  # the first ends after the deadline of the one before
            await until(lambda: len(handler.cancelled) == 2)
            consumer.stop()
    assert handler.done == [b"0.07"]
    assert handler.cancelled == [b"60", b"61"]
    assert all(0 <= late <= EXACT for late in handler.late_by)


async def test_a_message_with_little_time_left_is_cancelled_at_its_own_deadline() -> None:
    handler = Handler()
    async with consuming(impatient, max_in_flight=2, options=SELDOM) as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, handler)
            await peer.messages(b"0.06", b"60")  # one after the other, and both have come together
            await until(lambda: handler.cancelled)
            consumer.stop()
    assert handler.done == [b"0.06"]
    assert 0 <= handler.late_by[0] <= EXACT


@pytest.mark.parametrize("cancel", [True, False])
async def test_a_message_that_expired_in_the_queue_is_not_started(cancel: bool) -> None:
    handler = Handler()
    options = nsq.ConsumerOptions(rdy_redistribute_interval=5, cancel_at_deadline=cancel)
    async with consuming(impatient, max_in_flight=3, options=options) as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, handler)
            await peer.messages(b"0.13", b"expired")
            await until(lambda: handler.started)
            await until(lambda: handler.done or handler.cancelled)
            id = await peer.message(b"0")
            await peer.saw(b"FIN " + id)
            consumer.stop()
    assert handler.started == [b"0.13", b"0"]


async def test_switched_off_a_handler_runs_to_its_end_and_its_answer_is_late() -> None:
    handler, events = Handler(), Events()
    options = nsq.ConsumerOptions(rdy_redistribute_interval=0.005, cancel_at_deadline=False)
    async with consuming(impatient, options=options, on_event=events) as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, handler)
            await peer.message(b"0.15")
            await until(lambda: handler.done)
            consumer.stop()
        assert answers(peer) == []
        assert (consumer.statistics().timed_out, consumer.statistics().late) == (1, 1)
    assert len(events.of(MessageTimedOut)) == 1
    assert handler.cancelled == []


# Handlers that are not like others.


async def test_a_handler_that_has_answered_goes_on_past_the_deadline() -> None:
    done = anyio.Event()

    async def handler(message: nsq.Message) -> None:
        message.finish()
        await anyio.sleep(MSG_TIMEOUT + 0.03)
        done.set()

    async with consuming(impatient, options=SELDOM) as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, handler)
            await peer.message()
            with anyio.fail_after(LIMIT):
                await done.wait()
            consumer.stop()
        assert consumer.statistics().timed_out == 0


async def test_a_handler_that_answers_while_the_deadline_of_another_is_awaited() -> None:
    handler = Handler()

    async def touching(message: nsq.Message) -> None:
        if message.body == b"touch":
            for _ in range(4):
                await anyio.sleep(MSG_TIMEOUT / 2)
                message.touch()
        else:
            await handler(message)

    async with consuming(impatient, options=SELDOM) as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: consumer.run(touching, concurrency=2))
            touched, _ = await peer.messages(b"touch", b"60")
            await until(lambda: handler.cancelled)
            await peer.saw(b"FIN " + touched)
            consumer.stop()
        assert peer.lines.count(b"TOUCH " + touched) == 4
    assert 0 <= handler.late_by[0] <= EXACT


async def test_a_touched_message_is_cancelled_at_its_new_deadline() -> None:
    cancelled_at = 0.0
    arrived_at = 0.0

    async def handler(message: nsq.Message) -> None:
        nonlocal cancelled_at, arrived_at
        arrived_at = message.deadline - MSG_TIMEOUT
        await anyio.sleep(0.06)
        message.touch()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled_at = anyio.current_time()

    async with consuming(impatient, options=SELDOM) as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, handler)
            await peer.message()
            await until(lambda: cancelled_at)
            consumer.stop()
    assert 0.155 <= cancelled_at - arrived_at <= 0.16 + 2 * EXACT


async def test_a_handler_that_shields_itself_ends_later_and_harms_nobody() -> None:
    async def handler(message: nsq.Message) -> None:
        with anyio.CancelScope(shield=message.body == b"shielded"):
            await anyio.sleep(0 if message.body == b"next" else MSG_TIMEOUT + 0.05)

    async with consuming(impatient, options=SELDOM) as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, handler)
            await peer.message(b"shielded")
            await until(lambda: consumer.statistics().timed_out == 1)
            assert consumer.statistics().late == 0
            await until(lambda: consumer.statistics().late == 1)
            id = await peer.message(b"next")
            await peer.saw(b"FIN " + id)
            consumer.stop()
        assert answers(peer) == [b"FIN " + id]


async def test_a_handler_that_fails_while_it_is_cancelled_is_told_and_slows_nobody_down() -> None:
    async def handler(message: nsq.Message) -> None:
        try:
            await anyio.sleep(float(message.body))
        except anyio.get_cancelled_exc_class():
            raise ValueError("while cleaning up") from None

    events = Events()
    async with consuming(impatient, options=SELDOM, on_event=events) as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, handler)
            await peer.message(b"60")
            await until(lambda: events.of(HandlerFailed))
            id = await peer.message(b"0")
            await peer.saw(b"FIN " + id)
            consumer.stop()
        assert answers(peer) == [b"FIN " + id]
    assert events.of(BackoffStarted) == []


async def test_a_handler_whose_connection_is_lost_is_cancelled_at_the_deadline() -> None:
    handler = Handler()
    async with consuming(impatient, options=SELDOM) as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, handler)
            await peer.message(b"60")
            await until(lambda: handler.started)
            await peer.close()
            await until(lambda: handler.cancelled)
            consumer.stop()
    assert 0 <= handler.late_by[0] <= EXACT


# At the same time.


async def test_handlers_that_end_exactly_at_the_deadline_are_finished_or_timed_out() -> None:
    async def handler(message: nsq.Message) -> None:
        await anyio.sleep_until(0 if message.body == b"next" else message.deadline)

    async with consuming(impatient, options=SELDOM) as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: consumer.run(handler, concurrency=20))
            await peer.saw(b"RDY 20")
            await peer.messages(*[b"x"] * 20)
            await until(lambda: consumer.statistics().received == 20 and consumer.in_flight == 0)
            ids = await peer.messages(*[b"next"] * 20)
            await peer.saw(*(b"FIN " + id for id in ids))
            consumer.stop()
        statistics = consumer.statistics()
        assert statistics.finished + statistics.timed_out == 40
        assert len(answers(peer)) == len(set(answers(peer))) == statistics.finished


@pytest.mark.parametrize("offset", [-0.01, 0.0, 0.01])
async def test_run_may_be_cancelled_while_a_deadline_cancels(offset: float) -> None:
    async def handler(_message: nsq.Message) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.03)

    options = nsq.ConsumerOptions(rdy_redistribute_interval=5, cancelled_drain_timeout=0.05)
    async with consuming(impatient, options=options) as (consumer, peer):
        with anyio.fail_after(LIMIT), anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(consumer.run, handler)
                await peer.message()
                await until(lambda: consumer.in_flight == 1 and not consumer.statistics().waiting)
                await anyio.sleep(MSG_TIMEOUT + offset)
                scope.cancel()
        assert scope.cancelled_caught
        assert [task for task in client_tasks() if "Workers" in task] == []
        # It can be run again, and takes what comes.
        id = await peer.message()
        async with await anext(consumer):
            pass
        await peer.saw(b"FIN " + id)


async def test_the_block_may_end_while_a_deadline_is_awaited() -> None:
    async def run(consumer: nsq.Consumer, handler: Any) -> None:
        await consumer.run(handler)

    handler = Handler()
    options = nsq.ConsumerOptions(rdy_redistribute_interval=5, cancelled_drain_timeout=0.01)
    async with consuming(impatient, options=options) as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, consumer, handler)
            id = await peer.message(b"60")
            await until(lambda: handler.started)
            tasks.cancel_scope.cancel()
        await peer.saw(b"REQ %b 0" % id)
    assert client_tasks() == []
