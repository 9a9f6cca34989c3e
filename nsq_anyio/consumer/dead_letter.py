"""Publishes messages that are given up or discarded to another topic, before they are finished."""

from __future__ import annotations

import inspect
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import InvalidOption, Requeue
from ..events import DeadLetterFailed, Emitter
from ..names import EPHEMERAL_SUFFIX, check_topic
from ..tasks import is_stray
from .dead_letter_headers import Failure, sealed_parts
from .dead_letter_size import LetterSize
from .message import Message, about

GAVE_UP = "gave-up"
DISCARDED = "discarded"

_DELIVERED_TOO_OFTEN = (
    "nsqd has delivered it {} times, which is more than max_deliveries, and this time no handler was called: "
    "perhaps it ends each process that handles it, or always times out"
)


class Publisher(Protocol):
    """What dead letters are published with: a `Producer`."""

    async def publish(self, topic: str, body: bytes, /, *, headers: Mapping[str, str]) -> Any:
        """Publish one message, and return once it is stored."""
        ...


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Where a consumer publishes messages that it gives up or that its handlers discard.

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
        self._size = LetterSize()

    async def bury(self, message: Message, reason: str, error: BaseException | None) -> bool:
        """Publish the dead letter of a message; return whether to finish the message now.

        If not, the message was requeued here, or nsqd has requeued it.

        :param error: None if no handler has had it
        """
        if not message.delivery.delegate.holds(message):
            return False  # nsqd delivers it again, and it would get a second dead letter
        if error is None:
            failure = Failure(text=_DELIVERED_TOO_OFTEN.format(message.attempts))
        else:
            says_nothing = isinstance(error, Requeue) and not error.reason
            cause = error.__cause__ or error.__context__ if says_nothing else None
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
                    message.requeue_now()
                return False
            message.answer_for(failed)
            raise
        return True
