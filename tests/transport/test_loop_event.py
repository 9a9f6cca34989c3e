"""The events of a loop: set once, for all that wait, whenever they come and whoever is cancelled."""

from __future__ import annotations

import anyio
import pytest
from anyio.lowlevel import checkpoint

from nsq_anyio.transport.event_loop import LoopEvent, clock, event_class, on_asyncio

pytestmark = pytest.mark.anyio


async def test_each_event_loop_has_its_own(anyio_backend_name: str) -> None:
    assert on_asyncio() == (anyio_backend_name == "asyncio")
    assert event_class().__name__ == "AsyncioEvent" if on_asyncio() else "TrioEvent"
    assert clock()() == pytest.approx(anyio.current_time(), abs=5)


def test_outside_of_an_event_loop_it_is_not_asyncio() -> None:
    assert not on_asyncio()


async def test_all_that_wait_are_woken_in_their_order() -> None:
    event, woken = event_class()(), list[int]()

    async def wait(number: int) -> None:
        await event.wait()
        woken.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(3):
            tasks.start_soon(wait, number)
        await anyio.wait_all_tasks_blocked()
        assert woken == []
        assert not event.is_set
        event.set()
        event.set()
        assert event.is_set
    assert sorted(woken) == [0, 1, 2]


async def test_whoever_comes_later_does_not_wait_but_lets_others_run() -> None:
    event, turns = event_class()(), list[str]()
    event.set()

    async def other() -> None:
        turns.append("other")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        while not turns:
            await event.wait()


async def test_whoever_comes_later_can_be_cancelled() -> None:
    event = event_class()()
    event.set()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await event.wait()
    assert scope.cancelled_caught


@pytest.mark.parametrize("which", [0, 1, 2])
async def test_one_that_is_cancelled_leaves_the_others(which: int) -> None:
    event, woken = event_class()(), list[int]()
    scopes = [anyio.CancelScope() for _ in range(3)]

    async def wait(number: int) -> None:
        with scopes[number]:
            await event.wait()
            woken.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(3):
            tasks.start_soon(wait, number)
            await anyio.wait_all_tasks_blocked()
        scopes[which].cancel()
        await anyio.wait_all_tasks_blocked()
        assert scopes[which].cancelled_caught
        assert woken == []
        event.set()
    assert sorted(woken) == [number for number in range(3) if number != which]


async def test_one_that_is_cancelled_can_come_back() -> None:
    event, woken = event_class()(), list[str]()
    with anyio.move_on_after(0.001):
        await event.wait()

    async def wait() -> None:
        await event.wait()
        woken.append("came back")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        event.set()
    assert woken == ["came back"]


@pytest.mark.parametrize("set_first", [True, False])
async def test_set_and_cancelled_in_one_turn(set_first: bool) -> None:
    event = event_class()()
    scope = anyio.CancelScope()

    async def wait(event: LoopEvent) -> None:
        with scope:
            await event.wait()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait, event)
        await anyio.wait_all_tasks_blocked()
        if set_first:
            event.set()
            scope.cancel()
        else:
            scope.cancel()
            event.set()
        await checkpoint()
