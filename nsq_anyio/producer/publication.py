"""One publish on its way: from the caller to nsqd's answer, over as many connections as it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import OutcomeUnknown, PublishError, PublishRejected
from ..protocol.session import Command
from .one_shot import OneShot

if TYPE_CHECKING:
    from .link import Link

__all__ = ["Publication"]


class Publication:
    """A command to publish, and what becomes of it.

    :ivar topic: where to
    :ivar messages: how many it carries
    :ivar size: in bytes
    :ivar started: when it was handed in, on AnyIO's clock
    :ivar deadline: when its callers stop waiting
    :ivar link: on which it waits for an answer; None while it was not sent, or not again
    :ivar sent_at: when it was sent last
    :ivar sent_messages: the messages it carried then
    :ivar refused_by: the nsqds that could not store it, and ...
    :ivar refusal: ... what the last of them said
    :ivar lost: why the outcome of an earlier attempt is unknown, if it is
    :ivar done: whether there is an outcome
    :ivar error: the outcome, once it is `done`; None for success
    :ivar abandoned: whether its callers have gone
    :ivar over: set when it is `done`
    """

    __slots__ = (
        "_command",
        "_data",
        "abandoned",
        "deadline",
        "done",
        "error",
        "link",
        "lost",
        "messages",
        "over",
        "refusal",
        "refused_by",
        "sent_at",
        "sent_messages",
        "size",
        "started",
        "topic",
    )

    def __init__(
        self,
        command: Command,
        topic: str,
        data: bytes,
        messages: int,
        started: float,
        deadline: float,
        over: OneShot,
    ) -> None:
        self.topic: str = topic
        self.messages: int = messages
        self.size: int = len(data)
        self.started: float = started
        self.deadline: float = deadline
        self.link: Link | None = None
        self.sent_at: float = 0.0
        self.sent_messages: int = 0
        self.refused_by: tuple[Link, ...] = ()
        self.refusal: PublishRejected | None = None
        self.lost: OutcomeUnknown | None = None
        self.done: bool = False
        self.error: PublishError | None = None
        self.abandoned: bool = False
        self.over: OneShot = over
        self._command = command
        self._data = data

    def encode(self) -> tuple[Command, bytes]:
        """The command to send now."""
        return self._command, self._data

    def finish(self, error: PublishError | None) -> None:
        """Tell the callers."""
        self.done = True
        self.error = error
        self.over.set()

    def expire(self, now: float) -> bool:  # noqa: ARG002
        """The deadline has passed: whether that ends it; if not, there is a later deadline now."""
        return True

    def split(self, refusal: PublishRejected) -> list[Publication] | None:  # noqa: ARG002
        """Take nsqd's refusal of the whole: the parts to send on their own, None if there are none."""
        return None
