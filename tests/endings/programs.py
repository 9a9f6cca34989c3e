"""``python -m tests.endings.programs LOOP KIND``: run each cell as a program, and tell how it ended.

Here the impatience comes from outside of the block's task: a signal, or the end of the event loop. A line of
JSON for each cell, as soon as it is over: its name, and ``as expected`` or what is wrong.
"""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import sys
import threading
import time
import traceback
from itertools import product
from types import FrameType
from typing import Any

from anyio._backends import _asyncio

from nsq_anyio.embedded.nsqd.nsqd_config import NsqdConfig
from nsq_anyio.embedded.nsqd.nsqd_http import nsqd_routes
from nsq_anyio.embedded.nsqlookupd.nsqlookupd_http import nsqlookupd_routes
from nsq_anyio.serving.http_server import http_service

from .blocks import BLOCKS, Block, Cell, Phase
from .impatience import reached
from .loops import LOOPS, Loop
from .peers import Peers, Temper, peers

AS_EXPECTED = "as expected"
ALL_OVER = "all over"

KINDS = {
    "interrupt": (signal.SIGINT, 1),
    "interrupt twice": (signal.SIGINT, 2),
    "exit": (signal.SIGTERM, 1),
    "exit twice": (signal.SIGTERM, 2),
    "main returns": (None, 0),
}
"""The signal, and how often it comes."""

IMPORTED_BEFORE = (http_service, NsqdConfig, nsqd_routes, nsqlookupd_routes)
"""What servers import with their first request: a handler that raises amid an import, in a task of a server,
leaves uvloop with a loop that it cannot close."""

HAVE_TASK_GROUPS = [BLOCKS["coalesced"]]
# Where these make a difference: the other blocks are made of the same parts.
BLOCKS_STRUCK = (
    "consume",
    "run",
    "keep_alive",
    "publish",
    "coalesced",
    "embedded nsqd",
    "embedded nsqlookupd",
    "http nsqd",
)


def exit_now(_signal: int, _frame: FrameType | None) -> None:
    """The handler of many a service, for SIGTERM."""
    sys.exit(3)


swallowed = threading.Event()
"""Set when what a handler raised was swallowed by the interpreter, as in the callback of a weak reference, or
by uvloop, as in AnyIO's protocol, on which httpx stands."""


def note_swallowed(unraisable: sys.UnraisableHookArgs) -> None:
    """As ``sys.unraisablehook``."""
    if issubclass(unraisable.exc_type, SystemExit | KeyboardInterrupt):
        swallowed.set()
    else:
        sys.__unraisablehook__(unraisable)


def note_swallowed_by_loop(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """As the exception handler of an event loop."""
    if isinstance(context.get("exception"), SystemExit | KeyboardInterrupt):
        swallowed.set()
    loop.default_exception_handler(context)


def strike(cell: Cell, number: int, times: int, over: threading.Event) -> None:
    """Send the signal to the main thread when the phase has come, and again while the block ends."""
    cell.reached.wait()
    swallowed.clear()
    time.sleep(0.02)
    for _ in range(times):
        if not over.is_set():
            signal.pthread_kill(threading.main_thread().ident or 0, number)
            time.sleep(0.04)
    while not over.wait(0.1):
        if swallowed.is_set():  # the block has not seen it
            swallowed.clear()
            signal.pthread_kill(threading.main_thread().ident or 0, number)


def under_signals(loop: Loop, kind: str, block: Block, cell: Cell) -> str | None:
    """Run the block as a program; what is wrong with its end, if anything."""
    number, times = KINDS[kind]
    assert number is not None
    over = threading.Event()
    striking = threading.Thread(target=strike, args=(cell, number, times, over))
    striking.start()

    async def main() -> None:
        if loop.backend == "asyncio":
            asyncio.get_running_loop().set_exception_handler(note_swallowed_by_loop)
        await block(cell)

    try:
        try:
            loop.run(main)
        finally:
            over.set()
            striking.join()
    except KeyboardInterrupt:
        return None if number == signal.SIGINT else traceback.format_exc()
    except SystemExit as error:
        return None if number == signal.SIGTERM and error.code == 3 else traceback.format_exc()
    except BaseExceptionGroup as group:
        if block in HAVE_TASK_GROUPS and group.split(KeyboardInterrupt)[1] is None:
            return None  # the user's own task group has wrapped it
        return traceback.format_exc()
    except BaseException:
        return traceback.format_exc()
    finally:
        striking.join()
    return None if cell.phase is Phase.ENDING else "it ended as if nothing had happened"


def as_main_returns(loop: Loop, block: Block, cell: Cell) -> str | None:
    """Run the block in a task beside main(), which returns; what is wrong with its end, if anything."""
    tasks: list[asyncio.Task[None]] = []

    async def in_a_task() -> None:
        await block(cell)

    async def main() -> None:
        tasks.append(asyncio.create_task(in_a_task()))
        await reached(cell)

    try:
        loop.run(main)
    except BaseException:
        return traceback.format_exc()
    if tasks[0].cancelled() or cell.phase is Phase.ENDING:
        return None
    return f"its task was not cancelled: {tasks[0].exception()!r}"


def tell(name: str, outcome: str) -> None:
    """Write one line."""
    sys.stdout.write(json.dumps([name, outcome]) + "\n")
    sys.stdout.flush()


def collect_what_is_left() -> None:
    """Have the collector close the sockets that only an aborted task or a traceback refers to.

    A signal may hit between the system call that opens a socket and the statement that keeps it. And the
    second signal may end the clean-up of `asyncio.run`, which then leaves tasks unfinished: AnyIO keeps them
    for ever, since the values of its weak dictionary of tasks refer to their keys.
    """
    _asyncio._task_states.clear()  # pyright: ignore[reportUnknownMemberType]
    gc.collect()


def run_cells(the_peers: Peers, loop: Loop, kind: str) -> None:
    """Run all cells, one after the other."""
    single = kind in {"interrupt", "main returns"}
    for name, phase, temper in product(BLOCKS_STRUCK, Phase, (Temper.ANSWERING, Temper.SILENT)):
        in_flight: list[set[bytes]] = []
        try:
            with the_peers.peer(temper) as peer:
                in_flight = peer.in_flight
                cell = Cell(peer, phase)
                if kind == "main returns":
                    wrong = as_main_returns(loop, BLOCKS[name], cell)
                else:
                    wrong = under_signals(loop, kind, BLOCKS[name], cell)
                    collect_what_is_left()
        except TimeoutError:
            wrong = "a connection is still open"
        # Where the loop ends, nobody waits for messages that were on their way: nsqd takes them back.
        may_leave = kind == "main returns" and phase is Phase.OPENING
        if wrong is None and single and not may_leave and temper is Temper.ANSWERING and any(in_flight):
            wrong = f"left in flight: {in_flight}"
        tell(f"{name}, {phase.value}, {temper.value}", wrong or AS_EXPECTED)


if __name__ == "__main__":
    (chosen,) = (loop.values[0] for loop in LOOPS if loop.id == sys.argv[1])
    assert isinstance(chosen, Loop)
    signal.signal(signal.SIGTERM, exit_now)
    sys.unraisablehook = note_swallowed
    with peers() as running:
        run_cells(running, chosen, sys.argv[2])
    tell(ALL_OVER, AS_EXPECTED)
