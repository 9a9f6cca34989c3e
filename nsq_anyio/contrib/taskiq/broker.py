"""The broker for taskiq."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack

from taskiq import AckableMessage, AsyncBroker, BrokerMessage
from taskiq.abc.formatter import TaskiqFormatter
from taskiq.middlewares import SmartRetryMiddleware

from ...address import nsqd_addresses
from ...consumer import DeadLetter, consume
from ...discovery import nsqlookupd_urls
from ...envelope import MAX_HEADERS, MAX_SIZE, encode_headers
from ...errors import Closed, InvalidOption, PermanentRefusal
from ...events import EventHook
from ...names import check_channel, check_topic
from ...options import ConnectionOptions, ConsumerOptions, ProducerOptions
from ...options.checks import check_flag, check_integer
from ...options.declaration import options_or_default
from ...producer import Producer, produce
from ..held import Held
from .delivery import DeliveryFormatter
from .listener import Listener

_logger = logging.getLogger("nsq_anyio.contrib.taskiq")
RESTART_DELAY = 30.0
"""The seconds for which a worker process that nsqd refuses delays its end."""


class NsqBroker(AsyncBroker):
    """Sends taskiq's tasks through a topic of NSQ. It runs on asyncio, as taskiq does.

    A worker acknowledges a message after its task, at the time that taskiq's ``--ack-type`` names, and
    touches it until then. The messages of a killed worker are delivered to another worker after the
    ``msg_timeout`` of its connection.

    The label ``delay`` defers a task by that many seconds; None does not defer it. With taskiq's
    ``SmartRetryMiddleware``, the ``delay`` of a task is that middleware's interval, and defers only the
    retries, unless the call gives another value. The labels are also the headers of the message.

    :param nsqd: one or several addresses to publish to, and, without ``nsqlookupd``, to consume from
    :param nsqlookupd: one or several URLs of nsqlookupds that list the nsqds to consume from, and, without
        ``nsqd``, to publish to. At least one of ``nsqd`` and ``nsqlookupd`` must be given
    :param topic: the topic of the tasks; default ``"taskiq"``
    :param channel: the channel that the workers share; default ``"workers"``
    :param max_in_flight: the most messages that one worker process may hold, whether their tasks run or wait,
        1 or more; default 100, as taskiq's ``--max-async-tasks``
    :param keep_alive: whether to touch messages until they are acknowledged, at most until nsqd's
        ``--max-msg-timeout``; default True. Without it, a task that takes longer than ``msg_timeout`` is
        delivered again while it runs
    :param dead_letter: the topic for messages that were delivered more than ``max_deliveries`` times, that
        taskiq cannot read or has no task for, or whose task `NsqRetryMiddleware` has retried for the last
        time; default ``"{topic}.dead"``. None finishes these messages
    :param on_event: called with each event, see `nsq_anyio.events`
    :param consumer: further options of the consumers
    :param producer: further options of the producer
    :param connection: options of each connection
    :raises InvalidName: if nsqd would refuse a topic or channel
    :raises InvalidAddress: if an address or URL is not valid
    :raises InvalidOption: if another value is out of range, or neither ``nsqd`` nor ``nsqlookupd`` is given
    """

    def __init__(
        self,
        nsqd: str | Sequence[str] | None = None,
        *,
        nsqlookupd: str | Sequence[str] | None = None,
        topic: str = "taskiq",
        channel: str = "workers",
        max_in_flight: int = 100,
        keep_alive: bool = True,
        dead_letter: str | None = "{topic}.dead",
        on_event: EventHook | None = None,
        consumer: ConsumerOptions | None = None,
        producer: ProducerOptions | None = None,
        connection: ConnectionOptions | None = None,
    ) -> None:
        super().__init__()
        if nsqd is None and nsqlookupd is None:
            raise InvalidOption(
                "neither nsqd nor nsqlookupd is given: name nsqds, or nsqlookupds that list them"
            )
        if nsqd is not None:
            nsqd_addresses(nsqd)
        nsqlookupd_urls(nsqlookupd)
        check_integer("max_in_flight", max_in_flight, 1)
        check_flag("keep_alive", keep_alive)
        self.topic: str = check_topic(topic)
        self.channel: str = check_channel(channel)
        self._nsqd = nsqd
        self._nsqlookupd = nsqlookupd
        self._max_in_flight = max_in_flight
        self._keep_alive = keep_alive
        self._dead_letter = dead_letter
        self._on_event = on_event
        self._consumer_options = options_or_default("consumer", consumer, ConsumerOptions)
        self._producer_options = options_or_default("producer", producer, ProducerOptions)
        self._connection_options = options_or_default("connection", connection, ConnectionOptions)
        self._producer: Held[Producer] | None = None
        self.listeners: set[Listener] = set()  # internal

    @property
    def max_attempts(self) -> int:
        """The attempt at which a message whose task fails is given up; 0 for never."""
        return self._consumer_options.max_attempts

    @property
    def formatter(self) -> TaskiqFormatter:
        """The converter of tasks to messages and back; a formatter that is set is wrapped."""
        return self._formatter

    @formatter.setter
    def formatter(  # pyright: ignore[reportIncompatibleVariableOverride] - it wraps the new formatter
        self, formatter: TaskiqFormatter
    ) -> None:
        self._formatter = DeliveryFormatter(self, formatter)

    async def startup(self) -> None:
        """Connect the producer, then start the broker's other parts; called by taskiq.

        :raises TLSFailed: see `nsq_anyio.produce`
        """
        if self._producer is None or self._producer.loop_is_closed:
            held = Held(
                produce(
                    self._nsqd,
                    nsqlookupd=self._nsqlookupd if self._nsqd is None else None,
                    on_event=self._on_event,
                    options=self._producer_options,
                    connection=self._connection_options,
                )
            )
            await held.open()
            self._producer = held
        try:
            await super().startup()
        except BaseException:
            await self._close()
            raise

    async def shutdown(self) -> None:
        """Shut down the broker's other parts, then hand back unanswered messages and disconnect."""
        try:
            await super().shutdown()
        finally:
            await self._close()

    async def kick(self, message: BrokerMessage) -> None:
        """Publish a task, and return once nsqd has stored it; called by taskiq.

        :raises Closed: before `startup` and after `shutdown`
        :raises InvalidOption: if the label ``delay`` is not a number of 0 or more, or more than ``max_defer``
        :raises PublishError: see `nsq_anyio.Producer.publish`
        """
        defer = None if self._is_first_run_of_retried(message) else delay_of(message.labels)
        await self._opened().publish(self.topic, message.message, headers=headers_of(message), defer=defer)

    def _is_first_run_of_retried(self, message: BrokerMessage) -> bool:
        """Return whether the label ``delay`` is only the interval of the retries."""
        if "_retries" in message.labels:
            return False
        if not any(isinstance(each, SmartRetryMiddleware) for each in self.middlewares):
            return False
        task = self.find_task(message.task_name)
        return task is not None and str(task.labels.get("delay")) == str(message.labels.get("delay"))

    async def listen(self) -> AsyncGenerator[AckableMessage, None]:
        """Iterate over the messages of tasks; called by taskiq.

        In a worker process, a refusal is raised 30 seconds late, because taskiq starts the next
        process at once.

        :raises Closed: before `startup`, and when `shutdown` is called
        :raises PermanentRefusal: see `nsq_anyio.consume`
        """
        producer = self._opened()
        listener = Listener(
            consume(
                self.topic,
                self.channel,
                nsqd=self._nsqd if self._nsqlookupd is None else None,
                nsqlookupd=self._nsqlookupd,
                max_in_flight=self._max_in_flight,
                dead_letter=None if self._dead_letter is None else DeadLetter(self._dead_letter, producer),
                on_event=self._on_event,
                options=self._consumer_options,
                connection=self._connection_options,
            ),
            keep_alive=self._keep_alive,
            when_ended=self.listeners.discard,
        )
        self.listeners.add(listener)
        try:
            await listener.open()
            while True:
                yield (await listener.next()).for_taskiq()
        except PermanentRefusal as error:
            if self.is_worker_process:
                _logger.error("%s: this worker ends in %g s", error, RESTART_DELAY)  # noqa: TRY400 - it is raised
                await asyncio.sleep(RESTART_DELAY)
            raise
        finally:
            listener.stop()

    def _opened(self) -> Producer:
        if self._producer is None:
            raise Closed("the broker is not started: call `await broker.startup()` first")
        return self._producer.value

    async def _close(self) -> None:
        producer, self._producer = self._producer, None
        async with AsyncExitStack() as stack:  # all of them are closed, even if one raises
            if producer is not None:
                stack.push_async_callback(producer.close)  # last, because dead letters need it
            for listener in self.listeners:
                stack.push_async_callback(listener.close)


TASK_ID = "taskiq-task-id"
TASK_NAME = "taskiq-task-name"
_WITHOUT_HEADERS = len(encode_headers({}))


def headers_of(message: BrokerMessage) -> dict[str, str]:
    """Return the headers of a task's message: its id, its name, and its labels as text.

    A label that an envelope cannot hold is left out. taskiq does not miss it: the body has all labels.
    """
    headers: dict[str, str] = {}
    size = 0
    for given, value in ((TASK_ID, message.task_id), (TASK_NAME, message.task_name), *message.labels.items()):
        name, text = str(given).lower(), str(value)
        if name in headers or len(headers) == MAX_HEADERS:
            continue
        try:
            more = len(encode_headers({name: text})) - _WITHOUT_HEADERS
        except InvalidOption:
            continue
        if size + more <= MAX_SIZE:
            headers[name] = text
            size += more
    return headers


def delay_of(labels: Mapping[str, object]) -> float | None:
    """Return the seconds of the label ``delay``; None if the label is missing or None.

    :raises InvalidOption: if it is not a number of 0 or more
    """
    given = labels.get("delay")
    if given in (None, "None"):  # taskiq sends labels as text
        return None
    try:
        delay = float(str(given))
    except ValueError:
        delay = math.nan
    if not 0 <= delay < math.inf:
        raise InvalidOption(f"the label delay={given!r} is not valid: use 0 or more (seconds)")
    return delay
