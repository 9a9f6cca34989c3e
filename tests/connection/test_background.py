"""Tasks behind a block: how long they live, and what leaves the block."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest

from nsq_anyio.connection.background import Background

from ..fake_nsqd import client_tasks

pytestmark = pytest.mark.anyio


class Tasks:
    """Tasks that run until they are cancelled, and a shutdown that checks that they still run."""

    def __init__(self) -> None:
        self.running = False
        self.shutdowns: list[bool] = []
        self.background = Background(self._run, self._shutdown)

    async def _run(self) -> None:
        self.running = True
        try:
            await anyio.sleep_forever()
        finally:
            self.running = False

    async def _shutdown(self, cancelled: bool) -> None:
        await anyio.sleep(0.01)
        assert self.running
        self.shutdowns.append(cancelled)

    @asynccontextmanager
    async def block(self) -> AsyncGenerator[Background]:
        async with self.background.around_block():
            await anyio.wait_all_tasks_blocked()
            yield self.background

    def assert_over(self, *, cancelled: bool) -> None:
        assert self.shutdowns == [cancelled]
        assert not self.running
        assert client_tasks() == []


async def test_the_tasks_run_during_the_block_and_its_shutdown_and_no_longer() -> None:
    tasks = Tasks()
    async with tasks.block():
        assert tasks.running
        assert tasks.shutdowns == []
    tasks.assert_over(cancelled=False)


async def test_what_the_block_raises_leaves_as_the_same_object_in_no_group() -> None:
    tasks = Tasks()
    mine = ValueError("mine")
    with pytest.raises(ValueError, match="mine") as caught:
        async with tasks.block():
            raise mine
    assert caught.value is mine
    tasks.assert_over(cancelled=False)


async def test_a_cancelled_block_is_shut_down_all_the_same_and_stays_cancelled() -> None:
    tasks = Tasks()
    after = False
    with anyio.move_on_after(0.02) as scope:
        async with tasks.block():
            await anyio.sleep_forever()
        after = True
    assert scope.cancelled_caught
    assert not after
    tasks.assert_over(cancelled=True)


async def test_a_cancellation_during_the_shutdown_does_not_cut_it() -> None:
    tasks = Tasks()
    with anyio.CancelScope() as scope:
        async with tasks.block():
            scope.cancel()
    tasks.assert_over(cancelled=False)


async def test_a_failure_of_the_tasks_ends_the_block_and_is_raised() -> None:
    tasks = Tasks()
    failure = ValueError("theirs")
    with pytest.raises(ValueError, match="theirs") as caught:
        async with tasks.block() as background:
            background.fail(failure)
            background.fail(ValueError("too late"))
            await anyio.sleep_forever()
    assert caught.value is failure
    tasks.assert_over(cancelled=True)


async def test_a_failure_that_the_block_does_not_notice_is_raised_at_its_end() -> None:
    tasks = Tasks()
    with pytest.raises(ValueError, match="theirs"):
        async with tasks.block() as background:
            background.fail(ValueError("theirs"))
    tasks.assert_over(cancelled=True)


async def test_when_both_fail_the_blocks_own_exception_counts() -> None:
    tasks = Tasks()
    with pytest.raises(KeyError, match="mine"):
        async with tasks.block() as background:
            background.fail(ValueError("theirs"))
            raise KeyError("mine")
    tasks.assert_over(cancelled=True)


async def test_a_base_exception_of_the_block_leaves_as_it_is() -> None:
    class Stop(BaseException):
        pass

    tasks = Tasks()
    with pytest.raises(Stop):
        async with tasks.block():
            raise Stop
    tasks.assert_over(cancelled=False)
