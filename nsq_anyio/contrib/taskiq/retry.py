"""Retries of failed tasks by NSQ's own redelivery."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from taskiq import TaskiqMessage, TaskiqMiddleware, TaskiqResult
from taskiq.exceptions import NoResultError, TaskRejectedError

from ...errors import Discard, InvalidOption, Requeue
from ...options.checks import check_integer, check_seconds
from .delivery import current_delivery

_logger = logging.getLogger("nsq_anyio.contrib.taskiq")


class NsqRetryMiddleware(TaskiqMiddleware):
    """Requeues the message of a failed task, so that nsqd delivers it again.

    It reads the labels of taskiq's own retry middleware: ``retry_on_error``; ``max_retries``, here the most
    deliveries of the message; and ``types_of_exceptions``, which is given to the decorator. taskiq's
    middleware publishes a new message for each retry. This one publishes none, so a retry cannot be lost or
    doubled, and its count includes deliveries that a worker did not survive.

    A message whose task has failed for the last time is discarded, and so becomes a dead letter.

    :param default_retry_count: ``max_retries`` for tasks without that label, 0 to 65535; default: the
        ``max_attempts`` of the broker, which is always the upper limit; 0 for no other limit
    :param default_retry_label: ``retry_on_error`` for tasks without that label; default False
    :param delay: seconds until the next delivery, 0 or more; default: ``requeue_delay`` of the broker's
        ``ConsumerOptions`` times the attempts
    :param backoff: whether a failure slows the whole worker down, as NSQ's backoff does; default False
    :param no_result_on_retry: whether the results of failures that are retried are left out; default True
    :param types_of_exceptions: the exceptions to retry; default: all
    :raises InvalidOption: if a number is out of range
    """

    def __init__(
        self,
        *,
        default_retry_count: int = 0,
        default_retry_label: bool = False,
        delay: float | None = None,
        backoff: bool = False,
        no_result_on_retry: bool = True,
        types_of_exceptions: Iterable[type[BaseException]] | None = None,
    ) -> None:
        super().__init__()
        check_integer("default_retry_count", default_retry_count, 0, 65535)
        if delay is not None:
            check_seconds("delay", delay, 0)
        self._count = default_retry_count
        self._label = default_retry_label
        self._delay = delay
        self._backoff = backoff
        self._no_result = no_result_on_retry
        self._types = None if types_of_exceptions is None else tuple(types_of_exceptions)

    async def on_error(
        self, message: TaskiqMessage, result: TaskiqResult[Any], exception: BaseException
    ) -> None:
        """Decide how the message of a failed task is answered; called by taskiq."""
        delivery = current_delivery()
        if delivery is None or isinstance(exception, NoResultError | TaskRejectedError):
            return
        if not delivery.is_held:
            return  # it was acknowledged before its task, or nsqd delivers it again in any case
        if not self._is_retried(message, exception):
            return
        attempts, limit = delivery.message.attempts, self._limit(message)
        if limit and attempts >= limit:
            _logger.warning("task %s has failed %d times: giving up", message.task_name, attempts)
            delivery.verdict = Discard(f"attempt {attempts} of {limit} has failed: {exception!r}")
            return
        _logger.info("task %s has failed at attempt %d: retrying", message.task_name, attempts)
        delivery.verdict = Requeue(delay=self._delay, backoff=self._backoff)
        if self._no_result:
            result.error = NoResultError()

    def _is_retried(self, message: TaskiqMessage, exception: BaseException) -> bool:
        task = self.broker.find_task(message.task_name)
        types = (task.labels.get("types_of_exceptions") if task else None) or self._types
        if types is not None and not isinstance(exception, tuple(types)):
            return False
        return str(message.labels.get("retry_on_error", self._label)).lower() == "true"

    def _limit(self, message: TaskiqMessage) -> int:
        given = message.labels.get("max_retries", self._count)
        try:
            limit = int(given)
        except (TypeError, ValueError):
            raise InvalidOption(
                f"the label max_retries={given!r} of task {message.task_name} is not valid: use a number"
            ) from None
        most: int = getattr(self.broker, "max_attempts", 0)  # 0 for no limit, as for `limit`
        return min(limit, most) if limit and most else limit or most
