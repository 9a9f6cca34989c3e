"""Messages that are kept alive are touched half-way to each deadline."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.consumer.keep_alive import Touching

from .. import virtual_time

pytestmark = pytest.mark.anyio

anyio_backend = virtual_time.anyio_backend


@dataclass(eq=False)
class FakeMessage:
    """A message that nsqd waits for, up to 10 s longer after each touch."""

    deadline: float
    hard_deadline: float
    touched_at: list[float] = field(default_factory=list[float])
    responded: bool = False

    @property
    def _arrival(self) -> FakeMessage:
        return self

    @property
    def delegate(self) -> FakeMessage:
        return self

    def holds(self, _: FakeMessage) -> bool:
        return True

    def touch(self) -> None:
        assert not self.responded
        now = anyio.current_time()
        self.touched_at.append(now)
        self.deadline = min(now + 10, self.hard_deadline)


def message(seconds: float, most: float) -> FakeMessage:
    now = anyio.current_time()
    return FakeMessage(now + seconds, now + most)


async def touched(touching: Touching, found: FakeMessage, seconds: float) -> list[float]:
    """Deliver for so long; how many seconds after the start it was touched."""
    started_at = anyio.current_time()
    touching.begin(cast("nsq.Message", found))
    await anyio.sleep(seconds)
    touching.end(cast("nsq.Message", found))
    return [round(at - started_at, 3) for at in found.touched_at]


async def test_half_way_to_each_deadline() -> None:
    touching = Touching()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(touching.run)
        assert await touched(touching, message(10, 100), 4) == []
        first = message(10, 100)
        assert await touched(touching, first, 16) == [5, 10, 15]
        await anyio.sleep(20)
        assert len(first.touched_at) == 3  # it is delivered
        tasks.cancel_scope.cancel()


async def test_a_message_with_less_time_is_touched_earlier_than_those_before_it() -> None:
    touching = Touching()
    at: dict[str, list[float]] = {}

    async def deliver(name: str, found: FakeMessage) -> None:
        at[name] = await touched(touching, found, 8)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(touching.run)
        async with anyio.create_task_group() as deliveries:
            deliveries.start_soon(deliver, "long", message(12, 100))
            await anyio.wait_all_tasks_blocked()
            deliveries.start_soon(deliver, "short", message(4, 100))
        tasks.cancel_scope.cancel()
    assert at == {"long": [6], "short": [2, 7]}


async def test_no_longer_than_nsqd_allows() -> None:
    touching = Touching()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(touching.run)
        assert await touched(touching, message(10, 12), 60) == [5, 8.5]
        tasks.cancel_scope.cancel()


async def test_a_message_is_touched_until_its_last_end() -> None:
    touching = Touching()
    found = message(10, 100)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(touching.run)
        touching.begin(cast("nsq.Message", found))
        assert await touched(touching, found, 6) == [5]
        await anyio.sleep(6)
        touching.end(cast("nsq.Message", found))
        await anyio.sleep(60)
        assert len(found.touched_at) == 2
        tasks.cancel_scope.cancel()


async def test_an_answered_message_is_not_touched() -> None:
    touching = Touching()
    found = message(10, 100)
    found.responded = True
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(touching.run)
        assert await touched(touching, found, 60) == []
        tasks.cancel_scope.cancel()
