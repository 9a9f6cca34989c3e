"""Messages as they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...consumer import Message
from ...consumer.dead_letter_headers import PREFIX, DeadLetterHeaders
from ...dead_letters.letters import Letter
from ...visible import one_line, visible
from .content import Bounds, Content

__all__ = ["LetterRow", "MessageRow"]

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
    def of(cls, message: Message) -> MessageRow:
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

    :ivar id: its own id, by which it is selected
    :ivar died: seconds since the epoch
    :ivar details: what its headers say beside that, by their names without the prefix
    :ivar problem: why it is not a dead letter; empty if it is one
    :ivar content: of the original body
    """

    id: str
    nsqd: str
    died: float
    reason: str
    source_topic: str
    source_channel: str
    attempts: str
    error: str
    traceback: str
    details: Sequence[tuple[str, str]]
    problem: str
    content: Content

    @classmethod
    def of(cls, letter: Letter) -> LetterRow:
        """Read a letter; the row does not keep it, or its body."""
        names = DeadLetterHeaders

        def header(name: str) -> str:
            return one_line(letter.get(name))

        shown = {names.REASON, names.TOPIC, names.CHANNEL, names.ATTEMPTS, names.TRACEBACK, f"{PREFIX}body"}
        return cls(
            id=one_line(letter.message.id),
            nsqd=letter.message.nsqd,
            died=letter.died,
            reason=header(names.REASON),
            source_topic=header(names.TOPIC),
            source_channel=header(names.CHANNEL),
            attempts=header(names.ATTEMPTS),
            error=one_line(letter.error),
            traceback=visible(letter.get(names.TRACEBACK)),
            details=[
                (name.removeprefix(PREFIX), one_line(value))
                for name, value in letter.headers.items()
                if name.startswith(PREFIX) and name not in shown
            ],
            problem=one_line(letter.problem),
            content=Content.of(letter.message.body if letter.body is None else letter.body, _IN_A_LETTER),
        )
