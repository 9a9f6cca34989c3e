"""The loop ends first: main() returns, or a task calls sys.exit, while a block is open in another task."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Generator

import pytest

import nsq_anyio as nsq

from .blocks import BLOCKS, Cell, Phase
from .impatience import reached
from .loops import LOOPS, Loop
from .peers import Peers, Temper, peers

NOT_ON_TRIO = [loop for loop in LOOPS if loop.id != "trio"]


@pytest.fixture(scope="module")
def the_peers() -> Generator[Peers]:
    with peers() as running:
        yield running


@pytest.mark.parametrize("temper", Temper)
@pytest.mark.parametrize("loop", NOT_ON_TRIO)
def test_main_returns_while_blocks_are_open(the_peers: Peers, loop: Loop, temper: Temper) -> None:
    """Trio's nurseries do not let that happen."""
    tasks: list[asyncio.Task[None]] = []

    async def main() -> None:
        for block in BLOCKS.values():
            cell = Cell(peer, Phase.RUNNING)
            tasks.append(asyncio.ensure_future(block(cell)))  # type: ignore[arg-type]
            await reached(cell)

    with the_peers.peer(temper) as peer:
        loop.run(main)
    assert [task for task in tasks if not task.cancelled()] == []
    if temper is Temper.ANSWERING:
        assert not any(peer.in_flight)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_handler_exits(the_peers: Peers, loop: Loop) -> None:
    async def handler(_message: nsq.Message) -> None:
        sys.exit(3)

    async def main() -> None:
        async with nsq.consume("t", "c", nsqd=peer.address) as consumer:
            await consumer.run(handler)

    with the_peers.peer(Temper.ANSWERING) as peer:
        with pytest.raises(SystemExit) as caught:
            loop.run(main)
        assert caught.value.code == 3
    assert not any(peer.in_flight)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_generator_is_abandoned_while_it_is_suspended_in_a_block(the_peers: Peers, loop: Loop) -> None:
    """Without ``aclosing`` its block ends with the event loop, which is late, but it ends."""

    async def bodies() -> object:
        async with nsq.consume("t", "c", nsqd=peer.address) as consumer:
            async for message in consumer:
                yield message.body

    async def main() -> None:
        async for body in bodies():
            assert body == b"body"
            return

    with the_peers.peer(Temper.ANSWERING) as peer:
        loop.run(main)
