"""What users of other clients have complained about must not happen here: one test for each complaint.

The numbers are those of a survey of NSQ clients; each docstring names the threads it was read in.

======  ==================================================  =======================================
number  complaint                                           where
======  ==================================================  =======================================
1-16    stalls, RDY, shutdown, timeouts, answers            here
17-20   publishing                                          tests/producer
21      DPUB and REQ beyond an hour                         DPUB: tests/producer; REQ: here
22, 23  discovery                                           here
24      TLS and compression                                 tests/connection, tests/transport
25      event loops, and a lost nsqd that goes unnoticed    here
26      memory and work for each message                    here
27      what can be seen of a consumer                      here; fakes: tests/testing
======  ==================================================  =======================================
"""

import gc
import logging
import signal
import time
from typing import Any

import anyio
import anyio.to_thread
import pytest
from trio.testing import MockClock

import nsq_anyio as nsq
from nsq_anyio.events import (
    BackoffEnded,
    BackoffStarted,
    ConnectFailed,
    Disconnected,
    Event,
    GaveUp,
    LookupFailed,
    MessageTimedOut,
    ResponseFailed,
    Subscribed,
)
from nsq_anyio.testing.faults import fault_proxy

from ..fake_nsqd import (
    LIMIT,
    Events,
    FakeConnection,
    client_tasks,
    consuming,
    fake_nsqd,
    fake_nsqds,
    serve,
    until,
)
from .backoff import backing_off, failure, trial
from .fake_lookupd import UNKNOWN_TOPIC, connected, fake_lookupd, polled, producer, pruning
from .flow import LENDING, Watch, becomes, busy, consuming_from, settled
from .late_answers import OFTEN, impatient

pytestmark = pytest.mark.anyio


async def nothing(_message: nsq.Message) -> None:
    """A handler that is done at once."""


# Stalls.


async def test_01_a_slow_handler_does_not_block_the_reader() -> None:
    """go-nsq#348, #344, #204: a slow handler and redeliveries; heartbeats go unanswered."""

    async def slow(_message: nsq.Message) -> None:
        await anyio.sleep_forever()

    options = nsq.ConsumerOptions(cancel_at_deadline=False, cancelled_drain_timeout=0)
    async with consuming(impatient(20), options=options) as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: consumer.run(slow, concurrency=2))
            await peer.saw(b"RDY 2")
            ids = await peer.messages(b"a", b"b")
            for attempt in range(2, 5):  # nsqd has timed them out, and pushes them again beyond RDY
                await anyio.sleep(0.02)
                for id in ids:
                    await peer.message(b"again", id=id, attempts=attempt)
                await peer.heartbeat()
                await until(lambda count=attempt - 1: peer.lines.count(b"NOP") == count)  # type: ignore[misc]
            assert consumer.statistics().received == 8
            tasks.cancel_scope.cancel()


async def test_02_a_handler_that_blocks_may_use_a_thread_or_stall_the_loop_for_a_moment() -> None:
    """pynsq#104, #112, #151, ansq#62: a blocking handler, a missed heartbeat, a stale connection."""

    async def handler(message: nsq.Message) -> None:
        if message.body == b"thread":
            await anyio.to_thread.run_sync(time.sleep, 0.1)
        else:
            time.sleep(0.05)  # noqa: ASYNC251 - the mistake that is made

    async with consuming() as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, handler)
            in_thread = await peer.message(b"thread")
            await peer.heartbeat()
            await peer.saw(b"NOP")
            assert b"FIN " + in_thread not in peer.lines
            await peer.saw(b"FIN " + in_thread)
            in_loop = await peer.message(b"loop")
            await peer.heartbeat()
            await peer.saw(b"FIN " + in_loop)
            await until(lambda: peer.lines.count(b"NOP") == 2)
            consumer.stop()
        assert len(consumer.connections) == 1


async def test_03_no_path_leaves_rdy_at_0() -> None:
    """go-nsq#106, #127, #128, pynsq#89, gnsq#6: no connection in backoff; a requeue that is no failure."""
    events = Events()
    options = backing_off(0.02, reconnect_delay=0.001, max_reconnect_delay=0.005)
    async with fake_nsqds(1) as (nsqd,):
        async with nsq.consume(
            "t", "c", nsqd=nsqd.address, max_in_flight=4, options=options, on_event=events
        ) as consumer:
            peer = await nsqd.subscribed()
            await failure(consumer, peer)
            await peer.close()  # while it waits
            peer = await nsqd.subscribed(1)
            (await trial(consumer, [peer])).requeue(0, backoff=False)
            await trial(consumer, [peer])
            await peer.close()  # with the message on trial
            peer = await nsqd.subscribed(2)
            message = await trial(consumer, [peer])
            await peer.close()  # before the answer, which goes nowhere
            await until(lambda: consumer.in_flight == 0)
            message.requeue(0)
            peer = await nsqd.subscribed(3)
            (await trial(consumer, [peer])).finish()
            await until(lambda: peer.rdy == 4)
    assert len(events.of(BackoffEnded)) == 1


async def test_04_messages_come_again_after_everything_was_restarted() -> None:
    """go-nsq#131: nothing is received after a restart of nsqd and nsqlookupd."""
    async with (
        fake_nsqds(2) as (old, new),
        fault_proxy(old.address) as proxy,
        fake_lookupd() as lookupd,
    ):
        lookupd.says({"channels": ["c"], "producers": [producer(proxy.address)]})
        options = nsq.ConsumerOptions(lookupd_poll_interval=0.02)
        async with nsq.consume("t", "c", nsqlookupd=lookupd.url, options=options) as consumer:
            await consumer.ready()
            lookupd.says({"message": "INTERNAL_ERROR"}, status=500)
            await proxy.refuse()
            proxy.cut()
            await polled(lookupd, 2)
            lookupd.says(UNKNOWN_TOPIC, status=404)
            await polled(lookupd, 2)
            lookupd.names(new)
            await (await new.subscribed()).offer(b"after the restart")
            with anyio.fail_after(LIMIT):
                message = await anext(consumer)
            assert message.nsqd == new.address


@pytest.mark.parametrize("anyio_backend", [("trio", {"clock": MockClock(autojump_threshold=0.01)})])
async def test_04_a_half_open_connection_is_noticed() -> None:
    """go-nsq#154, #157: the other side is gone, and nothing tells."""
    events = Events()
    subscribed_again = anyio.Event()

    def hook(event: Event) -> None:
        events(event)
        if len(events.of(Subscribed)) == 2:
            subscribed_again.set()

    async with fake_nsqd(serve) as nsqd, fault_proxy(nsqd.address) as proxy:
        connection = nsq.ConnectionOptions(heartbeat_interval=1)
        async with nsq.consume(
            "t", "c", nsqd=proxy.address, connection=connection, on_event=hook
        ) as consumer:
            await consumer.ready()
            proxy.half_open()
            with anyio.fail_after(10):  # on the virtual clock, which polling would hold up
                await subscribed_again.wait()
            assert isinstance(events.of(Disconnected)[0].error, nsq.HeartbeatTimeout)


async def test_05_messages_that_nobody_answers_stall_nothing() -> None:
    """go-nsq#263, segmentio/nsq-go#48: the close waits for messages that are never answered."""
    began = anyio.current_time()
    async with consuming(impatient(50), max_in_flight=1, options=OFTEN) as (consumer, peer):
        await peer.message(b"forgotten")
        await anext(consumer)
        await until(lambda: consumer.in_flight == 0)  # its deadline has freed its place
        await peer.message(b"forgotten too")
        await anext(consumer)
    assert anyio.current_time() - began < 2


# RDY.


async def test_06_max_in_flight_holds_when_connections_outnumber_it() -> None:
    """pynsq#175, #177, #252, #9, #253, #254: each new connection gets RDY 1; in flight is not counted."""
    limiter = anyio.CapacityLimiter(2)
    watch = Watch(limiter)
    options = nsq.ConsumerOptions(
        rdy_redistribute_interval=0.003, low_rdy_idle_timeout=0.01, low_rdy_timeout=0.02
    )
    async with consuming_from(4, max_in_flight=2, limiter=limiter, options=options, on_event=watch) as (
        consumer,
        peers,
    ):
        watch.consumer = consumer
        for peer in peers:
            await peer.offer(*[b"x"] * 5)
        with anyio.fail_after(LIMIT):
            while consumer.statistics().finished < 20:
                message = await anext(consumer)
                await anyio.sleep(0.002)
                message.finish()
    assert watch.broken == []
    assert watch.raised >= 2


async def test_07_a_new_connection_is_not_starved() -> None:
    """pynsq#16, #38, go-nsq#1, #341: RDY stays 0 on the connection that came last."""
    async with fake_nsqds(2) as (first, second), fake_lookupd(first) as lookupd:
        options = nsq.ConsumerOptions(lookupd_poll_interval=0.02, rdy_redistribute_interval=0.005)
        async with nsq.consume(
            "t", "c", nsqlookupd=lookupd.url, max_in_flight=2, options=options
        ) as consumer:
            old = await first.subscribed()
            await old.saw(b"RDY 2")
            await old.offer(*[b"old"] * 4)
            held = [await anext(consumer), await anext(consumer)]
            lookupd.names(first, second)
            new = await second.subscribed()
            await new.offer(b"new")
            bodies: list[bytes] = []
            with anyio.fail_after(LIMIT):
                while b"new" not in bodies:
                    for message in held:
                        message.finish()
                    held = [await anext(consumer)]
                    bodies.append(held[0].body)


async def test_08_one_busy_nsqd_among_idle_ones_gets_nearly_all() -> None:
    """go-nsq#179, #277, nsqjs#380: an even split wastes max_in_flight."""
    async with consuming_from(4, max_in_flight=20, options=LENDING) as (consumer, peers):
        async with busy(consumer, peers[2]):
            await becomes(peers, 1, 1, 17, 1)


async def test_09_one_place_for_many_nsqds_is_passed_on_quickly() -> None:
    """nsqjs#242: maxInFlight 1 with 20 nsqds takes 30 s for a message."""
    options = nsq.ConsumerOptions(rdy_redistribute_interval=0.005, low_rdy_idle_timeout=0.01)
    async with consuming_from(10, max_in_flight=1, options=options) as (consumer, peers):
        await until(lambda: any(peer.rdy for peer in peers))
        for peer in [peer for peer in peers if not peer.rdy][:3]:
            await peer.offer(b"x")
            with anyio.fail_after(2):
                (await anext(consumer)).finish()


async def test_09_max_in_flight_follows_the_concurrency() -> None:
    """go-nsq#153, #221, #256: handlers idle because max_in_flight was left at 1."""
    running = 0
    together = anyio.Event()

    async def handler(_message: nsq.Message) -> None:
        nonlocal running
        running += 1
        if running == 5:
            together.set()
        await together.wait()

    async with consuming() as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: consumer.run(handler, concurrency=5))
            await peer.offer(*[b"x"] * 5)
            with anyio.fail_after(LIMIT):
                await together.wait()
            consumer.stop()


async def test_10_rdy_is_as_high_as_asked_for() -> None:
    """ansq#100, #101: 30 messages a second, because RDY is always 1."""
    async with consuming(max_in_flight=200) as (consumer, peer):
        await peer.saw(b"RDY 200")
        await peer.offer(*[b"x"] * 500)
        await until(lambda: consumer.statistics().waiting == 200)
        with anyio.fail_after(LIMIT):
            for _ in range(500):
                (await anext(consumer)).finish()


async def test_11_max_in_flight_0_pauses() -> None:
    """pynsq#229: set_max_in_flight(0) did nothing."""
    async with consuming_from(2, max_in_flight=4) as (consumer, peers):
        await settled(peers, 2, 2)
        consumer.max_in_flight = 0
        await settled(peers, 0, 0)
        await peers[0].offer(b"x")
        await anyio.sleep(0.02)
        assert consumer.statistics().received == 0
        consumer.max_in_flight = 4
        assert (await anext(consumer)).body == b"x"


async def test_11_the_distribution_may_change_while_connections_vanish() -> None:
    """nsqjs#99: the balance crashes on a connection that is gone."""
    options = nsq.ConsumerOptions(rdy_redistribute_interval=0.001, reconnect_delay=0.001)
    async with fake_nsqds(3) as nsqds:
        addresses = [nsqd.address for nsqd in nsqds]
        async with nsq.consume("t", "c", nsqd=addresses, max_in_flight=5, options=options) as consumer:
            for turn in range(9):
                nsqd = nsqds[turn % 3]
                peer = await nsqd.subscribed(turn // 3)
                consumer.max_in_flight = 3 + turn
                await peer.close()
                consumer.max_in_flight = 12 - turn
            await until(lambda: len(consumer.connections) == 3)
            peers = [nsqd.connections[-1] for nsqd in nsqds]
            await until(lambda: sum(peer.rdy for peer in peers) == 4)


# Shutdown.


async def test_12_a_consumer_can_be_stopped_and_says_cls() -> None:
    """pynsq#70, #101, #196, #245, nsq#604: no CLS; a closed reader connects again."""
    options = nsq.ConsumerOptions(reconnect_delay=0.001)
    async with fake_nsqd(serve) as nsqd:
        async with nsq.consume("t", "c", nsqd=nsqd.address, options=options) as consumer:
            peer = await nsqd.subscribed()
            consumer.stop()
            await peer.saw(b"CLS")
            assert [message async for message in consumer] == []
        await anyio.sleep(0.03)
        assert len(nsqd.connections) == 1
        assert peer.ended.is_set()


async def test_12_signals_are_left_alone() -> None:
    """pynsq#136: the library takes the signals."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    async with consuming() as (consumer, peer):
        await peer.message()
        (await anext(consumer)).finish()
        assert {number: signal.getsignal(number) for number in before} == before


async def test_13_the_end_is_quick_final_and_allows_another_beginning() -> None:
    """nsqjs#191, #207, #238, #405: the close hangs, or connects after it; the reader is of no more use."""

    async def silent(peer: FakeConnection) -> None:
        await peer.subscribe()
        await peer.follow(answer_cls=False)

    options = nsq.ConsumerOptions(close_timeout=0.05, reconnect_delay=0.001)
    async with fake_nsqd(silent, serve) as nsqd:
        for number in range(2):
            async with nsq.consume("t", "c", nsqd=nsqd.address, options=options) as consumer:
                peer = await nsqd.subscribed(number)
                await peer.message()
                await anext(consumer)
                ending = anyio.current_time()
            assert anyio.current_time() - ending < 1
            assert client_tasks() == []
            await anyio.sleep(0.02)
            assert len(nsqd.connections) == number + 1


# Timeouts and answers.


@pytest.mark.parametrize(
    "text",
    [
        "E_FIN_FAILED FIN {id} failed ID not in flight",
        "E_REQ_FAILED REQ {id} failed ID not in flight",
        "E_TOUCH_FAILED TOUCH {id} failed ID not in flight",
        "E_FIN_FAILED in the words of another version",
        "E_FIN_FAILED",
    ],
)
async def test_14_a_refused_answer_is_not_fatal(text: str) -> None:
    """nsq#729, #762, nsqjs#72, #226, nsq-j#25: the client closes or crashes, or compares the whole text."""
    events = Events()
    async with consuming(on_event=events) as (consumer, peer):
        id = (await peer.message()).decode()
        (await anext(consumer)).finish()
        await peer.error(text.format(id=id).encode())
        await until(lambda: events.of(ResponseFailed))
        again = await peer.message(b"next")
        (await anext(consumer)).finish()
        await peer.saw(b"FIN " + again)
        assert events.of(Disconnected) == []


async def test_15_one_can_learn_that_an_answer_failed_and_slow_down() -> None:
    """go-nsq#172, #116, nsq.js#71: nobody tells that FIN failed; no backoff on it."""
    events = Events()
    options = backing_off(backoff_on_refused_answer=True)
    async with consuming(options=options, on_event=events) as (consumer, peer):
        id = (await peer.message()).decode()
        (await anext(consumer)).finish()
        await peer.error(f"E_FIN_FAILED FIN {id} failed ID not in flight".encode())
        await until(lambda: events.of(BackoffStarted))
    assert [(event.code, event.message_id) for event in events.of(ResponseFailed)] == [("E_FIN_FAILED", id)]


async def test_15_the_deadline_is_known_and_its_passing_is_told() -> None:
    """go-nsq#266, pynsq#132: no way to know the deadline; no callback for timeouts."""
    events = Events()
    async with consuming(impatient(50), options=OFTEN, on_event=events) as (consumer, peer):
        sent = anyio.current_time()
        await peer.message()
        message = await anext(consumer)
        assert sent + 0.05 <= message.deadline <= anyio.current_time() + 0.051
        await until(lambda: events.of(MessageTimedOut))
        assert anyio.current_time() >= message.deadline


async def test_15_messages_are_touched_on_request_and_never_by_themselves() -> None:
    """nsq#681: touch for as long as a handler runs."""
    async with consuming(impatient(60), max_in_flight=2, options=OFTEN) as (consumer, peer):
        kept, left = await peer.messages(b"kept", b"left")
        first, second = await anext(consumer), await anext(consumer)
        async with first.keep_alive():
            await anyio.sleep(0.1)
        first.finish()
        second.finish()
        await peer.saw(b"TOUCH " + kept, b"FIN " + kept)
        assert b"TOUCH " + left not in peer.lines
        assert consumer.statistics().timed_out == 1


async def test_16_a_message_is_not_given_up_in_silence_nor_one_attempt_too_early() -> None:
    """pynsq#134, #135, gnsq#9, go-nsq#67, #359, nsq#974; off by one: nsqjs#38, #109, nsq.js#58."""
    events = Events()
    saved: list[bytes] = []
    handled: list[int] = []

    async def handler(message: nsq.Message) -> None:
        handled.append(message.attempts)

    def save(message: nsq.Message) -> None:
        assert not message.responded
        saved.append(message.body)

    options = nsq.ConsumerOptions(max_attempts=3)
    async with consuming(options=options, on_give_up=save, on_event=events) as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, handler)
            for attempts in (1, 3, 60, 61):
                id = await peer.message(b"%d" % attempts, attempts=attempts)
                await peer.saw(b"FIN " + id)
            consumer.stop()
    assert handled == [1, 3, 60]
    assert saved == [b"61"]
    assert [event.attempts for event in events.of(GaveUp)] == [61]


async def test_21_the_delay_of_many_attempts_stays_within_what_nsqd_allows() -> None:
    """nsq#986, nsqjs#261, nsq#348, #1499: REQ beyond an hour."""
    options = nsq.ConsumerOptions(max_attempts=0, max_requeue_delay=3600)
    async with consuming(options=options) as (consumer, peer):
        id = await peer.message(attempts=65535)
        (await anext(consumer)).requeue()
        await peer.saw(b"REQ %b 3600000" % id)


# Discovery.


async def test_22_one_dead_nsqlookupd_costs_nothing() -> None:
    """go-nsq#97, #257, NsqSharp#97, nsq#731, nsq-ruby#9: a minute lost, an exit, all disconnected."""
    events = Events()
    async with fake_nsqd(serve) as nsqd, fake_lookupd(nsqd) as alive, fake_lookupd() as dead:
        dead.gate = anyio.Event()
        options = pruning(lookupd_poll_timeout=0.05)
        async with nsq.consume(
            "t", "c", nsqlookupd=[dead.url, "http://127.0.0.1:1", alive.url], options=options, on_event=events
        ) as consumer:
            with anyio.fail_after(2):
                await consumer.ready()
            alive.gate = anyio.Event()  # and now the last one dies as well
            await polled(alive, 3)
            await connected(consumer, nsqd)
            await until(lambda: len({event.nsqlookupd for event in events.of(LookupFailed)}) == 3)


async def test_22_a_topic_that_is_not_known_yet_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """nsq#1456, nsq-j#5: TOPIC_NOT_FOUND is logged as an error each minute."""
    async with fake_nsqd(serve) as nsqd, fake_lookupd() as lookupd:
        lookupd.says(UNKNOWN_TOPIC, status=404)
        options = nsq.ConsumerOptions(lookupd_poll_interval=0.02)
        async with nsq.consume("t", "c", nsqlookupd=lookupd.url, options=options) as consumer:
            await polled(lookupd, 3)
            assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
            lookupd.names(nsqd)
            await connected(consumer, nsqd)


async def test_23_addresses_of_vanished_nsqds_are_left_alone() -> None:
    """go-nsq#350, #177: they are dialled for ever."""
    events = Events()
    async with fake_nsqds(2) as (gone, kept), fake_lookupd(gone, kept) as lookupd:
        async with nsq.consume(
            "t", "c", nsqlookupd=lookupd.url, options=pruning(2), on_event=events
        ) as consumer:
            await connected(consumer, gone, kept)
            lookupd.names(kept)
            await connected(consumer, kept)
            await polled(lookupd, 4)
            assert len(gone.connections) == 1
    assert events.of(ConnectFailed) == []


# The event loop, and what it costs.


async def test_25_a_lost_nsqd_is_noticed_and_so_is_its_return() -> None:
    """asyncnsq#15: the reader never notices that nsqd goes down, or comes up."""
    events = Events()
    async with fake_nsqd(serve) as nsqd, fault_proxy(nsqd.address) as proxy:
        options = nsq.ConsumerOptions(reconnect_delay=0.01, max_reconnect_delay=0.02)
        async with nsq.consume("t", "c", nsqd=proxy.address, options=options, on_event=events) as consumer:
            await consumer.ready()
            await proxy.refuse()
            proxy.cut()
            await until(lambda: events.of(Disconnected) and events.of(ConnectFailed))
            assert consumer.connections == ()
            await proxy.listen()
            await until(lambda: consumer.connections)
            id = await (await nsqd.subscribed(1)).message()
            (await anext(consumer)).finish()
            await nsqd.connections[1].saw(b"FIN " + id)


async def test_26_a_message_costs_no_task_no_rdy_and_no_memory_once_it_is_answered() -> None:
    """nsqjs#102, pynsq#251, go-nsq#183, asyncnsq#5: a timer for each message, RDY for each message, leaks."""

    def messages() -> int:
        gc.collect()
        return sum(isinstance(thing, nsq.Message) for thing in gc.get_objects())

    before = messages()
    async with consuming(max_in_flight=100) as (consumer, peer):
        await peer.saw(b"RDY 100")
        tasks = len(client_tasks())
        await peer.offer(*[b"x"] * 2000)
        most = 0
        with anyio.fail_after(LIMIT):
            for _ in range(2000):
                (await anext(consumer)).finish()
                most = max(most, len(client_tasks()))
        assert most <= tasks
        assert [line for line in peer.lines if line.startswith(b"RDY")] == [b"RDY 100"]
        assert messages() - before <= 100  # the reader holds its last chunk


# What can be seen.


async def test_27_the_state_of_the_connections_can_be_seen() -> None:
    """pynsq#193: no way to see the connection's state."""
    options: Any = nsq.ConsumerOptions(reconnect_delay=10)
    async with fake_nsqds(2) as (one, two):
        addresses = [one.address, two.address]
        async with nsq.consume("t", "c", nsqd=addresses, max_in_flight=6, options=options) as consumer:
            peers = [await nsqd.subscribed() for nsqd in (one, two)]
            await settled(peers, 3, 3)
            assert sorted(consumer.connections) == sorted(addresses)
            seen = {one.nsqd: one.rdy for one in consumer.statistics().per_connection}
            assert seen == dict.fromkeys(addresses, 3)
            await peers[0].close()
            await until(lambda: consumer.connections == (two.address,))
            assert repr(consumer) == "<Consumer t/c 1 connections, 0 of 6 in flight>"
        assert consumer.connections == ()
