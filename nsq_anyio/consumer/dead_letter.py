"""Dead letters: messages that are given up or discarded are published to another topic, then finished.

A dead letter that is too large for nsqd loses a part of the error's description. nsqd names its
--max-msg-size only when it refuses a larger message, and then closes the connection. So the limit is learned
from the first refusal, and observed from then on.
"""

from __future__ import annotations

import inspect
import math
import re
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ..envelope import decode, encode, encode_headers
from ..errors import InvalidBody, InvalidEnvelope, InvalidOption, PublishRejected, Requeue
from ..events import DeadLetterFailed, Emitter
from ..names import EPHEMERAL_SUFFIX, check_topic
from ..tasks import is_stray
from .message import Message, about

GAVE_UP = "gave-up"
DISCARDED = "discarded"

_DELIVERED_TOO_OFTEN = (
    "nsqd has delivered it {} times, which is more than max_deliveries, and this time no handler was called: "
    "perhaps it ends each process that handles it, or always times out"
)

PREFIX = "nsq-dead-"
_BODY = f"{PREFIX}body"
_ENVELOPE = "envelope"
_RAW = "raw"

_MAX_TEXT = 1_000
_MAX_TRACEBACK = 8_000
_MAX_FRAMES = 30

_REFUSAL = re.compile(r"message too big \d+ > (\d{1,19})", re.ASCII)


class Publisher(Protocol):
    """Publishes dead letters: a `Producer`."""

    async def publish(self, topic: str, body: bytes, /, *, headers: Mapping[str, str]) -> Any:
        """Publish one message, and return once it is stored."""
        ...


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """The destination of messages that a consumer gives up, or that its handlers discard.

    :ivar topic: the topic, or a template such as ``{topic}.dead``, in which ``{topic}`` and ``{channel}``
        stand for the consumer's topic and channel, without ``#ephemeral``
    :ivar producer: the producer that publishes them; its block must be outside the consumer's
    :raises InvalidOption: if the topic is not a str, or the producer has no async ``publish``
    """

    topic: str
    producer: Publisher

    def __post_init__(self) -> None:
        if not isinstance(self.topic, str):
            raise InvalidOption(f"topic={self.topic!r} is not valid: use text such as '{{topic}}.dead'")
        if not inspect.iscoroutinefunction(getattr(self.producer, "publish", None)):
            raise InvalidOption(
                f"producer={self.producer!r} is not valid: use what `async with nsq.produce(...)` yields"
            )

    def topic_for(self, topic: str, channel: str) -> str:
        """Return the topic for the dead letters of a consumer of ``topic`` and ``channel``.

        :raises InvalidName: if nsqd would refuse the name
        :raises InvalidOption: if it is ``topic`` itself
        """
        name = self.topic.replace("{topic}", topic.removesuffix(EPHEMERAL_SUFFIX))
        name = check_topic(name.replace("{channel}", channel.removesuffix(EPHEMERAL_SUFFIX)))
        if name == topic:
            raise InvalidOption(
                f"dead letters of topic {topic!r} would go to that topic itself, and circulate for ever: "
                "use a template such as '{topic}.dead'"
            )
        return name


class DeadLetters:
    """Publishes the dead letters of one consumer.

    :raises InvalidName: if nsqd would refuse the topic of the dead letters
    :raises InvalidOption: if it is the consumer's own topic
    """

    def __init__(self, topic: str, channel: str, dead_letter: DeadLetter, emit: Emitter) -> None:
        self._topic = dead_letter.topic_for(topic, channel)
        self._producer = dead_letter.producer
        self._emit = emit
        self._size = DeadLetterSize()

    async def bury(self, message: Message, reason: str, error: BaseException | None) -> bool:
        """Publish the dead letter of a message; return whether to finish the message now.

        If False is returned, the message was requeued here, or nsqd has requeued it.

        :param error: the failure; None if no handler was called
        """
        if not message._arrival.delegate.holds(message):
            return False  # nsqd delivers it again, and it would get a second dead letter
        if error is None:
            failure = Failure(text=_DELIVERED_TOO_OFTEN.format(message.attempts))
        else:
            has_no_reason = isinstance(error, Requeue) and not error.reason
            cause = error.__cause__ or error.__context__ if has_no_reason else None
            failure = Failure.of(cause or error)
        payload, headers = sealed_parts(message, reason, failure, time.time_ns())
        try:
            async with message.keep_alive():
                await self._size.publish(
                    payload,
                    headers,
                    lambda chosen: self._producer.publish(self._topic, payload, headers=chosen),
                )
        except BaseException as failed:
            if isinstance(failed, Exception) or is_stray(failed):
                event = DeadLetterFailed(dead_letter_topic=self._topic, error=failed, **about(message))
                self._emit(event)
                if not message.responded:
                    message._requeue_now()
                return False
            message._answer_for(failed)
            raise
        return True


class DeadLetterHeaders:
    """The names of a dead letter's headers."""

    REASON = f"{PREFIX}reason"
    ERROR_TYPE = f"{PREFIX}error-type"
    ERROR = f"{PREFIX}error"
    TRACEBACK = f"{PREFIX}traceback"
    ATTEMPTS = f"{PREFIX}attempts"
    TIMESTAMP = f"{PREFIX}timestamp"
    TOPIC = f"{PREFIX}topic"
    CHANNEL = f"{PREFIX}channel"
    NSQD = f"{PREFIX}nsqd"
    ID = f"{PREFIX}id"
    TIME = f"{PREFIX}time"


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as text. Unlike the exception, it does not keep the frames of the handler alive.

    :ivar kind: the class, with its module
    :ivar text: the text of the error
    :ivar traceback: its traceback
    """

    kind: str = ""
    text: str = ""
    traceback: str = ""

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Describe an error. A long text loses its end, and a long traceback its beginning."""
        kind = type(error)
        name = (
            kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        )
        try:
            # People pass an exception as the reason; only a type checker objects.
            text = str(error.reason if isinstance(error, Requeue) and error.reason else error)
        except Exception as failed:  # noqa: BLE001 - describe an error that cannot be printed, too
            text = f"<no text: {type(failed).__name__}>"
        lines = "".join(traceback.format_exception(error, limit=-_MAX_FRAMES))
        # The last lines of a traceback say the most.
        return cls(name, _clean(text)[:_MAX_TEXT], _clean(lines)[-_MAX_TRACEBACK:])


def _clean(text: str) -> str:
    """Return the text with surrogates escaped, which UTF-8 cannot encode."""
    return text.encode("utf-8", "backslashreplace").decode()


def sealed_parts(message: Message, reason: str, failure: Failure, now: int) -> tuple[bytes, dict[str, str]]:
    """Return the payload and the headers of a message's dead letter.

    If the message is in an envelope, its headers keep their names, and its payload becomes the payload of the
    dead letter. A body that could not be restored from them byte for byte becomes the payload unchanged.

    :param now: nanoseconds since the epoch
    """
    names = DeadLetterHeaders
    headers = {
        names.REASON: reason,
        names.ERROR_TYPE: failure.kind,
        names.ERROR: failure.text,
        names.TRACEBACK: failure.traceback,
        names.ATTEMPTS: str(message.attempts),
        names.TIMESTAMP: str(message.timestamp),
        names.TOPIC: message.topic,
        names.CHANNEL: message.channel,
        names.NSQD: message.nsqd,
        names.ID: message.id,
        names.TIME: str(now),
    }
    try:
        envelope = decode(message.body)
    except InvalidEnvelope:
        return message.body, {**headers, _BODY: _RAW}
    own = {**envelope.headers, **headers, _BODY: _ENVELOPE}
    if (
        envelope.payload is message.body  # it is not in an envelope
        or not envelope.payload  # a producer refuses an empty payload
        or any(name.startswith(PREFIX) for name in envelope.headers)  # it is itself a dead letter
        or not _fits(own)
    ):
        return message.body, {**headers, _BODY: _RAW}
    return envelope.payload, own


def sealed_size(payload: bytes, headers: Mapping[str, str]) -> int:
    """Return the size of the envelope in bytes."""
    return len(encode_headers(headers)) + len(payload)


def cut_to(size: float, payload: bytes, headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers, with the description of the error cut so that the envelope has ``size`` bytes.

    As little as possible is cut: first the beginning of the traceback, then the end of the error's text, then
    the whole class. If that is not enough, the envelope is still larger.
    """
    cut = dict(headers)
    names = DeadLetterHeaders
    for name in (names.TRACEBACK, names.ERROR, names.ERROR_TYPE):
        excess = sealed_size(payload, cut) - size
        if excess <= 0:
            break
        text = cut[name].encode()
        kept = int(max(len(text) - excess, 0))
        if name == names.ERROR_TYPE:  # a part of the name could be another class's
            kept = 0
        part = text[len(text) - kept :] if name == names.TRACEBACK else text[:kept]
        cut[name] = part.decode(errors="ignore")
    return cut


def _fits(headers: Mapping[str, str]) -> bool:
    try:
        encode_headers(headers)
    except InvalidOption:
        return False
    return True


def original_body(payload: bytes, headers: Mapping[str, str]) -> bytes:
    """Return the original body of a dead letter, byte for byte.

    :raises InvalidEnvelope: if this is not a dead letter
    """
    match headers.get(_BODY):
        case "raw":
            return payload
        case "envelope":
            kept = {name: value for name, value in headers.items() if not name.startswith(PREFIX)}
            return encode(payload, kept)
        case other:
            raise InvalidEnvelope(
                f"this is not a dead letter: its header {_BODY} is {other!r}, not raw or envelope"
            )


class DeadLetterSize:
    """The size of the largest message that nsqd accepts, if known; with several nsqds, the smallest."""

    def __init__(self) -> None:
        self._limit: float = math.inf

    async def publish(
        self,
        payload: bytes,
        headers: dict[str, str],
        publish: Callable[[dict[str, str]], Awaitable[object]],
    ) -> None:
        """Publish a dead letter, with as much of its description of the error as there is room for.

        :param publish: publishes the payload with the headers that it is given
        :raises InvalidBody: if there is no room even without the error
        :raises NSQError: as `Producer.publish` does
        """
        limit = self._limit
        while True:
            chosen = headers if limit == math.inf else cut_to(limit, payload, headers)
            try:
                await publish(chosen)
            except (InvalidBody, PublishRejected) as refusal:
                if isinstance(refusal, PublishRejected) and refusal.code != "E_BAD_MESSAGE":
                    raise
                size = sealed_size(payload, chosen)
                smallest = sealed_size(payload, cut_to(0, payload, headers))
                if size <= smallest:
                    raise InvalidBody(
                        f"the dead letter has {size} bytes even without the error, which is too large: raise "
                        f"the producer's max_msg_size and nsqd's --max-msg-size ({refusal})"
                    ) from refusal
                limit = self._learn(refusal, size, smallest)
            else:
                return

    def _learn(self, refusal: InvalidBody | PublishRejected, size: int, smallest: int) -> float:
        """Return the size limit for the next attempt, which is always lower than ``size``."""
        named = _REFUSAL.search(str(refusal))
        if named and int(named[1]) < size:
            self._limit = min(self._limit, int(named[1]))
            return self._limit
        return smallest + (size - smallest) // 2
