"""The delivery of a message to taskiq, until it is answered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass

from taskiq import AckableMessage, AsyncBroker, BrokerMessage, TaskiqMessage
from taskiq.abc.formatter import TaskiqFormatter

from ...consumer import Message
from ...errors import Closed, Discard, InvalidEnvelope, Requeue

_logger = logging.getLogger("nsq_anyio.contrib.taskiq")
_current: ContextVar[Delivery] = ContextVar("nsq_anyio.contrib.taskiq")


@dataclass(frozen=True, slots=True)
class Delivered:
    """The facts about the message of a task.

    :ivar id: the message's id, unique within its nsqd
    :ivar attempts: how many times nsqd has delivered it, including this time; 1 to 65535
    :ivar timestamp: when it was published, in nanoseconds since the epoch
    :ivar topic: the topic that it was published to
    :ivar channel: the channel that it came from
    :ivar nsqd: the address of the nsqd that delivered it
    :ivar headers: the task's labels as text, its name and its id
    """

    id: str
    attempts: int
    timestamp: int
    topic: str
    channel: str
    nsqd: str
    headers: Mapping[str, str]


def delivered() -> Delivered:
    """Return the facts about the message of the running task; a dependency for ``TaskiqDepends``.

    ::

        @broker.task
        async def resize(path: str, delivered: Delivered = TaskiqDepends(delivered)) -> None: ...

    :raises Closed: outside of a task that `NsqBroker` has delivered
    """
    delivery = current_delivery()
    if delivery is None:
        raise Closed("no message is being handled: call delivered() in a task that NsqBroker delivers")
    return delivery.facts()


def current_delivery() -> Delivery | None:
    """Return the delivery that the running task of taskiq handles."""
    return _current.get(None)


class DeliveryBytes(bytes):
    """The body of a task, with its delivery: taskiq passes on nothing but the body."""

    delivery: Delivery


class Delivery:
    """A message that taskiq holds, or that waits for taskiq to take it.

    :ivar message: the message
    :ivar verdict: the answer that replaces FIN when taskiq acknowledges the message
    """

    def __init__(self, message: Message, on_end: Callable[[Delivery], None], *, keep_alive: bool) -> None:
        self.message = message
        self.verdict: Requeue | Discard | None = None
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._answering: asyncio.Task[None] | None = None  # kept, because asyncio does not
        # Most tasks end before the first touch: a timer is cheaper than a task for each message.
        self._touching: asyncio.TimerHandle | asyncio.Task[None] | None = (
            self._loop.call_later(self._seconds_to_touch(), self._start_touching) if keep_alive else None
        )

    @property
    def is_held(self) -> bool:
        """Whether nsqd waits for the answer."""
        return not self.message.responded and self.message._arrival.delegate.holds(self.message)

    def facts(self) -> Delivered:
        """Return the facts about the message."""
        message = self.message
        return Delivered(
            message.id,
            message.attempts,
            message.timestamp,
            message.topic,
            message.channel,
            message.nsqd,
            dict(message.headers),  # unlike the message's, it can be pickled: a task may pass it on
        )

    def for_taskiq(self) -> AckableMessage:
        """Return the message as taskiq takes it."""
        try:
            payload = self.message.payload
        except InvalidEnvelope as error:
            self.verdict = Discard(str(error))
            payload = self.message.body  # taskiq cannot read it, and says so
        data = DeliveryBytes(payload)
        data.delivery = self
        # It is not validated, because that might copy the data.
        return AckableMessage.model_construct(data=data, ack=self.acknowledge)

    def begin(self) -> None:
        """Note that the calling task of asyncio handles the message."""
        _current.set(self)
        if task := asyncio.current_task():
            task.add_done_callback(self._handled)

    async def acknowledge(self) -> None:
        """Answer as the verdict says, with FIN if there is none. A task may have answered before."""
        if self.verdict is None:
            if not self.message.responded:
                self.message.finish()
        else:
            await self.message._settle(self.verdict)
        self.end()

    def hand_back(self) -> None:
        """Requeue the message: no task will run for it here."""
        if not self.message.responded:
            self.message.requeue(0, backoff=False)
        self.end()

    def end(self) -> None:
        """Stop touching the message."""
        if self._touching is not None:
            self._touching.cancel()
            self._touching = None
        self._on_end(self)

    def _handled(self, task: asyncio.Task[object]) -> None:
        # Without an error the message is answered, or the user's task answers it later, by `Context.ack`.
        if task.cancelled():
            self.hand_back()
        elif (error := task.exception()) is not None:
            _logger.error("message %s: taskiq failed outside of the task", self.message.id, exc_info=error)
            self.message._answer_for(error)
            self.end()
        elif self.verdict is not None and self.is_held:
            # Older releases of taskiq do not acknowledge messages that they cannot read.
            self._answering = self._loop.create_task(self.acknowledge(), name="nsq_anyio.contrib.taskiq")

    def _seconds_to_touch(self) -> float:
        return max(self.message.deadline - self._loop.time(), 0.0) / 2

    def _start_touching(self) -> None:
        self._touching = self._loop.create_task(self._keep_touching(), name="nsq_anyio.contrib.taskiq")

    async def _keep_touching(self) -> None:
        while self.is_held:
            self.message.touch()
            if self.message.deadline >= self.message._arrival.hard_deadline:
                return  # nsqd extends it no more
            await asyncio.sleep(self._seconds_to_touch())
        self.end()


class DeliveryFormatter(TaskiqFormatter):
    """A user's formatter, or taskiq's own, that notes which delivery is handled.

    It is the first to see the bytes of a message, in the task of asyncio that handles it. A context variable
    holds the delivery there, for `NsqRetryMiddleware` and `delivered`.

    taskiq acknowledges messages that it cannot read, or has no task for. Here such messages are discarded
    instead, so that they become dead letters.

    :ivar inner: the formatter that does the work
    """

    def __init__(self, broker: AsyncBroker, inner: TaskiqFormatter) -> None:
        self._broker = broker
        self.inner = inner

    def dumps(self, message: TaskiqMessage) -> BrokerMessage:
        return self.inner.dumps(message)

    def loads(self, message: bytes) -> TaskiqMessage:
        """Read a message. taskiq calls this in the task of asyncio that handles the message."""
        if not isinstance(message, DeliveryBytes):
            return self.inner.loads(message)
        message.delivery.begin()
        return self._loaded(message, message.delivery)

    def _loaded(self, message: bytes, delivery: Delivery) -> TaskiqMessage:
        try:
            loaded = self.inner.loads(message)
        except Exception as error:
            delivery.verdict = delivery.verdict or Discard(f"taskiq cannot read it: {error}")
            raise
        if self._broker.find_task(loaded.task_name) is None:
            delivery.verdict = Discard(f"the worker has no task {loaded.task_name!r}")
        return loaded
