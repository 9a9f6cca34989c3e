"""The CPU time of some tasks, which leaves out what others do meanwhile."""

from __future__ import annotations

import time

import anyio
import anyio.lowlevel
import pytest

from nsq_anyio.http.cpu_time import CPUTime, measured, run_in_thread

pytestmark = pytest.mark.anyio

WORK = 0.1


def work() -> str:
    until = time.thread_time() + WORK
    while time.thread_time() < until:
        pass
    return "done"


async def test_only_its_own_work_counts() -> None:
    async def wait() -> str:
        await anyio.sleep(0.05)
        work()
        await anyio.sleep(0.05)
        return "waited"

    cpu_time = CPUTime()
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(anyio.to_thread.run_sync, work)
        assert await cpu_time.measure(wait()) == "waited"
        work()
    assert WORK <= cpu_time.seconds < 2 * WORK


async def test_threads_and_tasks_count() -> None:
    async def child() -> None:
        await anyio.lowlevel.checkpoint()
        work()

    async def parent() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(measured, child())
            assert await run_in_thread(work) == "done"

    cpu_time = CPUTime()
    await cpu_time.measure(parent())
    assert 2 * WORK <= cpu_time.seconds < 3 * WORK


async def test_elsewhere_nothing_is_measured() -> None:
    cpu_time = CPUTime()
    await cpu_time.measure(anyio.lowlevel.checkpoint())
    before = cpu_time.seconds

    async def child() -> str:
        return work()

    assert await measured(child()) == "done"
    assert await run_in_thread(work) == "done"
    assert cpu_time.seconds == before


async def test_errors_and_cancellations_go_through() -> None:
    cpu_time = CPUTime()

    async def fail() -> None:
        await anyio.lowlevel.checkpoint()
        with pytest.raises(ZeroDivisionError):
            await run_in_thread(lambda: 1 // 0)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await cpu_time.measure(fail())

    steps: list[str] = []

    async def cancelled() -> None:
        with anyio.move_on_after(0.01):
            await anyio.sleep_forever()
        steps.append("inside")
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.01)
            steps.append("cleaned up")

    with anyio.move_on_after(0.05) as scope:
        await cpu_time.measure(cancelled())
    assert scope.cancelled_caught
    assert steps == ["inside", "cleaned up"]
