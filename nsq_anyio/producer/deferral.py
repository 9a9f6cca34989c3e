"""The times of deferred messages, and the envelope in which a message travels to a service for delays."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ..envelope import decode, encode
from ..errors import InvalidEnvelope, InvalidName, InvalidOption
from ..names import check_topic
from ..options.checks import check_flag, check_seconds

TOPIC_HEADER = "nsq-delay-topic"
"""The header that names the topic to publish the payload to."""

TIME_HEADER = "nsq-delay-at"
"""The header with the time to publish it: RFC 3339, in UTC, with microseconds."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def deferral(
    *, defer: float | None, at: datetime | None, durable: bool, max_defer: float, delays: str | None
) -> int | datetime:
    """Choose who defers a message, for the arguments of a publish.

    :param max_defer: the seconds for which nsqd defers a message at most
    :param delays: the topic of the service for delays; None if there is none
    :return: for nsqd, the milliseconds; for the service, the time until which it keeps the message
    :raises InvalidOption: if the arguments are not valid, or need a service and there is none
    """
    check_flag("durable", durable)
    if at is not None:
        if defer is not None:
            raise InvalidOption(f"at={at} and defer={defer!r} are both given: choose one of them")
        seconds = max(_checked(at).timestamp() - time.time(), 0.0)
        given = f"at={at}"
    elif defer is not None:
        check_seconds("defer", defer, 0)
        seconds = defer
        given = f"defer={defer!r}"
    else:
        raise InvalidOption("durable=True needs a time: give at=, or defer= for seconds from now")
    if seconds <= max_defer and not (durable and seconds):
        return round(seconds * 1000) if at is None else math.ceil(seconds * 1000)
    if delays is None:
        reason = "durable=True" if durable else f"more than max_defer={max_defer} (seconds) from now"
        raise InvalidOption(
            f"{given} is not possible here: {reason} needs a service for delays: run "
            "`nsq-anyio delay serve`, and give the producer delays='nsq.delays'"
        )
    try:
        return at or datetime.now(UTC) + timedelta(seconds=seconds)
    except OverflowError as error:
        raise InvalidOption(f"{given} is not valid: it ends after the year 9999") from error


def _checked(at: datetime) -> datetime:
    if not isinstance(at, datetime):
        raise InvalidOption(f"at={at!r} is not valid: use a datetime with a time zone")
    if at.utcoffset() is None:
        raise InvalidOption(
            f"at={at!r} has no time zone: use datetime.now(UTC) + timedelta(...), or at.astimezone() if it "
            "is local time"
        )
    return at


@dataclass(frozen=True, slots=True)
class Delayed:
    """What an envelope of a delayed message holds.

    :ivar topic: the topic to publish to, which nsqd accepts
    :ivar at: when, in seconds since the epoch
    :ivar body: the body to publish, which is not empty
    """

    topic: str
    at: float
    body: bytes


def wrapped(topic: str, at: datetime, body: bytes) -> bytes:
    """Return the envelope of a delayed message."""
    text = at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds")
    return encode(body, {TOPIC_HEADER: topic, TIME_HEADER: f"{text}Z"})


def unwrapped(body: bytes) -> Delayed:
    """Read an envelope of a delayed message.

    :raises InvalidEnvelope: if the body is none; the text says why
    """
    envelope = decode(body)
    headers, payload = envelope.headers, envelope.payload
    missing = [name for name in (TOPIC_HEADER, TIME_HEADER) if name not in headers]
    if missing:
        raise InvalidEnvelope(f"it has no header {' and no header '.join(missing)}: it is no delayed message")
    try:
        topic = check_topic(headers[TOPIC_HEADER])
    except InvalidName as error:
        raise InvalidEnvelope(f"header {TOPIC_HEADER}: {error}") from error
    text = headers[TIME_HEADER]
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidEnvelope(f"header {TIME_HEADER}={text[:40]!r} is not a time in RFC 3339") from error
    if at.utcoffset() is None:
        raise InvalidEnvelope(f"header {TIME_HEADER}={text[:40]!r} has no time zone")
    if not payload:
        raise InvalidEnvelope("its payload is empty, and nsqd accepts no empty message")
    return Delayed(topic, (at - _EPOCH).total_seconds(), payload)
