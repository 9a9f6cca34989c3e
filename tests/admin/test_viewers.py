"""The places of viewers' streams, and who has to give one up."""

from __future__ import annotations

from contextlib import ExitStack

import anyio
import pytest

from nsq_anyio.admin.live import Viewers

pytestmark = pytest.mark.anyio


async def test_one_address_gives_up_a_place_for_another() -> None:
    viewers = Viewers(3)
    ended: list[int] = []

    async def watch(address: str, number: int) -> None:
        with viewers.stream(address):
            await anyio.sleep_forever()
        ended.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(3):
            assert viewers.has_room("greedy")
            tasks.start_soon(watch, "greedy", number)
            await anyio.wait_all_tasks_blocked()
        assert not viewers.has_room("greedy")
        assert viewers.has_room("other")
        tasks.start_soon(watch, "other", 3)
        await anyio.wait_all_tasks_blocked()
        assert ended == [0]
        assert not viewers.has_room("other")
        assert viewers.has_room("third")
        tasks.start_soon(watch, "third", 4)
        await anyio.wait_all_tasks_blocked()
        assert ended == [0, 1]
        assert not viewers.has_room("fourth")  # nobody has more than one
        tasks.cancel_scope.cancel()
    assert viewers.has_room("greedy")


async def test_a_place_is_free_when_its_block_ends() -> None:
    viewers = Viewers(1)
    with ExitStack() as stack:
        stack.enter_context(viewers.stream("a"))
        assert not viewers.has_room("b")
    assert viewers.has_room("b")
