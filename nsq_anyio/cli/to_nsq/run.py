"""The republisher of messages to other nsqds."""

from __future__ import annotations

import logging

import anyio

from ...consumer import Message
from ...errors import Discard, InvalidBody, PublishError, PublishRejected, Requeue
from ...events import Event, PublishedMessages
from ...producer import Producer
from ..clients import consume_from, produce_to
from ..event_loop import handle_until
from ..reach import check_reachable
from ..timings import Timings
from .flags import ToNsqFlags
from .json_filter import JSONFilter, NotJSON

_log = logging.getLogger("nsq_anyio.to_nsq")


class ToNsq:
    """Consumes topics, and republishes their messages."""

    def __init__(self, flags: ToNsqFlags) -> None:
        self._flags = flags
        self._consumer = flags.consumer.never_giving_up()
        # Messages that were sent when a connection was lost are published again rather than requeued. Either
        # way, they may be stored twice.
        self._producer = flags.producer.preferring(coalesce=True, resend_unknown=True).with_mode(flags.mode)
        self._filter = JSONFilter(
            flags.require_json_field, flags.require_json_value, flags.whitelist_json_field
        )

    async def run(self, stop: anyio.Event) -> None:
        """Republish until ``stop`` is set.

        :raises click.ClickException: if no server of the source is reachable
        :raises NSQError: as `nsq_anyio.consume` and `nsq_anyio.produce` do
        """
        await check_reachable(self._flags.source, self._consumer)
        timings = Timings(self._flags.destination.nsqd or (), self._flags.status_every)

        def note(event: Event) -> None:
            if isinstance(event, PublishedMessages):
                timings.add(event.nsqd, event.seconds, event.messages)

        producing = produce_to(self._flags.destination, self._producer, note)
        async with producing as producer, anyio.create_task_group() as tasks:
            for topic in dict.fromkeys(self._flags.topic):
                tasks.start_soon(self._republish, topic, producer, stop)

    async def _republish(self, topic: str, producer: Producer, stop: anyio.Event) -> None:
        in_flight = self._consumer.max_in_flight
        republisher = _Republisher(producer, self._filter, self._flags.destination_topic)
        async with consume_from(
            self._flags.source, self._consumer, topic, self._flags.channel, max_in_flight=in_flight
        ) as consumer:
            # As many handlers as messages in flight: publishes that wait together share one MPUB.
            await handle_until(stop, consumer, republisher.handle, in_flight)


class _Republisher:
    """The handler of messages: each is finished once the destination has acknowledged it.

    :param topic: the destination's topic; None for the topic that a message came from
    """

    def __init__(self, producer: Producer, json_filter: JSONFilter, topic: str | None) -> None:
        self._producer = producer
        self._filter = json_filter
        self._topic = topic

    async def handle(self, message: Message) -> None:
        """Publish a message if it passes the filter.

        :raises Requeue: if the destination did not accept it
        :raises Discard: if there is a filter and the message is not a JSON object
        """
        try:
            body = self._filter.apply(message.body)
        except NotJSON as error:
            raise Discard(f"it is not a JSON object: {error}") from error
        if body is None:
            return
        try:
            await self._producer.publish(self._topic or message.topic, body)
        except (InvalidBody, PublishError) as error:
            _log.warning("message %s is requeued: %s", message.id, error)
            raise Requeue(backoff=not _is_about_message(error)) from error


def _is_about_message(error: Exception) -> bool:
    """Return whether the error concerns this message alone, so that there is no reason to slow down."""
    return isinstance(error, InvalidBody) or (
        isinstance(error, PublishRejected) and error.code == "E_BAD_MESSAGE"
    )
