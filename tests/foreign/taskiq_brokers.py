"""Puts `NsqBroker` in the place of the brokers that taskiq's own tests run with; a plugin for pytest.

taskiq's brokers in memory are used without a startup, and each test ends with whatever it has begun. So the
broker starts by itself here, with a worker in the same event loop, and is shut down after the test.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from types import ModuleType
from typing import Any, cast

import pytest
import taskiq
from taskiq import AckableMessage, BrokerMessage, InMemoryBroker
from taskiq.brokers import inmemory_broker
from taskiq.brokers.inmemory_broker import InmemoryResultBackend
from taskiq.exceptions import UnknownTaskError
from taskiq.receiver import Receiver

from nsq_anyio.contrib.taskiq import NsqBroker

NSQD = "127.0.0.1:4150"
LIMIT = 20.0

# What only a broker in memory can do.
OF_MEMORY = {
    "test_cannot_listen",  # it says that it cannot
    # It runs a task in the context of the one who kicks it.
    "test_run_task_successful_sync_preserve_contextvars",
    "test_run_task_successful_async_preserve_contextvars",
    # It ignores delays, here the five seconds between two attempts.
    "test_per_task_exc_types_matching[SmartRetryMiddleware]",
    "test_per_task_exc_types_override_global[SmartRetryMiddleware]",
    "test_retry_of_custom_exc_types_of_smart_middleware",
    # They look into its queue.
    "test_interval_task_performance",
    "test_successful",
    "test_cancelation",
}

_topics = (f"taskiq-{os.getpid()}-{number}" for number in count(1))
_started: list[OverNsq] = []


class OverNsq(NsqBroker):
    """A broker that starts by itself, and knows when all tasks are done."""

    def __init__(self) -> None:
        super().__init__(NSQD, topic=next(_topics))
        self._unfinished: list[tuple[bytes, asyncio.Event]] = []
        self._is_started = False

    async def kick(self, message: BrokerMessage) -> None:
        """Start at the first task."""
        if not self._is_started:
            self._is_started = True
            _started.append(self)
            await NsqBroker.startup(self)
        self._unfinished.append((message.message, asyncio.Event()))
        await super().kick(message)

    async def listen(self) -> AsyncGenerator[AckableMessage, None]:
        """Count what is acknowledged."""
        if not self._is_started:
            self._is_started = True
            _started.append(self)
            await NsqBroker.startup(self)
        async for message in super().listen():
            yield AckableMessage.model_construct(data=message.data, ack=self._counting(message))

    def _counting(self, message: AckableMessage) -> Any:
        async def acknowledge() -> None:
            answer = message.ack()
            if answer is not None:
                await answer
            done = next(each for each in self._unfinished if each[0] == message.data)
            self._unfinished.remove(done)
            done[1].set()

        return acknowledge

    async def wait_tasks(self) -> None:
        """Wait until all tasks are done."""
        async with asyncio.timeout(LIMIT):
            while self._unfinished:
                await self._unfinished[-1][1].wait()

    async def finish(self) -> None:
        """End what the test has left."""
        await NsqBroker.shutdown(self)


class InMemoryOverNsq(OverNsq):
    """`InMemoryBroker`, with nsqd between those who kick and the worker."""

    def __init__(
        self,
        sync_tasks_pool_size: int = 4,
        max_stored_results: int = 100,
        cast_types: bool = True,
        max_async_tasks: int = 30,
        max_async_tasks_jitter: int = 0,
        propagate_exceptions: bool = True,
        await_inplace: bool = False,
    ) -> None:
        super().__init__()
        self.result_backend: Any = InmemoryResultBackend(max_stored_results=max_stored_results)
        self.executor = ThreadPoolExecutor(sync_tasks_pool_size)
        self.receiver = Receiver(
            broker=self,
            executor=self.executor,
            validate_params=cast_types,
            max_async_tasks=max_async_tasks,
            max_async_tasks_jitter=max_async_tasks_jitter,
            propagate_exceptions=propagate_exceptions,
            run_startup=False,
        )
        self.await_inplace = await_inplace
        self._worker: asyncio.Task[None] | None = None
        self._end = asyncio.Event()

    # They run the events of both sides.
    startup = cast("Any", InMemoryBroker.startup)
    shutdown = cast("Any", InMemoryBroker.shutdown)

    async def kick(self, message: BrokerMessage) -> None:
        """Start the worker at the first task."""
        if self.find_task(message.task_name) is None:
            raise UnknownTaskError(task_name=message.task_name)
        await super().kick(message)
        if self._worker is None:
            self._worker = asyncio.create_task(self.receiver.listen(self._end))
        if self.await_inplace:
            await next(done for data, done in self._unfinished if data == message.message).wait()

    wait_all = OverNsq.wait_tasks

    @property
    def _running_tasks(self) -> list[object]:
        return list(self._unfinished)

    async def finish(self) -> None:
        """End the worker too."""
        self._end.set()
        if self._worker is not None:
            self._worker.cancel()
            with suppress(asyncio.CancelledError):
                await self._worker
        await super().finish()
        self.executor.shutdown()


cast("Any", taskiq).InMemoryBroker = InMemoryOverNsq
cast("Any", inmemory_broker).InMemoryBroker = InMemoryOverNsq


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Replace the brokers that the tests define themselves."""
    left_out = [item for item in items if item.nodeid.split("::", 1)[1] in OF_MEMORY]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
    for module in {item.getparent(pytest.Module) for item in items}:
        if module is not None:
            _replace(module.obj)
    utils = sys.modules.get("tests.utils")
    if utils is not None:
        _replace(utils)


def _replace(module: ModuleType) -> None:
    for name in ("_TestBroker", "AsyncQueueBroker"):
        if hasattr(module, name):
            setattr(module, name, OverNsq)


@pytest.fixture(autouse=True)
async def _finished(anyio_backend: object) -> AsyncGenerator[None]:
    yield
    while _started:
        await _started.pop().finish()
