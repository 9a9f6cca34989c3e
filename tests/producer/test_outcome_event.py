"""The event of an outcome: set once, for all that wait, whenever they come and whoever is cancelled."""

from __future__ import annotations

import anyio
import pytest
from anyio.lowlevel import checkpoint

from nsq_anyio.producer.publication import OutcomeEvent, outcome_event_class
from nsq_anyio.transport.event_loop import on_asyncio

pytestmark = pytest.mark.anyio


async def test_each_event_loop_has_its_own(anyio_backend_name: str) -> None:
    assert on_asyncio() == (anyio_backend_name == "asyncio")
    expected = "nsq_anyio.producer.publication" if on_asyncio() else "trio"
    assert outcome_event_class().__module__ == expected


def test_outside_of_an_event_loop_it_is_not_asyncio() -> None:
    assert not on_asyncio()


async def test_all_that_wait_are_woken_in_their_order() -> None:
    event, woken = outcome_event_class()(), list[int]()

    async def wait(number: int) -> None:
        await event.wait()
        woken.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(3):
            tasks.start_soon(wait, number)
        await anyio.wait_all_tasks_blocked()
        assert woken == []
        event.set()
        event.set()
    assert sorted(woken) == [0, 1, 2]


async def test_whoever_comes_later_does_not_wait_but_lets_others_run() -> None:
    event, turns = outcome_event_class()(), list[str]()
    event.set()

    async def other() -> None:
        turns.append("other")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        while not turns:
            await event.wait()


async def test_whoever_comes_later_can_be_cancelled() -> None:
    event = outcome_event_class()()
    event.set()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await event.wait()
    assert scope.cancelled_caught


async def test_one_that_is_cancelled_leaves_the_others() -> None:
    event = outcome_event_class()()
    scope = anyio.CancelScope()

    async def cancelled() -> None:
        with scope:
            await event.wait()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cancelled)
        tasks.start_soon(event.wait)
        await anyio.wait_all_tasks_blocked()
        scope.cancel()
        await anyio.wait_all_tasks_blocked()
        assert scope.cancelled_caught
        event.set()


@pytest.mark.parametrize("set_first", [True, False])
async def test_set_and_cancelled_in_one_turn(set_first: bool) -> None:
    event = outcome_event_class()()
    scope = anyio.CancelScope()

    async def wait(event: OutcomeEvent) -> None:
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
