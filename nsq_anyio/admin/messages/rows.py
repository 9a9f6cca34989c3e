"""Messages as they are shown."""

from __future__ import annotations

from dataclasses import dataclass

from ...consumer.dead_letter import DeadLetterHeaders
from ...dead_letters import Letter
from ...terminal_text import one_line, visible
from .content import Bounds, Content
from .copies import Copy

_NANO = 1e9
_IN_A_LETTER = Bounds(text=16_384, binary=2_048)


@dataclass(frozen=True, slots=True)
class MessageRow:
    """One message.

    :ivar published: seconds since the epoch
    """

    id: str
    nsqd: str
    attempts: int
    published: float
    content: Content

    @classmethod
    def of(cls, message: Copy) -> MessageRow:
        """Read a message; the row does not keep it, or its body."""
        return cls(
            one_line(message.id),
            message.nsqd,
            message.attempts,
            message.timestamp / _NANO,
            Content.of(message.body),
        )


@dataclass(frozen=True, slots=True)
class LetterRow:
    """One dead letter, or another message of its topic.

    :ivar key: its nsqd and id, by which it is selected
    :ivar died: seconds since the epoch
    :ivar source_id: the id of the original message, on ``source_nsqd``
    :ivar published: when the original message was published, as ``died``; 0 if that is not known
    :ivar problem: why it is not a dead letter; empty if it is one
    :ivar content: of the original body
    """

    key: str
    id: str
    nsqd: str
    died: float
    reason: str
    source_topic: str
    source_channel: str
    attempts: str
    error: str
    traceback: str
    source_id: str
    source_nsqd: str
    published: float
    problem: str
    content: Content

    @classmethod
    def of(cls, letter: Letter) -> LetterRow:
        """Read a letter; the row does not keep it, or its body."""
        names = DeadLetterHeaders

        def header(name: str) -> str:
            return one_line(letter.get(name))

        published = letter.get(names.TIMESTAMP)
        return cls(
            key=one_line(letter.key),
            id=one_line(letter.message.id),
            nsqd=letter.message.nsqd,
            died=letter.died,
            reason=header(names.REASON),
            source_topic=header(names.TOPIC),
            source_channel=header(names.CHANNEL),
            attempts=header(names.ATTEMPTS),
            error=one_line(letter.error),
            traceback=visible(letter.get(names.TRACEBACK)),
            source_id=header(names.ID),
            source_nsqd=header(names.NSQD),
            published=int(published) / _NANO if _is_time(published) else 0.0,
            problem=one_line(letter.problem),
            content=Content.of(letter.message.body if letter.body is None else letter.body, _IN_A_LETTER),
        )


def _is_time(text: str) -> bool:
    """Return whether a header is a time in nanoseconds that a double can hold."""
    return text.isascii() and text.isdigit() and len(text) < 20
