"""The handler of messages: publish each again, elsewhere."""

from __future__ import annotations

import logging

from ...consumer import Message
from ...errors import Discard, InvalidBody, PublishError, PublishRejected, Requeue
from ...producer import Producer
from .json_filter import JSONFilter, NotJSON

__all__ = ["Republisher"]

_log = logging.getLogger("nsq_anyio.to_nsq")


class Republisher:
    """Publishes messages again; a message is finished once the destination has said OK.

    :param topic: the destination's; None for the one that a message comes from
    """

    def __init__(self, producer: Producer, json_filter: JSONFilter, topic: str | None) -> None:
        self._producer = producer
        self._filter = json_filter
        self._topic = topic

    async def handle(self, message: Message) -> None:
        """Publish a message, if it passes the filter.

        :raises Requeue: if the destination did not take it
        :raises Discard: if it is to be filtered, and is no JSON
        """
        try:
            body = self._filter.apply(message.body)
        except NotJSON as error:
            raise Discard(f"it is no JSON object: {error}") from error
        if body is None:
            return
        try:
            await self._producer.publish(self._topic or message.topic, body)
        except (InvalidBody, PublishError) as error:
            _log.warning("message %s is requeued: %s", message.id, error)
            raise Requeue(backoff=not _is_about_message(error)) from error


def _is_about_message(error: Exception) -> bool:
    """Whether others may well be taken: then there is no reason to slow down."""
    return isinstance(error, InvalidBody) or (
        isinstance(error, PublishRejected) and error.code == "E_BAD_MESSAGE"
    )
