# pyright: reportPossiblyUnboundVariable=false
"""Threads of blocking handlers that outlast their message's deadline, `run`, the block, or the event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from threading import Event

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.events import AbandonedThreadEnded, HandlerFailed, ThreadAbandoned

from ..fake_nsqd import LIMIT, Events, FakeConnection, consuming, fake_nsqd, serve, until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

MSG_TIMEOUT = 2.0
"""Seconds in which a thread starts on a busy machine too."""

SHORT = nsq.ConsumerOptions(drain_timeout=0.05, cancelled_drain_timeout=0.05, requeue_delay=0)


async def impatient(peer: FakeConnection) -> None:
    await peer.subscribe({"msg_timeout": round(MSG_TIMEOUT * 1000)})
    await peer.follow()


class Stuck:
    """A handler whose thread hangs until it is released, and then does one more thing."""

    def __init__(self, then: Callable[[nsq.Message], object] | None = None) -> None:
        self.started = 0
        self.ended = Event()
        self.release = Event()
        self.errors: list[BaseException] = []
        self.time_left = 1.0
        self._then = then

    def __call__(self, message: nsq.Message) -> None:
        if message.body == b"quick":
            return
        self.started += 1
        self.release.wait(LIMIT)
        try:
            self.time_left = message.time_left()
            if self._then is not None:
                self._then(message)
        except BaseException as error:
            self.errors.append(error)
            raise
        finally:
            self.ended.set()


def finish_twice(message: nsq.Message) -> None:
    message.touch()
    message.finish()
    with pytest.raises(nsq.AlreadyResponded):
        message.finish()


def finish(message: nsq.Message) -> None:
    message.finish()


def requeue(message: nsq.Message) -> None:
    message.requeue()


def touch(message: nsq.Message) -> None:
    message.touch()


def fail(message: nsq.Message) -> None:
    raise ValueError("late")


async def test_a_thread_past_its_deadline_is_reported_and_keeps_its_place() -> None:
    async with anyio.create_task_group() as tasks:  # each waits for its deadline in real time
        for then in (None, finish, requeue, touch):
            tasks.start_soon(pass_the_deadline, then)


async def pass_the_deadline(then: Callable[[nsq.Message], object] | None) -> None:
    stuck, events = Stuck(then), Events()
    async with consuming(impatient, options=SHORT, on_event=events, max_in_flight=2) as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, stuck)
            stuck_id = await peer.message()
            await until(lambda: events.of(ThreadAbandoned))
            assert consumer.statistics().timed_out == 1
            (told,) = events.of(ThreadAbandoned)
            assert told.timed_out
            assert told.message_id == stuck_id.decode()
            assert 0 < told.running_for < LIMIT
            assert told.function == "Stuck.__call__"
            assert "occupies one of the `concurrency` slots" in str(told)
            waiting = await peer.message(b"quick")
            await anyio.sleep(0.15)
            assert b"FIN " + waiting not in peer.lines
            stuck.release.set()
            await until(lambda: events.of(AbandonedThreadEnded))
            next_id = await peer.message(b"quick")
            await peer.saw(b"FIN " + next_id)
            consumer.stop()
        assert stuck.time_left == 0
        assert consumer.statistics().late == (2 if then is touch else 1)
        assert not any(stuck_id in line for line in peer.lines)
    (ended,) = events.of(AbandonedThreadEnded)
    assert ended.ran_for > told.running_for
    assert len(events.of(ThreadAbandoned)) == 1
    assert not stuck.errors


@pytest.mark.parametrize("end", ["deadline", "stop"])
async def test_a_thread_with_a_batch_is_reported_once_and_each_of_its_messages_counts(end: str) -> None:
    started, release, events = Event(), Event(), Events()

    def save(batch: nsq.Batch) -> None:
        started.set()
        release.wait(LIMIT)
        batch[0].finish()

    ids: list[bytes] = []
    handler = nsq.BatchHandler(save, max_size=2, max_wait=LIMIT)
    async with consuming(impatient, options=SHORT, on_event=events) as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, handler)
            await peer.saw(b"RDY 2")
            ids = await peer.messages(b"a", b"b")
            await until(started.is_set)
            if end == "deadline":
                await until(lambda: events.of(ThreadAbandoned))
                assert consumer.statistics().timed_out == 2
                release.set()
                await until(lambda: events.of(AbandonedThreadEnded))
            consumer.stop()
        (told,) = events.of(ThreadAbandoned)
        assert told.timed_out == (end == "deadline")
        assert told.message_id == ids[0].decode()
        if end == "stop":
            await peer.saw(*(b"REQ %b 0" % id for id in ids))
        release.set()
        await until(lambda: consumer.statistics().late == 2)
    assert len(events.of(AbandonedThreadEnded)) == 1


@pytest.mark.parametrize("then", [None, finish_twice, requeue, fail])
@pytest.mark.parametrize("end", ["stop", "cancel", "cancel twice"])
async def test_run_ends_although_a_thread_hangs(
    end: str, then: Callable[[nsq.Message], object] | None
) -> None:
    stuck, events = Stuck(then), Events()
    async with consuming(options=SHORT, on_event=events) as (consumer, peer):
        with anyio.fail_after(LIMIT):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(consumer.run, stuck)
                id = await peer.message()
                await until(lambda: stuck.started)
                if end == "stop":
                    consumer.stop()
                else:
                    tasks.cancel_scope.cancel()
        await peer.saw(b"REQ %b 0" % id)
        (told,) = events.of(ThreadAbandoned)
        assert not told.timed_out
        assert "may delay the end of the program" in str(told)
        if end == "cancel twice":
            with anyio.CancelScope() as scope:
                scope.cancel()
                await consumer.run(stuck)
        assert not events.of(AbandonedThreadEnded)
        stuck.release.set()
        await until(lambda: events.of(AbandonedThreadEnded))
        late = 2 if then is finish_twice else 1
        await until(lambda: consumer.statistics().late == late)
        answers = [line for line in peer.lines if id in line]
        assert answers == [b"REQ %b 0" % id]
    assert not events.of(HandlerFailed)
    assert [type(error) for error in stuck.errors] == ([ValueError] if then is fail else [])


async def test_a_thread_may_outlast_its_consumer() -> None:
    stuck, events = Stuck(finish_twice), Events()
    async with fake_nsqd(serve) as nsqd:
        with anyio.fail_after(LIMIT):
            async with nsq.consume("t", "c", nsqd=nsqd.address, options=SHORT, on_event=events) as consumer:
                peer = await nsqd.subscribed()
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(consumer.run, stuck)
                    await peer.message()
                    await until(lambda: stuck.started)
                    tasks.cancel_scope.cancel()
        await until(peer.ended.is_set)
        stuck.release.set()
        await until(lambda: events.of(AbandonedThreadEnded))
        await until(lambda: consumer.statistics().late == 2)
    assert not stuck.errors


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
def test_a_thread_may_outlast_its_event_loop(anyio_backend: str, caplog: pytest.LogCaptureFixture) -> None:
    stuck, events = Stuck(finish_twice), Events()

    async def main() -> None:
        async with fake_nsqd(serve) as nsqd:
            async with nsq.consume("t", "c", nsqd=nsqd.address, options=SHORT, on_event=events) as consumer:
                peer = await nsqd.subscribed()
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(consumer.run, stuck)
                    await peer.message()
                    await until(lambda: stuck.started)
                    tasks.cancel_scope.cancel()

    anyio.run(main, backend=anyio_backend)
    with caplog.at_level(logging.WARNING):
        stuck.release.set()
        assert stuck.ended.wait(LIMIT)
        for _ in range(500):
            if "too late for its answer" in caplog.text:
                break
            Event().wait(0.01)
    assert "Stuck.__call__ has ended" in caplog.text
    assert not stuck.errors
    assert not events.of(AbandonedThreadEnded)  # there is no event loop to call the hook in


async def test_a_task_cancelled_by_asyncio_twice_leaves_its_thread() -> None:
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    if task is None:
        pytest.skip("asyncio's own cancellation")
    stuck, events = Stuck(finish_twice), Events()
    options = nsq.ConsumerOptions(cancelled_drain_timeout=0.3)
    async with consuming(options=options, on_event=events) as (consumer, peer):
        running = asyncio.create_task(consumer.run(stuck))
        id = await peer.message()
        await until(lambda: stuck.started)
        running.cancel()
        await anyio.sleep(0.05)
        running.cancel()
        with anyio.fail_after(LIMIT), suppress(asyncio.CancelledError):
            await running
        await until(lambda: events.of(ThreadAbandoned))
        await peer.saw(b"REQ %b 0" % id)
        stuck.release.set()
        await until(lambda: events.of(AbandonedThreadEnded))
    assert not stuck.errors
