"""What a user does to a block from within the event loop, and what that must raise."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import anyio
import trio

from .blocks import Block, Cell, Mine, Phase

Impatience = Callable[[Block, Cell], Awaitable[None]]

_BETWEEN = 0.04
"""Seconds between two strikes: the second comes while the block ends because of the first."""


async def reached(cell: Cell) -> None:
    """Wait until the phase has come, and is under way."""
    while not cell.reached.is_set():  # noqa: ASYNC110 - set in another thread, too
        await anyio.sleep(0.003)
    await anyio.sleep(0.02)


def check_struck(cell: Cell, struck: bool) -> None:
    """The impatience showed, unless the block has ended before it."""
    assert struck or cell.phase is Phase.ENDING, "the block has ended as if nothing had happened"


def _cancel(times: int) -> Impatience:
    """`Task.cancel`, again while the block ends because of it."""

    async def strike(block: Block, cell: Cell) -> None:
        async def user() -> None:
            await block(cell)

        task = asyncio.create_task(user())
        await reached(cell)
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(_BETWEEN)
        with contextlib.suppress(asyncio.CancelledError):
            await task
        check_struck(cell, task.cancelled())

    return strike


async def _timeout(block: Block, cell: Cell) -> None:
    """`asyncio.timeout`."""
    struck = False
    timeout = asyncio.timeout(None)

    async def expire() -> None:
        await reached(cell)
        with contextlib.suppress(RuntimeError):  # the block has ended
            timeout.reschedule(asyncio.get_running_loop().time())

    expiring = asyncio.create_task(expire())
    try:
        async with timeout:
            await block(cell)
    except TimeoutError:
        struck = True
    await expiring
    check_struck(cell, struck)


async def _timeout_then_cancel(block: Block, cell: Cell) -> None:
    """`asyncio.timeout`, and `Task.cancel` while the block ends because of it."""

    async def user() -> None:
        await _timeout(block, cell)

    task = asyncio.create_task(user())
    await reached(cell)
    await asyncio.sleep(_BETWEEN)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def _wait_for(block: Block, cell: Cell) -> None:
    """`asyncio.wait_for`."""

    async def user() -> None:
        await block(cell)

    task = asyncio.ensure_future(user())
    await reached(cell)
    struck = False
    try:
        await asyncio.wait_for(task, 0.001)
    except TimeoutError:
        struck = True
    check_struck(cell, struck)


def _scope(new_scope: Callable[[], anyio.CancelScope | trio.CancelScope]) -> Impatience:
    """A deadline of a cancel scope, as `move_on_after` and `fail_after` set it."""

    async def strike(block: Block, cell: Cell) -> None:
        scope = new_scope()

        async def expire() -> None:
            await reached(cell)
            scope.deadline = anyio.current_time()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(expire)
            with scope:
                await block(cell)
        check_struck(cell, scope.cancelled_caught)

    return strike


async def _fail_after(block: Block, cell: Cell) -> None:
    """`fail_after`, inside a scope that is cancelled while the block ends because of it."""
    struck = False

    async def cancel(outer: anyio.CancelScope) -> None:
        await reached(cell)
        await anyio.sleep(_BETWEEN)
        outer.cancel()

    async with anyio.create_task_group() as tasks:
        with anyio.CancelScope() as outer:
            tasks.start_soon(cancel, outer)
            try:
                with anyio.fail_after(None) as scope:
                    tasks.start_soon(_expire, scope, cell)
                    await block(cell)
            except TimeoutError:
                struck = True
        check_struck(cell, struck or outer.cancelled_caught)


async def _expire(scope: anyio.CancelScope, cell: Cell) -> None:
    await reached(cell)
    scope.deadline = anyio.current_time()


def _raising(new_error: type[BaseException]) -> Impatience:
    """The user's code raises: the same exception leaves the block, in no group."""

    async def strike(block: Block, cell: Cell) -> None:
        cell.raises = new_error()
        raised: BaseException | None = None
        try:
            await block(cell)
        except new_error as error:
            raised = error
        assert raised is cell.raises

    return strike


ON_EVERY_LOOP: dict[str, Impatience] = {
    "scope": _scope(anyio.CancelScope),
    "fail_after": _fail_after,
    "exception": _raising(Mine),
    # What an async generator around the block gets where it is suspended, when it is closed.
    "generator exit": _raising(GeneratorExit),
}
ON_ASYNCIO: dict[str, Impatience] = {
    "cancel": _cancel(1),
    "cancel twice": _cancel(2),
    "cancel thrice": _cancel(3),
    "timeout": _timeout,
    "timeout and cancel": _timeout_then_cancel,
    "wait_for": _wait_for,
}
ON_TRIO: dict[str, Impatience] = {"trio scope": _scope(trio.CancelScope)}
