"""Connects what taskiq handles with the message that it came in."""

from __future__ import annotations

from taskiq import AsyncBroker, BrokerMessage, TaskiqMessage
from taskiq.abc.formatter import TaskiqFormatter

from ...errors import Discard
from .delivery import Delivery, DeliveryBytes


class DeliveryFormatter(TaskiqFormatter):
    """A user's formatter, or taskiq's own, that notes which delivery is handled.

    taskiq acknowledges what it cannot read, and what it has no task for. Here such messages are discarded
    instead, so that they become dead letters.

    :ivar inner: the formatter that does the work
    """

    def __init__(self, broker: AsyncBroker, inner: TaskiqFormatter) -> None:
        self._broker = broker
        self.inner = inner

    def dumps(self, message: TaskiqMessage) -> BrokerMessage:
        """See taskiq's formatter."""
        return self.inner.dumps(message)

    def loads(self, message: bytes) -> TaskiqMessage:
        """See taskiq's formatter; called by the task of asyncio that handles the message."""
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
