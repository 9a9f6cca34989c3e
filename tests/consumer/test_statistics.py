"""What a consumer counts, for each connection and in all, and what it shows of itself."""

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.consumer import ConnectionStatistics, ConsumerStatistics, supervisor
from nsq_anyio.consumer.subscription import Subscription
from nsq_anyio.events import (
    MessageDiscarded,
    MessageFinished,
    MessageRequeued,
    MessageTouched,
    ResponseFailed,
)

from ..fake_nsqd import LIMIT, Events, consuming, fake_nsqds, until
from .backoff import backing_off, failure
from .flow import consuming_from, settled
from .late_answers import OFTEN, impatient

pytestmark = pytest.mark.anyio

COUNTERS = (
    "received",
    "finished",
    "requeued",
    "timed_out",
    "late",
    "refused",
    "failed",
    "discarded",
    "gave_up",
)


async def test_each_connection_is_counted_by_itself_and_all_of_them_together() -> None:
    async with consuming_from(2, max_in_flight=8) as (consumer, peers):
        await settled(peers, 4, 4)
        for peer, count in zip(peers, (3, 2), strict=True):
            for _ in range(count):
                await peer.message()
        await until(lambda: consumer.statistics().received == 5)
        by_nsqd: dict[str, list[nsq.Message]] = {}
        for _ in range(5):
            message = await anext(consumer)
            by_nsqd.setdefault(message.nsqd, []).append(message)
        three, two = sorted(by_nsqd.values(), key=len, reverse=True)
        three[0].finish()
        three[1].finish()
        two[0].requeue(0, backoff=False)

        statistics = consumer.statistics()
        first, second = sorted(statistics.per_connection, key=lambda one: one.received, reverse=True)
        assert first == ConnectionStatistics(
            nsqd=three[0].nsqd,
            identity=first.identity,
            authorization=None,
            rdy=4,
            max_rdy_count=2500,
            in_flight=1,
            received=3,
            finished=2,
            requeued=0,
            timed_out=0,
            late=0,
            refused=0,
            failed=0,
            discarded=0,
            gave_up=0,
            redelivered={},
            received_bytes=first.received_bytes,
        )
        assert first.identity.max_rdy_count == 2500
        assert (second.received, second.finished, second.requeued, second.in_flight) == (2, 0, 1, 1)
        assert (statistics.connections, statistics.in_flight, statistics.waiting) == (2, 2, 0)
        assert (statistics.received, statistics.finished, statistics.requeued) == (5, 2, 1)


async def test_timeouts_late_and_refused_answers_are_counted_where_they_happened() -> None:
    events = Events()
    async with consuming(impatient(30), options=OFTEN, on_event=events, max_in_flight=3) as (consumer, peer):
        await peer.message()
        late = await anext(consumer)
        await until(lambda: consumer.statistics().timed_out == 1)
        late.finish()
        id = (await peer.message()).decode()
        (await anext(consumer)).finish()
        await peer.error(f"E_FIN_FAILED FIN {id} failed ID not in flight".encode())
        await until(lambda: events.of(ResponseFailed))
        (one,) = consumer.statistics().per_connection
        assert (one.received, one.finished, one.timed_out, one.late, one.refused) == (2, 1, 1, 1, 1)


async def test_connections_that_have_ended_count_in_the_sum_and_late_answers_to_them_too() -> None:
    options = nsq.ConsumerOptions(reconnect_delay=0.005, rdy_redistribute_interval=0.005)
    async with fake_nsqds(1) as (nsqd,):
        async with nsq.consume("t", "c", nsqd=nsqd.address, max_in_flight=4, options=options) as consumer:
            first = await nsqd.subscribed()
            await first.messages(b"a", b"b")
            (await anext(consumer)).finish()
            held = await anext(consumer)
            await first.close()
            await nsqd.subscribed(1)
            await consumer.ready()
            await until(lambda: consumer.connections)
            held.finish()
            statistics = consumer.statistics()
            assert (statistics.received, statistics.finished, statistics.late) == (2, 1, 1)
            (one,) = statistics.per_connection
            assert [getattr(one, name) for name in COUNTERS] == [0] * len(COUNTERS)
        assert consumer.statistics().received == 2
        assert consumer.statistics().connections == 0
        assert consumer.statistics().per_connection == ()


async def test_the_sum_is_that_of_all_connections() -> None:
    async with consuming_from(3, max_in_flight=9) as (consumer, peers):
        for peer, answer in itertools.product(peers, ("finish", "requeue")):
            await peer.message()
            message = await anext(consumer)
            message.finish() if answer == "finish" else message.requeue(0, backoff=False)
        statistics = consumer.statistics()
        for name in COUNTERS:
            total = sum(getattr(one, name) for one in statistics.per_connection)
            assert getattr(statistics, name) == total
        assert statistics.received == 6


async def test_what_waits_to_be_taken_and_the_level_of_backoff_are_told() -> None:
    async with consuming(max_in_flight=4, options=backing_off(60)) as (consumer, peer):
        assert consumer.statistics().backoff_level == 0
        await failure(consumer, peer)
        await peer.messages(b"a", b"b")
        await until(lambda: consumer.statistics().waiting == 2)
        statistics = consumer.statistics()
        assert (statistics.in_flight, statistics.backoff_level) == (2, 1)
        assert statistics.per_connection[0].rdy == 0


async def test_a_snapshot_does_not_change() -> None:
    async with consuming() as (consumer, peer):
        before = consumer.statistics()
        await peer.message()
        (await anext(consumer)).finish()
        assert (before.received, before.per_connection[0].received) == (0, 0)
        assert consumer.statistics().received == 1
        snapshots: tuple[ConsumerStatistics | ConnectionStatistics, ...] = (before, *before.per_connection)
        for snapshot in snapshots:
            with pytest.raises(dataclasses.FrozenInstanceError):
                snapshot.received = 5  # type: ignore[misc]
            assert not hasattr(snapshot, "__dict__")


async def test_every_field_is_told_in_the_docstring() -> None:
    for kind in (ConsumerStatistics, ConnectionStatistics):
        for field in dataclasses.fields(kind):
            assert f":ivar {field.name}:" in (kind.__doc__ or "")


# Events for each message.


async def test_a_hook_hears_of_every_answer_and_the_log_does_not(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", logger="nsq_anyio.consumer")
    events = Events()
    async with consuming(max_in_flight=2, on_event=events) as (consumer, peer):
        one, two = await peer.messages(b"a", b"b", attempts=3)
        first, second = await anext(consumer), await anext(consumer)
        first.touch()
        deadline = first.deadline
        first.finish()
        second.requeue(1.5, backoff=False)
        nsqd = consumer.connections[0]
    (touched,), (finished,) = events.of(MessageTouched), events.of(MessageFinished)
    (requeued,) = events.of(MessageRequeued)
    source: Any = {"nsqd": nsqd, "topic": "t", "channel": "c", "attempts": 3}
    assert touched == MessageTouched(
        message_id=one.decode(), seconds=touched.seconds, deadline=deadline, **source
    )
    assert finished == MessageFinished(message_id=one.decode(), seconds=finished.seconds, **source)
    assert requeued == MessageRequeued(message_id=two.decode(), seconds=requeued.seconds, delay=1.5, **source)
    assert 0 <= touched.seconds <= finished.seconds <= requeued.seconds < LIMIT
    assert not [record for record in caplog.records if one.decode() in record.getMessage()]


async def test_a_hook_that_stops_the_consumer_on_a_timeout_harms_nothing() -> None:
    consumers: list[nsq.Consumer] = []
    stopped = anyio.Event()

    def hook(event: object) -> None:
        if type(event).__name__ == "MessageTimedOut":
            consumers[0].stop()
            stopped.set()

    async with consuming(impatient(30), options=OFTEN, on_event=hook, max_in_flight=3) as (consumer, peer):
        consumers.append(consumer)
        await peer.messages(b"a", b"b", b"c")
        await stopped.wait()
        with pytest.raises(StopAsyncIteration):
            await anext(consumer)
        assert consumer.in_flight == 0


# What is shown.


async def test_the_repr_of_a_consumer_tells_its_state() -> None:
    async with consuming(max_in_flight=5) as (consumer, peer):
        await peer.messages(b"secret body", b"another")
        message = await anext(consumer)
        await until(lambda: consumer.in_flight == 2)
        assert repr(consumer) == "<Consumer t/c 1 connections, 2 of 5 in flight>"
        shown = f"<Message {message.id} t/c attempt 1, unanswered>"
        assert repr(message) == shown
        message.finish()
        assert repr(message) == shown.replace("unanswered", "answered")
    assert repr(consumer) == "<Consumer t/c closed, 0 of 5 in flight>"


async def test_the_repr_of_a_subscription_tells_its_rdy_and_what_is_in_flight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    subscriptions: list[Subscription] = []

    class Kept(Subscription):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            subscriptions.append(self)

    monkeypatch.setattr(supervisor, "Subscription", Kept)
    async with consuming(max_in_flight=5) as (consumer, peer):
        nsqd = consumer.connections[0]
        (subscription,) = subscriptions
        assert repr(subscription) == f"<Subscription {nsqd} rdy=5 in_flight=0>"
        await peer.messages(b"a", b"b")
        await until(lambda: consumer.in_flight == 2)
        assert repr(subscription) == f"<Subscription {nsqd} rdy=5 in_flight=2>"


async def test_what_is_shown_contains_no_bodies_and_no_credentials() -> None:
    events = Events()
    async with consuming(on_event=events) as (consumer, peer):
        await peer.message(b"secret body")
        message = await anext(consumer)
        shown = [repr(consumer), repr(message), repr(consumer.statistics())]
        message.finish()
    shown += [text for event in events for text in (repr(event), str(event))]
    assert not [text for text in shown if "secret" in text]


REASONS: list[tuple[Callable[[str], nsq.NSQError], str, type[MessageDiscarded | MessageRequeued]]] = [
    (nsq.Discard, "discarded", MessageDiscarded),
    (lambda reason: nsq.Requeue(5, reason=reason), "requeued in 5 s", MessageRequeued),
]


@pytest.mark.parametrize(("make", "word", "kind"), REASONS)
async def test_reasons_are_logged_once_a_second_with_the_number_of_messages(
    make: Callable[[str], nsq.NSQError],
    word: str,
    kind: type[MessageDiscarded | MessageRequeued],
    caplog: pytest.LogCaptureFixture,
) -> None:
    events = Events()
    async with consuming(max_in_flight=50, on_event=events) as (consumer, peer):
        await peer.messages(*(b"%d" % number for number in range(50)))
        for _ in range(50):
            async with await anext(consumer) as message:
                raise make(f"no use: {message.body!r}")
        statistics = consumer.statistics()
        assert statistics.discarded + statistics.requeued == 50
    lines = [record.message for record in caplog.records if word in record.message]
    assert lines[0].endswith(f"{word}: no use: b'0'")
    assert lines[-1].endswith(" more like it)")
    assert len(lines) <= 4  # on a busy machine
    assert sum(int(line.split("(and ")[1].split()[0]) + 1 for line in lines[1:]) == 49
    assert [event.reason for event in events.of(kind)] == [f"no use: b'{number}'" for number in range(50)]


async def test_a_requeue_without_a_reason_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with consuming() as (consumer, peer):
        await peer.message()
        async with await anext(consumer):
            raise nsq.Requeue(5)
    assert "requeued" not in caplog.text


async def test_the_lines_of_one_kind_do_not_hide_those_of_another(caplog: pytest.LogCaptureFixture) -> None:
    async with consuming(max_in_flight=10) as (consumer, peer):
        await peer.messages(*(b"%d" % number for number in range(10)))
        for number in range(10):
            async with await anext(consumer):
                raise nsq.Discard("no use") if number == 5 else nsq.Requeue(reason="busy", backoff=False)
    lines = [record.message for record in caplog.records if "no use" in record.message]
    assert len(lines) == 1
    assert "more like it" not in lines[0]
