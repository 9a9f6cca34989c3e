"""Retries by NSQ's attempts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from taskiq import Context, InMemoryBroker, TaskiqDepends, TaskiqResult
from taskiq.abc.result_backend import AsyncResultBackend
from taskiq.acks import AcknowledgeType

import nsq_anyio as nsq
from nsq_anyio.contrib.taskiq import NsqBroker, NsqRetryMiddleware, delivered
from nsq_anyio.embedded import EmbeddedNsqd

from .working import channel_of, first_of, until_finished, working

pytestmark = pytest.mark.anyio


class Results(AsyncResultBackend[object]):
    """Keeps the results."""

    def __init__(self) -> None:
        self.results: list[TaskiqResult[object]] = []

    async def set_result(self, task_id: str, result: TaskiqResult[object]) -> None:
        self.results.append(result)

    async def is_result_ready(self, task_id: str) -> bool:
        raise NotImplementedError

    async def get_result(self, task_id: str, with_logs: bool = False) -> TaskiqResult[object]:
        raise NotImplementedError


async def attempts_of(
    nsqd: EmbeddedNsqd,
    middleware: NsqRetryMiddleware,
    fails: Callable[[int], BaseException | None],
    *,
    results: Results | None = None,
    max_attempts: int = 5,
    ack_type: AcknowledgeType | None = None,
    **labels: Any,
) -> list[int]:
    """The attempts at a task that fails as told."""
    options = nsq.ConsumerOptions(max_attempts=max_attempts, requeue_delay=0.01)
    broker = NsqBroker(nsqd.tcp_address, consumer=options).with_middlewares(middleware)
    broker.with_result_backend(results or Results())
    attempts: list[int] = []

    @broker.task(None, **labels)
    async def task() -> str:
        attempts.append(delivered().attempts)
        if error := fails(len(attempts)):
            raise error
        return "well"

    async with broker, working(broker, ack_type=ack_type):
        await task.kiq()
        await until_finished(nsqd.http_url)
    return attempts


def always(_run: int) -> BaseException:
    return ValueError("no")


async def test_a_failed_task_is_delivered_again(nsqd: EmbeddedNsqd) -> None:
    results = Results()
    attempts = await attempts_of(
        nsqd,
        NsqRetryMiddleware(),
        lambda run: ValueError() if run < 3 else None,
        results=results,
        retry_on_error=True,
    )
    assert attempts == [1, 2, 3]
    assert [result.return_value for result in results.results] == ["well"]
    channel = await channel_of(nsqd.http_url)
    assert (channel.message_count, channel.requeue_count) == (1, 2)  # it is the same message


async def test_the_last_failure_is_a_result_and_a_dead_letter(nsqd: EmbeddedNsqd) -> None:
    results = Results()
    middleware = NsqRetryMiddleware(default_retry_count=2, default_retry_label=True)
    assert await attempts_of(nsqd, middleware, always, results=results) == [1, 2]
    assert [result.is_err for result in results.results] == [True]
    letter = await first_of(nsqd.tcp_address)
    assert "ValueError('no')" in letter.headers["nsq-dead-error"]
    assert letter.headers["nsq-dead-attempts"] == "2"


@pytest.mark.parametrize(
    ("options", "labels", "max_attempts", "expected"),
    [
        ({"default_retry_label": True}, {}, 3, 3),
        ({"default_retry_label": True, "default_retry_count": 7}, {}, 3, 3),
        ({"default_retry_label": True, "default_retry_count": 2}, {"max_retries": 4}, 0, 4),
        ({"default_retry_label": True}, {"retry_on_error": False}, 3, 1),
        ({}, {}, 3, 1),
        ({}, {"retry_on_error": "true", "max_retries": "2"}, 3, 2),
    ],
)
async def test_labels_and_limits(
    nsqd: EmbeddedNsqd,
    options: dict[str, int],
    labels: dict[str, Any],
    max_attempts: int,
    expected: int,
) -> None:
    middleware = NsqRetryMiddleware(delay=0, **options)  # type: ignore[arg-type]
    attempts = await attempts_of(nsqd, middleware, always, max_attempts=max_attempts, **labels)
    assert attempts == [*range(1, expected + 1)]


async def test_types_of_exceptions(nsqd: EmbeddedNsqd) -> None:
    middleware = NsqRetryMiddleware(delay=0, default_retry_label=True, types_of_exceptions=[OSError])
    errors = [OSError(), ConnectionError(), KeyError()]
    assert await attempts_of(nsqd, middleware, lambda run: errors[run - 1]) == [1, 2, 3]


async def test_types_of_exceptions_of_a_task(nsqd: EmbeddedNsqd) -> None:
    middleware = NsqRetryMiddleware(delay=0, default_retry_label=True, types_of_exceptions=[OSError])
    errors = [KeyError(), OSError()]
    given = (KeyError,)
    assert await attempts_of(nsqd, middleware, lambda run: errors[run - 1], types_of_exceptions=given) == [
        1,
        2,
    ]


async def test_a_message_that_was_acknowledged_before_is_not_retried(nsqd: EmbeddedNsqd) -> None:
    results = Results()
    middleware = NsqRetryMiddleware(default_retry_label=True)
    attempts = await attempts_of(
        nsqd, middleware, always, results=results, ack_type=AcknowledgeType.WHEN_RECEIVED
    )
    assert attempts == [1]
    assert [result.is_err for result in results.results] == [True]


async def test_rejected_tasks_are_not_retried(nsqd: EmbeddedNsqd) -> None:
    broker = NsqBroker(nsqd.tcp_address).with_middlewares(NsqRetryMiddleware(default_retry_label=True))
    runs: list[int] = []

    @broker.task
    async def task(context: Context = TaskiqDepends()) -> None:
        runs.append(1)
        context.reject()

    async with broker, working(broker):
        await task.kiq()
        await until_finished(nsqd.http_url)
    assert runs == [1]


async def test_a_bad_limit_of_a_task_names_it(nsqd: EmbeddedNsqd, caplog: pytest.LogCaptureFixture) -> None:
    middleware = NsqRetryMiddleware(default_retry_label=True, delay=0)
    attempts = await attempts_of(
        nsqd, middleware, lambda run: always(run) if run == 1 else None, max_retries="x"
    )
    assert attempts == [1, 2]  # requeued as after any failure of taskiq itself
    assert "max_retries='x'" in caplog.text


async def test_other_brokers_are_left_alone() -> None:
    broker = InMemoryBroker().with_middlewares(NsqRetryMiddleware(default_retry_label=True))
    runs: list[int] = []

    @broker.task
    async def task() -> None:
        runs.append(1)
        raise ZeroDivisionError

    result = await (await task.kiq()).wait_result(timeout=20)
    assert result.is_err
    assert runs == [1]


@pytest.mark.parametrize("options", [{"default_retry_count": -1}, {"delay": -1}, {"delay": float("inf")}])
def test_options_are_checked(options: dict[str, float]) -> None:
    with pytest.raises(nsq.InvalidOption, match="is not valid"):
        NsqRetryMiddleware(**options)  # type: ignore[arg-type]
