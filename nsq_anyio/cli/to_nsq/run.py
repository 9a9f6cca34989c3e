"""The republisher of messages to other nsqds."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import anyio

from ...consumer import Message, consume
from ...errors import Discard, InvalidBody, PublishError, PublishRejected, Requeue
from ...events import Event, PublishedMessages
from ...producer import Producer, produce
from ..event_loop import handle_until
from ..flags.connection import ConsumerFlags, ProducerFlags
from ..flags.source import Destination, Source
from ..reach import check_reachable
from ..timings import Timings
from .json_filter import JSONFilter, NotJSON

_log = logging.getLogger("nsq_anyio.to_nsq")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToNsq:
    """Republishes messages, as the command's flags say.

    :ivar destination_topic: None for the topic that a message came from
    :ivar status_every: see `Timings`
    """

    source: Source
    topics: Sequence[str]
    channel: str
    destination: Destination
    destination_topic: str | None
    json_filter: JSONFilter
    status_every: int
    consumer: ConsumerFlags
    producer: ProducerFlags

    async def run(self, stop: anyio.Event) -> None:
        """Republish until ``stop`` is set.

        :raises click.ClickException: if no server of the source is reachable
        :raises NSQError: as `consume` and `produce` do
        """
        await check_reachable(self.source, self.consumer)
        timings = Timings(self.destination.nsqd or (), self.status_every)

        def note(event: Event) -> None:
            if isinstance(event, PublishedMessages):
                timings.add(event.nsqd, event.seconds, event.messages)

        producing = produce(
            self.destination.nsqd,
            nsqlookupd=self.destination.nsqlookupd,
            on_event=note,
            options=self.producer.options,
            connection=self.producer.connection,
        )
        async with producing as producer, anyio.create_task_group() as tasks:
            for topic in dict.fromkeys(self.topics):
                tasks.start_soon(self._republish, topic, producer, stop)

    async def _republish(self, topic: str, producer: Producer, stop: anyio.Event) -> None:
        consuming = consume(
            topic,
            self.channel,
            nsqd=self.source.nsqd,
            nsqlookupd=self.source.nsqlookupd,
            max_in_flight=self.consumer.max_in_flight,
            options=self.consumer.options,
            connection=self.consumer.connection,
        )
        republisher = _Republisher(producer, self.json_filter, self.destination_topic)
        async with consuming as consumer:
            # As many handlers as messages in flight: publishes that wait together share one MPUB.
            await handle_until(stop, consumer, republisher.handle, self.consumer.max_in_flight)


class _Republisher:
    """Republishes messages; a message is finished once the destination has acknowledged it.

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
    """Return whether the error is about this message alone, so that there is no reason to slow down."""
    return isinstance(error, InvalidBody) or (
        isinstance(error, PublishRejected) and error.code == "E_BAD_MESSAGE"
    )
