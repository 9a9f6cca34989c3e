"""Publishing for later: who defers a message, and the envelope for a service for delays."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

import nsq_anyio as nsq
from nsq_anyio import envelope
from nsq_anyio.producer import ProducerMiddleware
from nsq_anyio.producer.deferral import Delayed, deferral, unwrapped, wrapped

from ..fake_nsqd import FakeConnection, fake_nsqd

HEADERS = {"nsq-delay-topic": "clicks", "nsq-delay-at": "2026-12-24T18:00:00.000001Z"}


def chosen(
    defer: Any = None, at: Any = None, *, durable: Any = False, delays: str | None = None
) -> int | datetime:
    return deferral(defer=defer, at=at, durable=durable, max_defer=60, delays=delays)


def soon(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


@pytest.mark.parametrize(("defer", "milliseconds"), [(0, 0), (0.0004, 0), (1.5, 1500), (60, 60_000)])
def test_defer_in_milliseconds(defer: float, milliseconds: int) -> None:
    assert chosen(defer) == milliseconds
    assert chosen(defer, delays="nsq.delays") == milliseconds


def test_nsqd_defers_until_a_time_that_is_near() -> None:
    found = chosen(at=soon(30))
    assert isinstance(found, int)
    assert 29_000 < found <= 30_000
    assert chosen(at=soon(-5)) == chosen(at=soon(-5), durable=True) == 0
    assert chosen(0, durable=True) == 0


def test_a_service_keeps_what_nsqd_cannot_or_should_not() -> None:
    far = soon(61)
    assert chosen(at=far, delays="d") == far
    near = soon(30)
    assert chosen(at=near, durable=True, delays="d") == near
    for found in (chosen(60.5, delays="d"), chosen(60.5, durable=True, delays="d")):
        assert isinstance(found, datetime)
        assert abs(found.timestamp() - time.time() - 60.5) < 5


@pytest.mark.parametrize("defer", [-0.001, float("inf"), float("nan"), True, "1"])
@pytest.mark.parametrize("delays", [None, "d"])
def test_defers_that_are_refused(defer: Any, delays: str | None) -> None:
    with pytest.raises(nsq.InvalidOption, match=r"defer=.* is not valid: use 0 or more \(seconds\)"):
        chosen(defer, delays=delays)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            {"defer": 60.001},
            r"defer=60.001 is not possible here: more than max_defer=60 \(seconds\) from now needs a service",
        ),
        (
            {"defer": 61},
            r"for delays: run `nsq-anyio delay serve`, and give the producer delays='nsq.delays'",
        ),
        ({"defer": 1, "durable": True}, r"defer=1 is not possible here: durable=True needs a service"),
        (
            {"at": datetime(2999, 1, 1, tzinfo=UTC)},
            r"at=2999-01-01 00:00:00\+00:00 is not possible here: more",
        ),
        ({"at": datetime(2999, 1, 1)}, r"has no time zone: use datetime.now\(UTC\)"),  # noqa: DTZ001
        ({"at": 5.0}, r"at=5.0 is not valid: use a datetime with a time zone"),
        ({"at": datetime(2999, 1, 1, tzinfo=UTC), "defer": 1}, r"are both given: choose one of them"),
        ({"durable": True}, r"durable=True needs a time: give at=, or defer="),
        ({"defer": 1, "durable": 1}, r"durable=1 is not valid: use True or False"),
        ({"defer": 1e12, "delays": "d"}, r"defer=1000000000000.0 is not valid: it ends after the year 9999"),
    ],
)
def test_what_is_refused(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(nsq.InvalidOption, match=says):
        chosen(**arguments)


def test_the_envelope_of_a_delayed_message() -> None:
    at = datetime(2026, 12, 24, 20, 0, 0, 1, tzinfo=timezone(timedelta(hours=2)))
    body = envelope.encode(b"body", {"own": "header"})
    sealed = wrapped("clicks", at, body)
    assert envelope.decode(sealed) == envelope.Envelope(HEADERS, body)
    assert unwrapped(sealed) == Delayed("clicks", at.timestamp(), body)


@pytest.mark.parametrize("text", ["2026-12-24T18:00:00Z", "2026-12-24 20:00+02:00"])
def test_other_producers_may_write_the_time_otherwise(text: str) -> None:
    body = envelope.encode(b"x", {**HEADERS, "nsq-delay-at": text})
    assert unwrapped(body).at == datetime(2026, 12, 24, 18, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"text", "it has no header nsq-delay-topic and no header nsq-delay-at: it is no delayed message"),
        (envelope.encode(b"x", {"nsq-delay-topic": "t"}), "it has no header nsq-delay-at: it is no delayed"),
        (envelope.MAGIC, "cut off after its magic"),
        (envelope.encode(b"x", {**HEADERS, "nsq-delay-topic": "a b"}), "nsq-delay-topic: topic 'a b' is not"),
        (
            envelope.encode(b"x", {**HEADERS, "nsq-delay-at": "now"}),
            "nsq-delay-at='now' is not a time in RFC",
        ),
        (envelope.encode(b"x", {**HEADERS, "nsq-delay-at": "2026-12-24T18:00"}), "has no time zone"),
        (envelope.encode(b"", HEADERS), "its payload is empty, and nsqd accepts no empty message"),
    ],
)
def test_what_is_no_delayed_message(body: bytes, says: str) -> None:
    with pytest.raises(nsq.InvalidEnvelope, match=says):
        unwrapped(body)


@asynccontextmanager
async def around(publishing: nsq.Publishing) -> AsyncGenerator[None]:
    """A middleware."""
    assert publishing.topic == "t"
    yield


@pytest.mark.anyio
@pytest.mark.parametrize("middleware", [(), (around,)], ids=["plain", "middleware"])
async def test_what_is_sent(middleware: Sequence[ProducerMiddleware]) -> None:
    seen: list[tuple[bytes, bytes]] = []

    async def script(connection: FakeConnection) -> None:
        await connection.identify()
        while True:
            line = await connection.command()
            seen.append((line, connection.body))
            await connection.response()

    far = datetime(2999, 1, 1, tzinfo=UTC)
    async with (
        fake_nsqd(script) as server,
        nsq.produce(server.address, delays="nsq.delays", middleware=middleware) as producer,
    ):
        await producer.publish("t", b"soon", at=soon(-1))
        await producer.publish("t", b"later", at=far, headers={"a": "b"})
        await producer.publish("t", b"kept", defer=9, durable=True)
        with pytest.raises(nsq.InvalidBody, match=r"exceeds max_msg_size=1048576"):
            await producer.publish("t", b"x" * 1024 * 1024, defer=9, durable=True)
    (now, body), (_, later), (to_service, kept) = seen
    assert (now, body) == (b"DPUB t 0", b"soon")
    assert unwrapped(later) == Delayed("t", far.timestamp(), envelope.encode(b"later", {"a": "b"}))
    assert to_service == b"PUB nsq.delays"
    assert unwrapped(kept).body == b"kept"


def test_the_topic_of_a_service_is_checked() -> None:
    with pytest.raises(nsq.InvalidName, match="topic 'a b' is not valid"):
        nsq.produce("127.0.0.1:4150", delays="a b")
