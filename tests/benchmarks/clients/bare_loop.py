"""The bare socket on an event loop: a task that reads, and tasks that take messages or publish.

As in a client, the reader is no task of the caller's. There are no checks and no objects. What remains is the
cost of the event loop, which a client can hardly avoid.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from .bare_socket import OK_LENGTH, connect, finish, publish_command, read_answer, received
from .meter import Meter
from .task import Task, read_task

_HEAD = struct.Struct(">II")


class Asyncio:
    """A callback that reads, and a future for each wait."""

    def __init__(self, connection: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        self._connection = connection
        self._waiting: deque[asyncio.Future[None]] = deque()

    def wait(self) -> Awaitable[None]:
        future = self._loop.create_future()
        self._waiting.append(future)
        return future

    def wake(self) -> None:
        self._waiting.popleft().set_result(None)

    async def run(self, readable: Callable[[], None], tasks: list[Callable[[], Awaitable[None]]]) -> None:
        self._loop.add_reader(self._connection, readable)
        await asyncio.gather(*(task() for task in tasks))
        self._loop.remove_reader(self._connection)


class Trio:
    """A task that reads, and Trio's own sleep for each wait."""

    def __init__(self, connection: socket.socket) -> None:
        import trio

        self._trio: Any = trio
        self._connection = connection
        self._waiting: deque[Any] = deque()

    def wait(self) -> Awaitable[object]:
        lowlevel = self._trio.lowlevel
        self._waiting.append(lowlevel.current_task())
        return lowlevel.wait_task_rescheduled(lambda _: lowlevel.Abort.FAILED)  # type: ignore[no-any-return]

    def wake(self) -> None:
        self._trio.lowlevel.reschedule(self._waiting.popleft())

    async def run(self, readable: Callable[[], None], tasks: list[Callable[[], Awaitable[None]]]) -> None:
        async def read() -> None:
            wait_readable = self._trio.lowlevel.wait_readable
            while True:
                await wait_readable(self._connection)
                readable()

        async with self._trio.open_nursery() as reading:
            reading.start_soon(read)
            async with self._trio.open_nursery() as nursery:
                for task in tasks:
                    nursery.start_soon(task)
            reading.cancel_scope.cancel()


async def consume(task: Task, connection: socket.socket, loop: Asyncio | Trio) -> None:
    """Take messages in one task, and finish each; what was finished is sent once no message is left."""
    meter = Meter(task)
    left = meter.begin()
    connection.sendall(b"SUB %b %b\n" % (task.topic.encode(), task.channel.encode()))
    read_answer(connection)
    messages: deque[bytes] = deque()
    data = b""
    sleeps = False

    def readable() -> None:
        nonlocal data, sleeps
        data += received(connection)
        start, end = 0, len(data)
        while start + 8 <= end:
            size, frame_type = _HEAD.unpack_from(data, start)
            following = start + 4 + size
            if following > end:
                break
            if frame_type == 2:
                messages.append(data[start + 18 : start + 34])
            elif frame_type == 1:
                raise ConnectionError(f"nsqd answered {data[start + 8 : following]!r}")
            else:
                connection.sendall(b"NOP\n")
            start = following
        data = data[start:]
        if sleeps and messages:
            sleeps = False
            loop.wake()

    async def take() -> None:
        nonlocal left, sleeps
        answers: list[bytes] = []
        while not meter.done:
            if not messages:
                connection.sendall(b"".join(answers))
                answers.clear()
                sleeps = True
                await loop.wait()
            answers.append(b"FIN " + messages.popleft() + b"\n")
            left -= 1
            if not left:
                left = meter.next()
        connection.sendall(b"".join(answers))

    connection.sendall(b"RDY %d\n" % task.max_in_flight)
    await loop.run(readable, [take])
    finish(connection)
    meter.report(left)


async def publish(task: Task, connection: socket.socket, loop: Asyncio | Trio) -> None:
    """Publish in `concurrency` tasks. What those publish that were woken together is sent together."""
    meter = Meter(task)
    left = meter.begin()
    command = publish_command(task)
    begun = queued = answered = 0
    due = task.concurrency

    def readable() -> None:
        nonlocal answered, due
        data = received(connection)
        if b"E_" in data:
            raise ConnectionError(f"nsqd answered {data!r}")
        answers, answered = divmod(answered + len(data), OK_LENGTH)
        due += answers
        for _ in range(answers):
            loop.wake()

    def had_turn() -> None:
        nonlocal due, queued
        due -= 1
        if not due and queued:
            connection.sendall(command * queued)
            queued = 0

    async def publish_one_by_one() -> None:
        nonlocal begun, left, queued
        while begun < task.messages:
            begun += task.batch
            queued += 1
            had_turn()
            await loop.wait()
            left -= task.batch
            if not left:
                left = meter.next()
        had_turn()

    await loop.run(readable, [publish_one_by_one] * task.concurrency)
    finish(connection)
    meter.report(left)


async def main() -> None:
    """Do the task of this process on the loop that runs."""
    task = read_task()
    with connect(task) as connection:
        loop = Trio(connection) if sys.argv[1] == "trio" else Asyncio(connection)
        await {"consume": consume, "publish": publish}[task.kind](task, connection, loop)


if __name__ == "__main__":
    if sys.argv[1] == "trio":
        import trio

        trio.run(main)
    else:
        asyncio.run(main())
