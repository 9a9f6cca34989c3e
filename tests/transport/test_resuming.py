"""Tasks resume within the callback that received what they wait for, and asyncio's rules hold for them."""

from __future__ import annotations

import asyncio
import contextvars
import socket
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from nsq_anyio.transport.asyncio_backend import AsyncioEvent, AsyncioReadable, resume

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module", params=[False, True], ids=["asyncio", "asyncio+uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


class Socket:
    """A socket that is read by a task, which sets the event of each byte that arrives."""

    def __init__(self, ours: socket.socket, theirs: socket.socket) -> None:
        self._readable = AsyncioReadable(ours)
        self._peer = theirs
        self.events: dict[bytes, AsyncioEvent] = {}
        self.turns: list[str] = []
        self.read_bytes = b""
        self.then: Callable[[], object] = lambda: None
        """Called by the reading task when it has set events."""

    async def read(self) -> None:
        while True:
            data = await self._readable.receive(16)
            self.read_bytes += data
            for number in data:
                self.event(bytes([number])).set()
            self.then()
            # Whatever is scheduled now runs in the loop's next iteration.
            asyncio.get_running_loop().call_soon(self.turns.append, "next iteration")

    def event(self, name: bytes) -> AsyncioEvent:
        return self.events.setdefault(name, AsyncioEvent())

    def bring(self, names: bytes) -> None:
        self._peer.send(names)

    async def wait(self, name: bytes) -> None:
        await self.event(name).wait()
        self.turns.append(name.decode())

    def close(self) -> None:
        self._readable.close()


@asynccontextmanager
async def reading() -> AsyncGenerator[Socket]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        sock = Socket(ours, theirs)
        task = asyncio.create_task(sock.read())
        yield sock
        sock.close()
        with pytest.raises(anyio.ClosedResourceError):
            await task


async def blocked() -> None:
    """Wait until the tasks that can run have run, and what they were sent has arrived."""
    await asyncio.sleep(0.01)
    await anyio.wait_all_tasks_blocked()


async def test_tasks_that_the_reader_wakes_run_in_the_same_iteration_and_in_order() -> None:
    async with reading() as sock:
        tasks = [asyncio.create_task(sock.wait(name)) for name in (b"a", b"b", b"c")]
        await blocked()
        sock.bring(b"bac")
        await asyncio.gather(*tasks)
        await blocked()
    assert sock.turns == ["b", "a", "c", "next iteration"]


async def test_all_tasks_of_one_event_run_in_the_same_iteration() -> None:
    async with reading() as sock:
        tasks = [asyncio.create_task(sock.wait(b"a")) for _ in range(3)]
        await blocked()
        sock.bring(b"a")
        await asyncio.gather(*tasks)
        await blocked()
    assert sock.turns == ["a", "a", "a", "next iteration"]


async def test_tasks_that_these_wake_run_behind_them_and_what_those_wake_later() -> None:
    async with reading() as sock:

        async def wait_and_wake(name: bytes, other: bytes) -> None:
            await sock.wait(name)
            sock.event(other).set()

        waits = wait_and_wake(b"a", b"x"), wait_and_wake(b"x", b"z"), sock.wait(b"b"), sock.wait(b"z")
        tasks = [asyncio.create_task(wait) for wait in waits]
        await blocked()
        sock.bring(b"ab")
        await asyncio.gather(*tasks)
        await blocked()
    assert sock.turns == ["a", "b", "x", "next iteration", "z"]


async def test_no_task_runs_within_another() -> None:
    async with reading() as sock:
        current: list[object] = []

        async def wait() -> None:
            await sock.event(b"a").wait()
            current.append(asyncio.current_task())

        own = asyncio.create_task(wait())
        await blocked()
        sock.then = lambda: current.append(asyncio.current_task() is not own)
        sock.bring(b"a")
        await own
        assert current == [True, own]


async def test_an_event_that_another_task_sets_wakes_later() -> None:
    event, turns = AsyncioEvent(), list[str]()

    async def wait() -> None:
        await event.wait()
        turns.append("woken")

    task = asyncio.create_task(wait())
    await blocked()
    event.set()
    turns.append("set")
    await task
    assert turns == ["set", "woken"]


async def test_within_a_running_task_the_loop_resumes() -> None:
    """As in a loop that is nested in a task."""
    waiter: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    turns: list[object] = []

    async def wait() -> None:
        turns.append(await waiter)

    task = asyncio.create_task(wait())
    await blocked()
    resume(waiter, b"data")
    turns.append("resumed")
    await task
    assert turns == ["resumed", b"data"]


async def called_by_the_loop(callback: Callable[[], object]) -> None:
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    loop.call_soon(callback)
    loop.call_soon(done.set)
    await done.wait()


class Driven:
    """Awaits an awaitable by hand, so that what it yields is seen."""

    def __init__(self, awaitable: Coroutine[Any, Any, bytes], also: Callable[[Any], None]) -> None:
        self._coroutine = awaitable
        self._also = also

    def __await__(self) -> Any:
        step = self._coroutine.send(None)
        self._also(step)
        while True:
            yield step
            try:
                step = self._coroutine.send(None)
            except StopIteration as stop:
                return stop.value


@pytest.mark.parametrize("registered_first", [True, False])
async def test_whoever_else_listens_to_a_future_hears_it_too(registered_first: bool) -> None:
    waiter: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    heard: list[object] = []

    async def wait() -> bytes:
        return await waiter

    if registered_first:
        waiter.add_done_callback(lambda done: heard.append(done.result()))
    task = asyncio.create_task(wait())
    await blocked()
    if not registered_first:
        waiter.add_done_callback(lambda done: heard.append(done.result()))
    await called_by_the_loop(lambda: resume(waiter, b"data"))
    assert await task == b"data"
    assert heard == [b"data"]


async def test_a_future_that_no_task_waits_for_is_completed() -> None:
    loop = asyncio.get_running_loop()
    nobody: asyncio.Future[bytes] = loop.create_future()
    await called_by_the_loop(lambda: resume(nobody, b"data"))
    assert nobody.result() == b"data"

    heard: list[object] = []
    function: asyncio.Future[bytes] = loop.create_future()
    function.add_done_callback(lambda done: heard.append(done.result()))
    await called_by_the_loop(lambda: resume(function, b"data"))
    await blocked()
    assert heard == [b"data"]


class Other(asyncio.Future[bytes]):
    """A future whose callbacks are kept in another way."""

    @property
    def _callbacks(self) -> Any:
        return {"other": "internals"}


class Without(asyncio.Future[bytes]):
    """A future that does not show its callbacks."""

    @property
    def _callbacks(self) -> Any:
        raise AttributeError("_callbacks")


@pytest.mark.parametrize("kind", [Other, Without])
async def test_with_other_internals_the_loop_resumes(kind: type[asyncio.Future[bytes]]) -> None:
    waiter = kind()

    async def wait() -> bytes:
        return await waiter

    task = asyncio.create_task(wait())
    await blocked()
    await called_by_the_loop(lambda: resume(waiter, b"data"))
    assert await task == b"data"


async def test_a_coroutine_that_is_driven_by_hand_resumes() -> None:
    waiter: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    steps: list[object] = []

    async def wait() -> bytes:
        return await waiter

    async def drive() -> bytes:
        return await Driven(wait(), steps.append)  # type: ignore[no-any-return]

    task = asyncio.create_task(drive())
    await blocked()
    await called_by_the_loop(lambda: resume(waiter, b"data"))
    assert await task == b"data"
    assert steps == [waiter]


async def test_a_task_runs_in_its_own_context() -> None:
    variable = contextvars.ContextVar("variable", default="none")

    async with reading() as sock:
        seen: list[str] = []

        async def wait(value: str) -> None:
            variable.set(value)
            await sock.wait(b"a")
            seen.append(variable.get())

        tasks = [asyncio.create_task(wait(value)) for value in ("one", "two")]
        await blocked()
        sock.bring(b"a")
        await asyncio.gather(*tasks)
        assert seen == ["one", "two"]
        assert variable.get() == "none"


# Cancellation


async def test_a_task_that_is_cancelled_before_its_event_stays_cancelled() -> None:
    async with reading() as sock:
        task = asyncio.create_task(sock.wait(b"a"))
        await blocked()
        task.cancel("the reason")
        sock.bring(b"a")
        with pytest.raises(asyncio.CancelledError, match="the reason"):
            await task
        await blocked()
        assert sock.read_bytes == b"a"


async def test_a_task_that_is_cancelled_by_the_reader_after_its_event() -> None:
    async with reading() as sock:
        task = asyncio.create_task(sock.wait(b"a"))
        await blocked()
        sock.then = lambda: task.cancel("the reason")
        sock.bring(b"a")
        with pytest.raises(asyncio.CancelledError, match="the reason"):
            await task
        sock.then = lambda: None
        assert sock.turns in ([], ["next iteration"])


async def test_a_scope_that_is_cancelled_by_the_reader_after_an_event_ends_quietly() -> None:
    async with reading() as sock:
        scope = anyio.CancelScope()

        async def wait() -> str:
            with scope:
                await sock.event(b"a").wait()
                await anyio.sleep_forever()
            return "ended quietly"

        task = asyncio.create_task(wait())
        await blocked()
        sock.then = scope.cancel
        sock.bring(b"a")
        with anyio.fail_after(5):
            assert await task == "ended quietly"
        assert scope.cancelled_caught
        assert task.cancelling() == 0
        sock.then = lambda: None


async def test_a_resumed_task_can_cancel_one_that_is_about_to_resume() -> None:
    async with reading() as sock:
        second = asyncio.create_task(sock.wait(b"b"))

        async def wait_and_cancel() -> None:
            await sock.wait(b"a")
            second.cancel("no longer wanted")

        first = asyncio.create_task(wait_and_cancel())
        await blocked()
        sock.bring(b"ab")
        await first
        with pytest.raises(asyncio.CancelledError, match="no longer wanted"):
            await second


async def test_a_resumed_task_can_be_cancelled_where_it_waits_next() -> None:
    async with reading() as sock:

        async def wait_twice() -> None:
            await sock.wait(b"a")
            await sock.wait(b"b")

        task = asyncio.create_task(wait_twice())
        await blocked()
        sock.bring(b"a")
        await blocked()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert "a" in sock.turns


async def test_timeouts_of_asyncio_and_of_anyio_end_the_wait() -> None:
    async with reading() as sock:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await sock.event(b"a").wait()
        with anyio.move_on_after(0.01) as scope:
            await sock.event(b"a").wait()
        assert scope.cancelled_caught
        async with asyncio.timeout(5):
            asyncio.get_running_loop().call_later(0.01, sock.bring, b"a")
            await sock.event(b"a").wait()
        with anyio.fail_after(5):
            asyncio.get_running_loop().call_later(0.01, sock.bring, b"b")
            await sock.event(b"b").wait()
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0


async def test_a_resumed_task_can_cancel_the_reader() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        sock = Socket(ours, theirs)
        reader = asyncio.create_task(sock.read())

        async def wait_and_cancel() -> None:
            await sock.wait(b"a")
            reader.cancel("enough")

        tasks = [asyncio.create_task(wait_and_cancel()), asyncio.create_task(sock.wait(b"b"))]
        await blocked()
        sock.bring(b"ab")
        await asyncio.gather(*tasks)
        with pytest.raises(asyncio.CancelledError, match="enough"):
            await reader
        sock.close()


async def test_a_resumed_task_can_close_the_socket() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        sock = Socket(ours, theirs)
        reader = asyncio.create_task(sock.read())

        async def wait_and_close() -> None:
            await sock.wait(b"a")
            sock.close()
            ours.close()

        tasks = [asyncio.create_task(wait_and_close()), asyncio.create_task(sock.wait(b"b"))]
        await blocked()
        sock.bring(b"ab")
        await asyncio.gather(*tasks)
        with pytest.raises(anyio.ClosedResourceError):
            await reader


async def test_an_error_of_a_resumed_task_is_its_own() -> None:
    async with reading() as sock:

        async def wait_and_fail() -> None:
            await sock.wait(b"a")
            raise LookupError

        tasks = [asyncio.create_task(wait_and_fail()), asyncio.create_task(sock.wait(b"b"))]
        await blocked()
        sock.bring(b"ab")
        assert [type(each) for each in await asyncio.gather(*tasks, return_exceptions=True)] == [
            LookupError,
            type(None),
        ]


async def test_a_resumed_task_may_start_and_await_others() -> None:
    async with reading() as sock:

        async def wait_and_spawn() -> list[str]:
            await sock.wait(b"a")
            return await asyncio.gather(*(asyncio.sleep(0, name) for name in ("x", "y")))

        task = asyncio.create_task(wait_and_spawn())
        await blocked()
        sock.bring(b"a")
        assert await task == ["x", "y"]


async def test_bytes_that_a_resumed_task_sends_back_to_itself_arrive() -> None:
    async with reading() as sock:

        async def ping() -> None:
            for name in (b"a", b"b", b"c"):
                sock.bring(name)
                await sock.wait(name)

        await asyncio.create_task(ping())
        await blocked()
    assert sock.turns == ["a", "next iteration", "b", "next iteration", "c", "next iteration"]


async def test_eager_tasks() -> None:
    if sys.version_info < (3, 12):
        pytest.skip("Python 3.12 has eager tasks")
    loop = asyncio.get_running_loop()
    loop.set_task_factory(asyncio.eager_task_factory)
    try:
        async with reading() as sock:

            async def wait_and_spawn() -> None:
                await sock.wait(b"a")
                await asyncio.create_task(sock.wait(b"b"))

            tasks = [asyncio.create_task(wait_and_spawn()), asyncio.create_task(sock.wait(b"b"))]
            sock.bring(b"a")
            await blocked()
            sock.bring(b"b")
            await asyncio.gather(*tasks)
            assert [turn for turn in sock.turns if turn != "next iteration"] == ["a", "b", "b"]
    finally:
        loop.set_task_factory(None)


async def test_debug_mode() -> None:
    loop = asyncio.get_running_loop()
    loop.set_debug(True)
    try:
        async with reading() as sock:
            task = asyncio.create_task(sock.wait(b"a"))
            await blocked()
            sock.bring(b"a")
            await task
            await blocked()
        assert sock.turns == ["a", "next iteration"]
    finally:
        loop.set_debug(False)


# What ends the loop


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("loop_factory", [asyncio.SelectorEventLoop, "uvloop"])
def test_a_resumed_task_may_end_the_program_and_no_other_is_lost(
    error: type[BaseException], loop_factory: Any
) -> None:
    if loop_factory == "uvloop":
        loop_factory = pytest.importorskip("uvloop").new_event_loop
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    loop = loop_factory()
    with ours, theirs:

        async def begin() -> tuple[Socket, list[asyncio.Task[None]]]:
            sock = Socket(ours, theirs)

            async def wait_and_exit() -> None:
                await sock.wait(b"a")
                raise error

            tasks = [
                asyncio.create_task(sock.read()),
                asyncio.create_task(wait_and_exit()),
                asyncio.create_task(sock.wait(b"b")),
            ]
            await asyncio.sleep(0.01)
            return sock, tasks

        sock, (reader, exiting, other) = loop.run_until_complete(begin())
        sock.bring(b"ab")
        with pytest.raises(error):
            loop.run_forever()
        assert sock.turns[0] == "a"  # uvloop ends its iteration first
        assert isinstance(exiting.exception(), error)
        # The loop may go on, as asyncio.run does to end the other tasks.
        loop.run_until_complete(asyncio.wait_for(other, 5))
        assert sock.read_bytes == b"ab"
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            loop.run_until_complete(reader)
        sock.close()
        loop.close()
