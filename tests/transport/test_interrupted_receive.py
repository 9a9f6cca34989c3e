"""A signal handler that raises while bytes are being received loses none of them, wherever it strikes.

Nor does it leave a task behind that waits forever: neither the one that receives, nor those that it wakes.
"""

from __future__ import annotations

import asyncio
import dis
import socket
import sys
from types import FrameType
from typing import Any

import anyio
import pytest

from nsq_anyio.transport import asyncio_backend
from nsq_anyio.transport.asyncio_backend import AsyncioEvent, AsyncioReadable

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module", params=[False, True], ids=["asyncio", "asyncio+uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


FILES = {asyncio_backend.__file__}
IN_TASKS = {"receive", "set", "wait"}
"""What is raised there reaches a task, which may lose what it was about to do."""


class Striking:
    """Raises at one of the places where Python runs signal handlers: after calls, and where functions begin.

    :param place: which one, in the order in which they are passed
    :ivar struck: in which function it was
    """

    def __init__(self, place: int, error: type[BaseException]) -> None:
        self.struck = ""
        self._error = error
        self._left = place
        self._after_call = False

    def __call__(self, frame: FrameType, event: str, arg: object) -> Any:
        del arg
        code = frame.f_code
        if code.co_filename not in FILES or code.co_name in IN_TASKS or self.struck:
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        if event == "opcode":
            name = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            if self._after_call:
                self._strike(frame)
            self._after_call = name.startswith("CALL")
        elif event == "call":
            self._strike(frame)
        return self

    def _strike(self, frame: FrameType) -> None:
        self._left -= 1
        if self._left < 0:
            self.struck = frame.f_code.co_name
            raise self._error


async def wait(event: AsyncioEvent) -> None:
    await event.wait()


async def struck_at(place: int, error: type[BaseException]) -> str:
    """In which function it struck; "" after the last place."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        readable = AsyncioReadable(ours)
        received: list[bytes] = []
        events = [AsyncioEvent() for _ in range(2)]

        async def read() -> None:
            for _ in range(3):
                received.append(await readable.receive(3))
                for event in events:
                    event.set()

        last = AsyncioEvent()

        async def relay() -> None:
            await events[0].wait()
            last.set()

        waits = [*map(wait, events), relay(), wait(last)]
        waiting = [asyncio.create_task(each) for each in waits]
        reading = asyncio.create_task(read())
        await anyio.wait_all_tasks_blocked()
        striking = Striking(place, error)
        called = anyio.Event()

        def call() -> None:
            theirs.send(b"abcdefghi")
            before = sys.gettrace()
            sys.settrace(striking)
            try:
                readable.on_readable()
            except error:
                pass
            finally:
                sys.settrace(before)
                called.set()

        asyncio.get_running_loop().call_soon(call)
        await called.wait()
        with anyio.fail_after(5):
            await reading
            await asyncio.gather(*waiting)
        assert b"".join(received) == b"abcdefghi"
        readable.close()
        return striking.struck


@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError])
async def test_no_byte_is_lost_wherever_it_strikes(error: type[BaseException]) -> None:
    places = [await struck_at(0, error)]
    while places[-1]:
        places.append(await struck_at(len(places), error))
    assert {"on_readable", "resume", "_complete"} <= set(places)
