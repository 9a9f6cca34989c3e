"""Every block, phase and peer under each impatience that comes from within the event loop, all at once."""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Generator
from contextlib import ExitStack
from itertools import product

import anyio
import anyio.lowlevel
import pytest

from ..fake_nsqd import client_tasks
from .blocks import BLOCKS, Block, Cell, Phase
from .impatience import ON_ASYNCIO, ON_EVERY_LOOP, ON_TRIO, Impatience
from .loops import LOOPS, Loop
from .peers import Peer, Peers, Temper, peers

BOUND = 10.0
"""Seconds for all cells together; each takes half a second where no others run beside it."""


@pytest.fixture(scope="module")
def the_peers() -> Generator[Peers]:
    with peers() as running:
        yield running


GROUPS = [
    pytest.param(*loop.values, impatience, id=f"{loop.id}-{name}", marks=loop.marks)
    for loop in LOOPS
    for name, impatience in (ON_EVERY_LOOP | (ON_TRIO if loop.id == "trio" else ON_ASYNCIO)).items()
]


@pytest.mark.parametrize(("loop", "impatience"), GROUPS)
def test_each_cell_ends(the_peers: Peers, loop: Loop, impatience: Impatience) -> None:
    failures: dict[str, str] = {}
    running: set[str] = set()
    in_flight: dict[str, Peer] = {}

    async def run_cell(name: str, block: Block, cell: Cell) -> None:
        running.add(name)
        try:
            await impatience(block, cell)
        except BaseException as error:
            failures[name] = "".join(traceback.format_exception(error))
            if isinstance(error, anyio.get_cancelled_exc_class()):
                raise
        running.discard(name)

    async def watch() -> None:
        with anyio.move_on_after(BOUND):
            while running:  # noqa: ASYNC110 - so it takes no event for each cell
                await anyio.sleep(0.02)
        if running:  # nothing can end them, and so this test: it says which, before its own time is over
            sys.stderr.write("\n    ".join(["these hang:", *sorted(running)]) + "\n")

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            for name, block, cell in cells:
                tasks.start_soon(run_cell, name, block, cell)
            await anyio.lowlevel.checkpoint()
            tasks.start_soon(watch)
        with anyio.move_on_after(1):
            while client_tasks():  # noqa: ASYNC110 - what is waited for sets no event
                await anyio.sleep(0.01)
        assert client_tasks() == []

    with ExitStack() as stack:
        cells: list[tuple[str, Block, Cell]] = []
        for (block_name, block), phase, temper in product(BLOCKS.items(), Phase, Temper):
            name = f"{block_name}, {phase.value}, {temper.value}"
            peer = stack.enter_context(the_peers.peer(temper))
            cells.append((name, block, Cell(peer, phase)))
            if temper is Temper.ANSWERING:  # a slow one may not come to read them within `close_timeout`
                in_flight[name] = peer
        loop.run(main)
    for name, peer in in_flight.items():
        if any(peer.in_flight) or peer.refused:
            failures.setdefault(name, f"left in flight: {peer.in_flight}, sent: {peer.refused}")
    assert not failures, "\n\n".join(f"== {name}\n{text}" for name, text in failures.items())


def test_the_eager_loop_is_eager() -> None:
    """The factory works where Python has it; a cell that is skipped for ever would prove nothing."""
    assert hasattr(asyncio, "eager_task_factory") == (sys.version_info >= (3, 12))
