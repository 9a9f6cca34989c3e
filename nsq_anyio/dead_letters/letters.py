"""Dead letters, and the filter that selects some of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ..consumer import Message
from ..consumer.dead_letter import DeadLetterHeaders, original_body
from ..errors import InvalidEnvelope

_NANO = 1e9


def key_of(message: Message) -> str:
    """Return ``NSQD/ID``, which names a message of a topic: its id alone is unique within one nsqd only."""
    return f"{message.nsqd}/{message.id}"


@dataclass(frozen=True, slots=True)
class Letter:
    """A message of the topic of dead letters.

    :ivar body: the original body; None if this is not a dead letter
    :ivar problem: why this is not a dead letter; empty if it is one
    :ivar died: when its message was given up or discarded, in seconds since the epoch; if that is not known,
        when the letter was published
    """

    message: Message
    headers: dict[str, str]
    body: bytes | None
    problem: str
    died: float

    @classmethod
    def of(cls, message: Message) -> Letter:
        """Read a message. If it is not a dead letter, `problem` says why."""
        published = message.timestamp / _NANO
        try:
            headers = dict(message.headers)
            body = original_body(message.payload, headers)
        except InvalidEnvelope as error:
            return cls(message, {}, None, str(error), published)
        time = headers.get(DeadLetterHeaders.TIME, "")
        died = int(time) / _NANO if time.isascii() and time.isdigit() and len(time) < 20 else published
        return cls(message, headers, body, "", died)

    def get(self, name: str) -> str:
        """Return the value of a header; empty if there is none."""
        return self.headers.get(name, "")

    @property
    def error(self) -> str:
        """The class and the text of the error."""
        kind, text = self.get(DeadLetterHeaders.ERROR_TYPE), self.get(DeadLetterHeaders.ERROR)
        return f"{kind}: {text}" if kind else text

    @property
    def key(self) -> str:
        """See `key_of`."""
        return key_of(self.message)

    @property
    def ids(self) -> set[str]:
        """Its own id and that of the message that it was made from, each also as ``NSQD/ID``."""
        nsqd, id = self.get(DeadLetterHeaders.NSQD), self.get(DeadLetterHeaders.ID)
        return {self.key, self.message.id, f"{nsqd}/{id}", id}


@dataclass(frozen=True, slots=True)
class Filter:
    """Selects letters; a field that is None or empty selects all.

    :ivar error: contained in the error's class and text
    :ivar died_before: seconds since the epoch
    :ivar died_after: seconds since the epoch
    :ivar keys: the letters themselves, each as `Letter.key`
    :ivar ids: as `Letter.ids`. Several letters may share one
    :ivar letters_only: whether to leave out messages that are not dead letters
    """

    error: str | None = None
    died_before: float | None = None
    died_after: float | None = None
    topic: str | None = None
    channel: str | None = None
    keys: Collection[str] = ()
    ids: Collection[str] = ()
    letters_only: bool = False

    def takes(self, letter: Letter) -> bool:
        """Return whether this letter is selected."""
        return (
            (self.error is None or self.error in letter.error)
            and (self.died_before is None or letter.died <= self.died_before)
            and (self.died_after is None or letter.died >= self.died_after)
            and (self.topic is None or letter.get(DeadLetterHeaders.TOPIC) == self.topic)
            and (self.channel is None or letter.get(DeadLetterHeaders.CHANNEL) == self.channel)
            and (not self.keys or letter.key in self.keys)
            and (not self.ids or not letter.ids.isdisjoint(self.ids))
            and not (self.letters_only and letter.problem)
        )
