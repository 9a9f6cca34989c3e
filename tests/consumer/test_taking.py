"""Taking messages: by iteration and by `run`, in one task and in several."""

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.consumer.inbox import Inbox, Stop
from nsq_anyio.consumer.message import Arrival, Message
from nsq_anyio.events import Event, HandlerFailed

from ..fake_nsqd import LIMIT, Events, FakeConnection, consuming, fake_nsqd, message_id, until

pytestmark = pytest.mark.anyio


async def nothing(_message: nsq.Message) -> None:
    """A handler that is done at once."""


# The commands on the wire.


async def test_the_exact_commands_of_a_short_life() -> None:
    async def script(peer: FakeConnection) -> None:
        await peer.subscribe()
        await peer.expect(b"RDY 1")
        first = await peer.message(b"first")
        await peer.expect(b"FIN " + first)
        second = await peer.message(b"second")
        await peer.expect(b"TOUCH " + second, b"REQ %b 250" % second)
        await peer.heartbeat()
        await peer.expect(b"NOP")
        heartbeat_answered.set()
        await peer.expect(b"CLS")
        await peer.response(b"CLOSE_WAIT")
        await peer.eof()
        peer.subscribed = anyio.Event()  # tells that the script has come to its end

    heartbeat_answered = anyio.Event()
    async with consuming(script) as (consumer, peer):
        (await anext(consumer)).finish()
        message = await anext(consumer)
        message.touch()
        message.requeue(0.25, backoff=False)
        with anyio.fail_after(LIMIT):
            await heartbeat_answered.wait()
    assert not peer.subscribed.is_set()


async def test_iteration_asks_for_one_message_at_a_time() -> None:
    async with consuming() as (consumer, peer):
        await peer.saw(b"RDY 1")
        await peer.offer(b"a", b"b", b"c")
        bodies: list[bytes] = []
        async for message in consumer:
            assert len(peer.in_flight) == 1
            bodies.append(message.body)
            message.finish()
            if len(bodies) == 3:
                break
        assert bodies == [b"a", b"b", b"c"]
        assert consumer.max_in_flight == 1
    assert [line for line in peer.lines if line.startswith(b"RDY")] == [b"RDY 1"]


async def test_run_asks_for_as_many_messages_as_it_handles_at_once() -> None:
    together = 0
    most = 0

    async def handler(_message: nsq.Message) -> None:
        nonlocal together, most
        together += 1
        most = max(most, together)
        await anyio.sleep(0.01)
        together -= 1

    async with consuming() as (consumer, peer):
        await peer.saw(b"RDY 1")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: consumer.run(handler, concurrency=3))
            await peer.saw(b"RDY 3")
            await peer.offer(*[b"x"] * 9)
            await until(lambda: consumer.statistics().finished == 9)
            consumer.stop()
        assert consumer.max_in_flight == 3
    assert most == 3


async def test_max_in_flight_that_was_given_does_not_follow_the_taker() -> None:
    async with consuming(max_in_flight=7) as (consumer, peer):
        await peer.saw(b"RDY 7")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: consumer.run(nothing, concurrency=20))
            await anyio.wait_all_tasks_blocked()
            consumer.stop()
    assert [line for line in peer.lines if line.startswith(b"RDY")] == [b"RDY 7"]


# Heartbeats.


async def test_heartbeats_are_answered_while_every_handler_is_busy() -> None:
    release = anyio.Event()

    async def handler(_message: nsq.Message) -> None:
        await release.wait()

    async with consuming() as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: consumer.run(handler, concurrency=2))
            await peer.saw(b"RDY 2")
            await peer.offer(b"a", b"b")
            await until(lambda: len(peer.in_flight) == 2 and consumer.statistics().waiting == 0)
            await peer.heartbeat()
            await peer.saw(b"NOP")
            assert consumer.statistics().finished == 0
            release.set()
            consumer.stop()


async def test_heartbeats_are_answered_while_nobody_takes_messages() -> None:
    async with consuming(max_in_flight=2) as (consumer, peer):
        await peer.saw(b"RDY 2")
        await peer.offer(b"a", b"b")
        await until(lambda: consumer.statistics().waiting == 2)
        await peer.heartbeat()
        await peer.saw(b"NOP")


# Several takers.


async def test_several_tasks_share_the_messages_and_each_comes_once() -> None:
    taken: list[list[bytes]] = [[], [], []]

    async with consuming(max_in_flight=5) as (consumer, peer):

        async def take(mine: list[bytes]) -> None:
            async for message in consumer:
                async with message:
                    mine.append(message.body)
                    await anyio.sleep(0.001)

        async with anyio.create_task_group() as tasks:
            for mine in taken:
                tasks.start_soon(take, mine)
            await peer.saw(b"RDY 5")
            await peer.offer(*[b"%d" % n for n in range(60)])
            await until(lambda: consumer.statistics().finished == 60)
            consumer.stop()
    assert sorted(int(body) for mine in taken for body in mine) == list(range(60))
    assert all(taken)


async def test_a_taker_that_is_cancelled_while_it_waits_leaves_the_messages_to_the_others() -> None:
    async with consuming(max_in_flight=5) as (consumer, peer):
        bodies: list[bytes] = []

        async def take() -> None:
            async for message in consumer:
                bodies.append(message.body)
                message.finish()

        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as cancelled:
                    cancelled.start_soon(take)
                    await anyio.wait_all_tasks_blocked()
                    scope.cancel()
            tasks.start_soon(take)
            await peer.saw(b"RDY 5")
            await peer.offer(b"a", b"b")
            await until(lambda: len(bodies) == 2)
            consumer.stop()
        assert bodies == [b"a", b"b"]


class Handover:
    """An inbox on its own, with messages and takers."""

    def __init__(self) -> None:
        self.inbox = Inbox(5, self._give_up)
        self.taken: list[bytes] = []

    async def _give_up(self, message: Message, error: BaseException | None) -> None:
        raise AssertionError(message, error)

    def put(self, *bodies: bytes) -> None:
        delivery = Arrival(None, 0.0, float("inf"), float("inf"))  # type: ignore[arg-type]
        now = anyio.current_time()
        self.inbox.put([Message(delivery, 0, 1, message_id(n), body) for n, body in enumerate(bodies)], now)

    async def take(self, scope: anyio.CancelScope | None = None) -> None:
        with scope or anyio.CancelScope():
            self.taken.append((await self.inbox.take()).body)


@pytest.mark.parametrize("messages", [1, 2, 7, 20])
async def test_the_takers_of_one_chunk_wake_each_other(messages: int) -> None:
    handover = Handover()
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            for _ in range(messages):
                tasks.start_soon(handover.take)
            await anyio.wait_all_tasks_blocked()
            handover.put(*[b"%d" % n for n in range(messages)])
    assert sorted(handover.taken, key=int) == [b"%d" % n for n in range(messages)]


async def test_handlers_that_never_wait_are_called_by_one_task() -> None:
    handover = Handover()
    callers: list[int] = []

    async def work() -> None:
        while True:
            await handover.take()
            callers.append(anyio.get_current_task().id)

    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(work)
        await anyio.wait_all_tasks_blocked()
        handover.put(*[b"x"] * 20)
        await until(lambda: len(callers) == 20)
        tasks.cancel_scope.cancel()
    assert len(set(callers)) == 1


async def test_a_taker_that_ends_when_it_is_woken_leaves_the_message_to_the_others() -> None:
    handover, stop = Handover(), Stop()

    async def take_until_stopped() -> None:
        with pytest.raises(StopAsyncIteration):
            await handover.inbox.take(stop)

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take_until_stopped)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(handover.take)
            await anyio.wait_all_tasks_blocked()
            handover.put(b"a")  # wakes the first, ...
            stop.reached = True  # ... which ends by itself then
    assert handover.taken == [b"a"]


async def test_a_taker_that_gives_a_message_up_does_not_hold_up_the_others() -> None:
    given_up = anyio.Event()

    async def give_up(message: Message, error: BaseException | None) -> None:
        del message, error
        await given_up.wait()

    handover = Handover()
    handover.inbox = Inbox(5, give_up)
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(handover.take)
            await anyio.wait_all_tasks_blocked()
            delivery = Arrival(None, 0.0, float("inf"), float("inf"))  # type: ignore[arg-type]
            handover.inbox.put_failed(Message(delivery, 0, 1, message_id(9), b"bad"), ValueError())
            handover.put(b"a", b"b")
            await until(lambda: handover.taken == [b"a"])
            given_up.set()
    assert handover.taken == [b"a", b"b"]


async def test_a_wake_up_that_meets_a_cancelled_taker_is_passed_on() -> None:
    """One message wakes one taker; cancelled in that very moment, it must not sleep on for the others."""
    handover = Handover()
    scope = anyio.CancelScope()
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(handover.take, scope)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(handover.take)
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
            handover.put(b"a")  # wakes the first, which is cancelled by now
    assert handover.taken == [b"a"]


@pytest.mark.parametrize("cancelled_first", [True, False])
async def test_no_message_is_lost_when_takers_are_cancelled_as_messages_come(cancelled_first: bool) -> None:
    handover = Handover()
    scopes = [anyio.CancelScope() for _ in range(4)]
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            for scope in scopes:
                tasks.start_soon(handover.take, scope)
            await anyio.wait_all_tasks_blocked()
            if cancelled_first:
                scopes[0].cancel()
                scopes[2].cancel()
            handover.put(b"a", b"b", b"c", b"d")
            if not cancelled_first:
                scopes[0].cancel()
                scopes[2].cancel()
        left = len(handover.inbox)
    assert sorted(handover.taken) == sorted(set(handover.taken))
    assert len(handover.taken) + left == 4
    assert len(handover.taken) >= 2


async def test_while_messages_abound_other_tasks_get_their_turn() -> None:
    handover = Handover()
    handover.put(*[b"x"] * 1000)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        for _ in range(1000):
            await handover.inbox.take()
        tasks.cancel_scope.cancel()
    assert turns >= 1000 // 100


async def test_a_stop_during_a_takers_checkpoint_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    handover = Handover()
    handover.put(*[b"x"] * 64)
    for _ in range(64):
        await handover.inbox.take()

    async def checkpoint() -> None:
        handover.inbox.stop()

    monkeypatch.setattr(anyio.lowlevel, "checkpoint", checkpoint)
    with pytest.raises(StopAsyncIteration), anyio.fail_after(LIMIT):
        await handover.inbox.take()


# Failing.


async def test_failing_handlers_stop_neither_run_nor_the_reader() -> None:
    events = Events()

    async def handler(message: nsq.Message) -> None:
        if message.body == b"bad":
            raise ValueError("mine")

    options = nsq.ConsumerOptions(max_backoff_duration=0)
    async with consuming(on_event=events, options=options) as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: consumer.run(handler, concurrency=2))
            await peer.offer(*[b"bad"] * 5, *[b"good"] * 5)
            await until(lambda: consumer.statistics().finished == 5)
            consumer.stop()
    assert len(events.of(HandlerFailed)) == 5
    assert consumer.statistics().requeued == 5


async def test_an_event_hook_that_raises_is_logged_and_harms_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def hook(_event: Event) -> None:
        raise ValueError("mine")

    async with consuming(on_event=hook) as (consumer, peer):
        id = await peer.message()
        (await anext(consumer)).finish()
        await peer.saw(b"FIN " + id)
    assert "the on_event hook raised" in caplog.text


# What it tells of itself.


async def test_a_consumer_is_starved_when_nearly_all_that_rdy_allows_is_in_flight() -> None:
    async with consuming(max_in_flight=4) as (consumer, peer):
        await peer.saw(b"RDY 4")
        assert not consumer.is_starved
        await peer.offer(b"a", b"b", b"c")
        await until(lambda: consumer.in_flight == 3)
        assert not consumer.is_starved
        await peer.offer(b"d")
        await until(lambda: consumer.in_flight == 4)
        assert consumer.is_starved
        assert repr(consumer) == "<Consumer t/c 1 connections, 4 of 4 in flight>"
    assert repr(consumer) == "<Consumer t/c closed, 0 of 4 in flight>"


# Outside the block.


async def test_a_consumer_is_of_no_use_after_its_block() -> None:
    async with consuming() as (consumer, _):
        pass
    with pytest.raises(nsq.Closed):
        await anext(consumer)
    with pytest.raises(nsq.Closed):
        await consumer.run(nothing)
    with pytest.raises(nsq.Closed):
        await consumer.ready()


async def test_ready_waits_for_the_first_subscription() -> None:
    go = anyio.Event()

    async def script(peer: FakeConnection) -> None:
        await go.wait()
        await peer.serve()

    async with fake_nsqd(script) as nsqd, nsq.consume("t", "c", nsqd=nsqd.address) as consumer:
        with anyio.move_on_after(0.02) as scope:
            await consumer.ready()
        assert scope.cancelled_caught
        assert not consumer.connections
        go.set()
        await consumer.ready()
        assert consumer.connections == (nsqd.address,)
