"""The headers of dead letters, and how the original body is restored from them."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass

from ..envelope import decode, encode, encode_headers
from ..errors import InvalidEnvelope, InvalidOption, Requeue
from .message import Message

PREFIX = "nsq-dead-"
_BODY = f"{PREFIX}body"
_ENVELOPE = "envelope"
_RAW = "raw"

_MAX_TEXT = 1_000
_MAX_TRACEBACK = 8_000
_MAX_FRAMES = 30


class DeadLetterHeaders:
    """The names of the headers."""

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
            text = error.reason if isinstance(error, Requeue) and error.reason else str(error)
        except Exception as failed:  # noqa: BLE001 - an error that cannot be printed is described all the same
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
    dead letter. A body that could not be restored byte for byte from that becomes the payload as a whole.

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
        if name == names.ERROR_TYPE:  # a part of the name would be that of another class
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
