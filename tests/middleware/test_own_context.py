"""A coroutine in a context of its own sees what is set outside, and keeps what it sets."""

from collections.abc import Generator
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.to_thread
import pytest

from nsq_anyio.middleware import in_own_context

pytestmark = pytest.mark.anyio

variable: ContextVar[str] = ContextVar("variable", default="unset")


async def test_what_it_sets_stays_inside() -> None:
    async def inner() -> list[str]:
        seen = [variable.get()]
        variable.set("inside")
        await anyio.sleep(0.001)
        seen += [variable.get(), await anyio.to_thread.run_sync(variable.get)]
        async with anyio.create_task_group() as tasks:

            async def child() -> None:
                seen.append(variable.get())

            tasks.start_soon(child)
        return seen

    variable.set("outside")
    for _ in range(2):
        assert await in_own_context(inner()) == ["outside", "inside", "inside", "inside"]
        assert variable.get() == "outside"


async def test_an_exception_comes_out_and_scopes_work_inside() -> None:
    async def inner() -> None:
        with anyio.move_on_after(0.01) as scope:
            await anyio.sleep_forever()
        assert scope.cancelled_caught
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await in_own_context(inner())


async def test_a_cancellation_goes_in_and_may_be_cleaned_up_after() -> None:
    cleaned = False

    async def inner() -> None:
        nonlocal cleaned
        variable.set("inside")
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.001)
            cleaned = variable.get() == "inside"

    with anyio.move_on_after(0.01) as scope:
        await in_own_context(inner())
    assert scope.cancelled_caught
    assert cleaned


async def test_one_that_is_dropped_is_closed() -> None:
    closed: list[str] = []

    class Forever:
        def __await__(self) -> Generator[None]:
            yield

    async def inner() -> None:
        try:
            await Forever()
        finally:
            closed.append("closed")

    running: Any = in_own_context(inner())
    next(running)
    running.close()
    assert closed == ["closed"]
