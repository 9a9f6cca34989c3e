"""Tasks behind a block: how long they live, and what leaves the block."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from nsq_anyio.tasks import Background, background_tasks

from .fake_nsqd import client_tasks, until

pytestmark = pytest.mark.anyio


class Tasks:
    """Tasks that run until they are cancelled, and a shutdown that checks that they still run."""

    def __init__(self) -> None:
        self.running = False
        self.shutdowns: list[bool] = []
        self.while_shutting_down: Callable[[], Awaitable[None]] = lambda: anyio.sleep(0.01)
        self.background = Background(self._run, self._shutdown)

    async def _run(self) -> None:
        self.running = True
        try:
            await anyio.sleep_forever()
        finally:
            self.running = False

    async def _shutdown(self, cancelled: bool) -> None:
        self.shutdowns.append(cancelled)
        await self.while_shutting_down()
        assert self.running

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


class Own(BaseException):
    pass


LEAVING = [
    Own("mine"),
    SystemExit(3),
    KeyboardInterrupt("mine"),
    GeneratorExit("mine"),
    StopIteration("mine"),
    StopAsyncIteration("mine"),
    ValueError("mine"),
]


@asynccontextmanager
async def plain_block() -> AsyncGenerator[None]:
    async with background_tasks() as tasks:
        tasks.start_soon(anyio.sleep_forever)
        yield


@pytest.mark.parametrize(
    "block", [lambda: Tasks().block(), plain_block], ids=["Background", "background_tasks"]
)
@pytest.mark.parametrize("mine", LEAVING, ids=repr)
async def test_whatever_the_block_raises_leaves_as_it_is(
    mine: BaseException, block: Callable[[], AbstractAsyncContextManager[object]]
) -> None:
    before = ValueError("before")
    mine.__context__ = before
    caught: BaseException | None = None
    try:
        async with block():
            raise mine
    except BaseException as error:
        caught = error
    assert caught is mine
    assert caught.__context__ is before
    assert client_tasks() == []


async def test_a_group_of_the_blocks_own_leaves_as_one() -> None:
    for block in (Tasks().block, plain_block):
        with pytest.raises(BaseExceptionGroup) as caught:
            async with block(), anyio.create_task_group():
                raise SystemExit(3)
        assert [type(error) for error in caught.value.exceptions] == [SystemExit]


async def test_a_cancellation_by_asyncio_cuts_the_shutdown_short(anyio_backend_name: str) -> None:
    if anyio_backend_name != "asyncio":
        pytest.skip("a shield stops every cancellation of Trio")
    for body in (anyio.sleep_forever, anyio.lowlevel.checkpoint):
        for times in (1, 2, 3):
            tasks = Tasks()
            tasks.while_shutting_down = anyio.sleep_forever
            shutting_down = await shut_down(tasks, body)
            for _ in range(times):
                shutting_down.cancel()
            with anyio.fail_after(5), pytest.raises(asyncio.CancelledError):
                await shutting_down
            tasks.assert_over(cancelled=body is anyio.sleep_forever)


async def shut_down(tasks: Tasks, body: Callable[[], Awaitable[None]]) -> "asyncio.Task[None]":
    """A task that is ending a block."""

    async def in_block() -> None:
        async with tasks.block():
            await body()

    task = asyncio.create_task(in_block())
    await until(lambda: tasks.running)
    if body is anyio.sleep_forever:
        task.cancel()
    await until(lambda: tasks.shutdowns)
    return task


async def test_a_timeout_of_asyncio_cuts_the_shutdown_short(anyio_backend_name: str) -> None:
    if anyio_backend_name != "asyncio":
        pytest.skip("it is asyncio's")
    tasks = Tasks()
    tasks.while_shutting_down = anyio.sleep_forever
    with anyio.fail_after(5), pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02), tasks.block():
            pass
    tasks.assert_over(cancelled=False)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), ValueError("no way")], ids=repr)
@pytest.mark.parametrize("of_block", [None, KeyError("mine")], ids=repr)
async def test_what_a_shutdown_raises_ends_the_tasks_and_leaves_as_it_is(
    error: BaseException, of_block: BaseException | None
) -> None:
    async def fail() -> None:
        await anyio.lowlevel.checkpoint()
        raise error

    tasks = Tasks()
    tasks.while_shutting_down = fail
    caught: BaseException | None = None
    with anyio.fail_after(5):
        try:
            async with tasks.block():
                if of_block is not None:
                    raise of_block
        except BaseException as raised:
            caught = raised
    assert caught is error
    tasks.assert_over(cancelled=False)


async def test_what_one_of_the_tasks_raises_ends_the_block_and_leaves_in_no_group() -> None:
    async def interrupted() -> None:
        await anyio.lowlevel.checkpoint()
        raise Own

    over: list[bool] = []

    async def shutdown(cancelled: bool) -> None:
        over.append(cancelled)

    with anyio.fail_after(5), pytest.raises(Own):
        async with Background(interrupted, shutdown).around_block():
            await anyio.sleep_forever()
    assert over == [True]
    with anyio.fail_after(5), pytest.raises(Own):
        async with background_tasks() as tasks:
            tasks.start_soon(interrupted)
            await anyio.sleep_forever()
    assert client_tasks() == []
