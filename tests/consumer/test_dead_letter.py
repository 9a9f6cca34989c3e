# pyright: reportPossiblyUnboundVariable=false
"""Messages that are given up or discarded: their dead letters are published before they are finished."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio import envelope
from nsq_anyio.consumer.dead_letter import original_body
from nsq_anyio.events import DeadLetterFailed, GaveUp, LookupFailed, MessageDiscarded

from .. import virtual_time
from ..fake_nsqd import Events, FakeConnection, consuming, fake_nsqd, until
from .fake_lookupd import fake_lookupd

anyio_backend = virtual_time.anyio_backend
pytestmark = pytest.mark.anyio


class Letters:
    """Stands in for a producer.

    :ivar sent: the topic, the payload and the headers of each
    :ivar lines_at: what nsqd had read when each was published
    """

    def __init__(self, *, fails: BaseException | None = None, seconds: float = 0) -> None:
        self.sent: list[tuple[str, bytes, dict[str, str]]] = []
        self.lines_at: list[list[bytes]] = []
        self.peer: FakeConnection | None = None
        self.fails = fails
        self.seconds = seconds

    async def publish(self, topic: str, body: bytes, /, *, headers: Mapping[str, str]) -> None:
        await anyio.sleep(self.seconds)
        if self.fails is not None:
            raise self.fails
        self.lines_at.append(list(self.peer.lines) if self.peer else [])
        self.sent.append((topic, body, dict(headers)))


def to(letters: Any, topic: str = "{topic}.dead") -> nsq.DeadLetter:
    return nsq.DeadLetter(topic, producer=letters)


def answers(peer: FakeConnection, id: bytes) -> list[bytes]:
    return [line.replace(id, b"id") for line in peer.lines if id in line]


async def fail(message: nsq.Message) -> None:
    """A handler."""
    raise KeyError(f"handling {message.body!r}")


async def discard(message: nsq.Message) -> None:
    """A handler."""
    raise nsq.Discard("no such user") from ValueError("user 7")


async def test_a_message_that_is_given_up() -> None:
    letters, events = Letters(), Events()
    async with (
        consuming(dead_letter=to(letters), on_event=events) as (consumer, letters.peer),
        anyio.create_task_group() as tasks,
    ):
        peer = letters.peer
        tasks.start_soon(consumer.run, fail)
        id = await peer.message(b"body", attempts=4)
        await until(lambda: not peer.in_flight)
        await peer.message(b"body", attempts=5, id=id)
        await until(lambda: not peer.in_flight)
        tasks.cancel_scope.cancel()
    ((topic, payload, headers),) = letters.sent
    assert (topic, payload) == ("t.dead", b"body")
    traceback = headers.pop("nsq-dead-traceback")
    assert traceback.startswith("Traceback (most recent call last):")
    assert "in fail" in traceback
    assert traceback.endswith("KeyError: \"handling b'body'\"\n")
    assert int(headers.pop("nsq-dead-time")) > 1_700_000_000_000_000_000
    assert headers.pop("nsq-dead-nsqd").startswith("127.0.0.1:")
    assert headers == {
        "nsq-dead-reason": "gave-up",
        "nsq-dead-error-type": "KeyError",
        "nsq-dead-error": "\"handling b'body'\"",
        "nsq-dead-attempts": "5",
        "nsq-dead-timestamp": "1700000000000000000",
        "nsq-dead-topic": "t",
        "nsq-dead-channel": "c",
        "nsq-dead-id": id.decode(),
        "nsq-dead-body": "raw",
    }
    assert answers(peer, id) == [b"REQ id 360000", b"FIN id"]
    assert b"FIN " + id not in letters.lines_at[0]  # it was finished after that
    assert [event.attempts for event in events.of(GaveUp)] == [5]


async def test_a_message_that_no_handler_could_finish() -> None:
    letters = Letters()
    async with consuming(dead_letter=to(letters), max_in_flight=2) as (consumer, peer):
        await peer.message(attempts=101)
        await peer.message(b"next")
        async with await anext(consumer):
            pass
    headers = letters.sent[0][2]
    assert headers["nsq-dead-reason"] == "gave-up"
    assert headers["nsq-dead-error"].startswith(
        "nsqd has delivered it 101 times, which is more than max_deliv"
    )
    assert [headers[f"nsq-dead-{name}"] for name in ("error-type", "traceback")] == ["", ""]


@pytest.mark.parametrize("taking", ["run", "block"])
async def test_a_message_that_is_discarded(taking: str) -> None:
    letters, events = Letters(), Events()
    async with (
        consuming(dead_letter=to(letters), on_event=events) as (consumer, letters.peer),
        anyio.create_task_group() as tasks,
    ):
        peer = letters.peer
        id = await peer.message(b"body")
        if taking == "run":
            tasks.start_soon(consumer.run, discard)
        else:
            async with await anext(consumer) as message:
                await discard(message)
        await until(lambda: not peer.in_flight)
        tasks.cancel_scope.cancel()
    ((_, payload, headers),) = letters.sent
    assert payload == b"body"
    assert headers["nsq-dead-reason"] == "discarded"
    assert headers["nsq-dead-error-type"] == "nsq_anyio.errors.Discard"
    assert headers["nsq-dead-error"] == "no such user"
    assert "ValueError: user 7" in headers["nsq-dead-traceback"]
    assert answers(peer, id) == [b"FIN id"]
    assert b"FIN " + id not in letters.lines_at[0]
    assert [event.reason for event in events.of(MessageDiscarded)] == ["no such user"]


async def test_the_cause_of_a_requeue_is_told() -> None:
    letters = Letters()
    async with consuming(dead_letter=to(letters)) as (consumer, peer):
        await peer.message(attempts=5)
        async with await anext(consumer):
            raise nsq.Requeue(0) from OSError("disk full")
        await until(lambda: not peer.in_flight)
    assert letters.sent[0][2]["nsq-dead-error-type"] == "OSError"


@pytest.mark.parametrize("reason", ["the database is read-only", OSError("the database is read-only")])
async def test_the_reason_of_a_requeue_is_told(reason: Any) -> None:
    letters = Letters()
    async with consuming(dead_letter=to(letters)) as (consumer, peer):
        await peer.message(attempts=5)
        async with await anext(consumer):
            raise nsq.Requeue(reason=reason) from OSError("disk full")
        await until(lambda: not peer.in_flight)
    headers = letters.sent[0][2]
    assert headers["nsq-dead-error-type"] == "nsq_anyio.errors.Requeue"
    assert headers["nsq-dead-error"] == "the database is read-only"
    assert "OSError: disk full" in headers["nsq-dead-traceback"]


@pytest.mark.parametrize("reason", ["gave-up", "discarded"])
async def test_a_message_whose_letter_cannot_be_published_is_requeued(reason: str) -> None:
    letters, events = Letters(fails=nsq.NotSent("no nsqd")), Events()
    async with (
        consuming(dead_letter=to(letters), on_event=events) as (consumer, peer),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(consumer.run, fail if reason == "gave-up" else discard)
        id = await peer.message(attempts=5)
        await until(lambda: not peer.in_flight)
        tasks.cancel_scope.cancel()
    assert [line[:6] for line in answers(peer, id)] == [b"REQ id"]
    (event,) = events.of(DeadLetterFailed)
    assert event.dead_letter_topic == "t.dead"
    assert isinstance(event.error, nsq.NotSent)
    assert f"message {id.decode()}" in str(event)
    assert events.of(GaveUp) == []
    assert events.of(MessageDiscarded) == []
    assert any(line == b"RDY 0" for line in peer.lines)  # it counts as a failure


async def test_a_message_is_touched_while_its_letter_waits() -> None:
    letters = Letters(seconds=0.5)

    async def script(peer: FakeConnection) -> None:
        await peer.subscribe({"msg_timeout": 300, "max_msg_timeout": 5000})
        await peer.follow()

    async with (
        consuming(script, dead_letter=to(letters)) as (consumer, peer),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(consumer.run, discard)
        id = await peer.message()
        await until(lambda: not peer.in_flight)
        tasks.cancel_scope.cancel()
    found = answers(peer, id)
    assert set(found[:-1]) == {b"TOUCH id"}
    assert found[-1] == b"FIN id"
    assert len(letters.sent) == 1


@pytest.mark.parametrize("attempts", [1, 5])
async def test_a_cancelled_letter_gives_the_message_back(attempts: int) -> None:
    letters = Letters(seconds=60)
    async with consuming(dead_letter=to(letters)) as (consumer, peer):
        id = await peer.message(attempts=attempts)
        with anyio.move_on_after(0.1):
            async with await anext(consumer):
                raise nsq.Discard("no")
        await until(lambda: not peer.in_flight)
    assert answers(peer, id) == [b"REQ id 0"]
    assert letters.sent == []


async def test_on_give_up_comes_first() -> None:
    letters = Letters()
    seen: list[int] = []

    async def on_give_up(message: nsq.Message) -> None:
        seen.append(len(letters.sent))
        if message.body == b"mine":
            message.requeue(0)
        if message.body == b"bad":
            raise ValueError("mine")

    async with consuming(dead_letter=to(letters), on_give_up=on_give_up, max_in_flight=4) as (consumer, peer):
        for body in (b"mine", b"bad", b"body"):
            await peer.message(body, attempts=101)
        await peer.message(b"next")
        async with await anext(consumer):
            pass
    assert seen == [0, 0, 0]
    assert [payload for _, payload, _ in letters.sent] == [b"body"]  # neither answered nor failed there


BODIES = {
    "raw": b"\x00raw",
    "headers": envelope.encode(b"payload", {"traceparent": "00-1", "a": ""}),
    "no headers": envelope.encode(b"payload", {}),
    "no payload": envelope.encode(b"", {"a": "b"}),
    "full": envelope.encode(b"p", {"a": "v" * 65_000}),
    "many": envelope.encode(b"p", {str(number): "" for number in range(128)}),
    "dead before": envelope.encode(b"p", {"nsq-dead-body": "raw", "nsq-dead-id": "1"}),
    "later version": envelope.MAGIC + b"\x02\x00 what it is",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_the_original_body_comes_back_byte_by_byte(body: bytes) -> None:
    async with nsq.embedded.nsqd() as nsqd, nsq.produce(nsqd.tcp_address) as producer:
        await producer.publish("t", body)
        async with nsq.consume("t", "c", nsqd=nsqd.tcp_address, dead_letter=to(producer)) as consumer:
            async with await anext(consumer):
                raise nsq.Discard("no")
        async with nsq.consume("t.dead", "c", nsqd=nsqd.tcp_address) as consumer:
            async with await anext(consumer) as dead:
                assert original_body(dead.payload, dead.headers) == body
                assert dead.headers["nsq-dead-topic"] == "t"
    if body == BODIES["headers"]:
        assert dead.payload == b"payload"
        assert dead.headers["traceparent"] == "00-1"


def test_what_is_no_dead_letter() -> None:
    with pytest.raises(nsq.InvalidEnvelope, match="this is not a dead letter"):
        original_body(b"x", {})


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    "error", [Unprintable(), ValueError("v" * 100_000), ValueError("\ud800\x00"), RecursionError()]
)
async def test_whatever_is_raised_can_be_told(error: Exception) -> None:
    async with nsq.embedded.nsqd() as nsqd, nsq.produce(nsqd.tcp_address) as producer:
        await producer.publish("t", b"body")
        async with nsq.consume("t", "c", nsqd=nsqd.tcp_address, dead_letter=to(producer)) as consumer:
            async with await anext(consumer):
                raise nsq.Discard("no") from error
            await until(lambda: consumer.in_flight == 0)
            assert consumer.statistics().finished == 1


@pytest.mark.parametrize(
    ("topic", "channel", "template", "name"),
    [
        ("clicks", "c", "{topic}.dead", "clicks.dead"),
        ("clicks", "archive", "dead-{topic}-{channel}", "dead-clicks-archive"),
        ("clicks#ephemeral", "tail#ephemeral", "{topic}.{channel}.dead", "clicks.tail.dead"),
        ("clicks", "c", "dead#ephemeral", "dead#ephemeral"),
    ],
)
def test_the_topic_of_dead_letters(topic: str, channel: str, template: str, name: str) -> None:
    assert to(Letters(), template).topic_for(topic, channel) == name


@pytest.mark.parametrize(
    ("template", "error", "says"),
    [
        ("{topic}", nsq.InvalidOption, "would go to that topic itself"),
        ("t", nsq.InvalidOption, "would go to that topic itself"),
        ("{nsqd}.dead", nsq.InvalidName, "topic '{nsqd}.dead' is not valid"),
        ("", nsq.InvalidName, "is not valid"),
        ("{topic}" + "x" * 64, nsq.InvalidName, "is not valid"),
    ],
)
def test_topics_that_are_refused_at_the_start(template: str, error: type[Exception], says: str) -> None:
    for dead_letter in (template, to(Letters(), template)):
        with pytest.raises(error, match=says):
            nsq.consume("t", "c", nsqd="127.0.0.1:4150", dead_letter=dead_letter)


async def _letters(nsqd: nsq.embedded.EmbeddedNsqd) -> list[tuple[bytes, str]]:
    """Take all dead letters of the topic; return the payload and the reason of each."""
    found: list[tuple[bytes, str]] = []
    async with nsq.consume("t.dead", "look", nsqd=nsqd.tcp_address) as consumer:
        for _ in range(nsqd.topics["t.dead"].message_count):
            async with await anext(consumer) as letter:
                found.append((letter.payload, letter.headers["nsq-dead-reason"]))
    return found


@pytest.mark.parametrize("finds", ["nsqd", "nsqlookupd"])
async def test_a_topic_alone_has_a_producer_of_its_own(finds: str) -> None:
    options = nsq.ConsumerOptions(max_attempts=1)
    async with (
        nsq.embedded.nsqlookupd() as lookupd,
        nsq.embedded.nsqd(lookupd_tcp_addresses=[lookupd.tcp_address]) as nsqd,
    ):
        async with nsq.produce(nsqd.tcp_address) as producer:
            await producer.publish("t", b"discarded")
            await producer.publish("t", b"failed")
        where: dict[str, Any] = (
            {"nsqd": nsqd.tcp_address} if finds == "nsqd" else {"nsqlookupd": lookupd.http_url}
        )
        async with nsq.consume("t", "c", dead_letter="{topic}.dead", options=options, **where) as consumer:
            async with await anext(consumer):
                raise nsq.Discard("no")
            (await anext(consumer)).requeue()  # so that it is given up at the end of the block
        await until(lambda: not nsqd.topics["t"].channels["c"].subscriptions)
        assert await _letters(nsqd) == [(b"discarded", "discarded"), (b"failed", "gave-up")]
        channel = nsqd.topics["t"].channels["c"]
        assert (channel.depth, channel.in_flight) == (0, {})


async def test_its_producer_asks_nsqlookupds_as_the_consumer_does() -> None:
    events = Events()
    options = nsq.ConsumerOptions(lookupd_poll_timeout=0.2)
    async with fake_lookupd() as lookupd:
        lookupd.gate = anyio.Event()
        start = anyio.current_time()
        async with nsq.consume(
            "t", "c", nsqlookupd=lookupd.url, dead_letter="{topic}.dead", on_event=events, options=options
        ):
            await until(lambda: {event.topic for event in events.of(LookupFailed)} == {"t", None})
        assert anyio.current_time() - start < nsq.ProducerOptions().lookupd_poll_timeout / 2


async def test_a_letter_that_nsqd_does_not_answer_delays_the_end_of_the_block_by_two_seconds_at_most() -> (
    None
):
    async def script(peer: FakeConnection) -> None:
        await peer.identify()
        if await peer.served_command() != b"SUB t c":  # the producer's connection
            await anyio.sleep_forever()
        await peer.response()
        peer.subscribed.set()
        await peer.follow()

    options = nsq.ConsumerOptions(max_attempts=1)
    async with fake_nsqd(script) as nsqd:
        async with nsq.consume(
            "t", "c", nsqd=nsqd.address, dead_letter="{topic}.dead", options=options
        ) as consumer:
            await consumer.ready()
            (peer,) = [each for each in nsqd.connections if each.subscribed.is_set()]
            id = await peer.message()
            (await anext(consumer)).requeue()
            start = anyio.current_time()
        assert anyio.current_time() - start < 2 * options.cancelled_drain_timeout + 0.5
    assert answers(peer, id) == [b"REQ id 0"]


def test_other_values_that_are_refused() -> None:
    wrong: Any = None
    with pytest.raises(nsq.InvalidOption, match="topic=None is not valid"):
        nsq.DeadLetter(wrong, producer=Letters())
    with pytest.raises(nsq.InvalidOption, match=r"use what `async with nsq.produce\(...\)` yields"):
        nsq.DeadLetter("dead", producer=wrong)
    wrong = b"dead"
    with pytest.raises(nsq.InvalidOption, match="dead_letter=b'dead' is not valid: use a topic such as"):
        nsq.consume("t", "c", nsqd="127.0.0.1:4150", dead_letter=wrong)
