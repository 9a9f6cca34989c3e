"""The places of connections: who gives one up, and that no address keeps the others out."""

from __future__ import annotations

from contextlib import ExitStack

import anyio
import pytest

from nsq_anyio.serving.places import Place, Places

pytestmark = pytest.mark.anyio


class Connections:
    """Connections that hold the places of a server, each in a block of its own."""

    def __init__(self, most: int) -> None:
        self.places = Places(most)
        self.stack = ExitStack()

    def connect(self, address: str, *, idle: bool = False) -> Place | None:
        place = self.stack.enter_context(self.places.taken(address))
        if place is not None:
            place.is_idle = idle
        return place

    def open(self, *addresses: str, idle: bool = False) -> list[Place]:
        found = [self.connect(address, idle=idle) for address in addresses]
        return [place for place in found if place is not None]


def left(*places: Place) -> list[bool]:
    return [place.scope.cancel_called for place in places]


async def test_the_connection_that_is_idle_for_longest_gives_up_its_place() -> None:
    here = Connections(3)
    with here.stack:
        first, second, third = here.open("a", "a", "a", idle=True)
        first.is_idle = False
        first.is_idle = True  # it has made another request since
        assert here.connect("a", idle=True)
        assert left(first, second, third) == [False, True, False]
        third.is_idle = False
        assert here.connect("a", idle=True)
        assert left(first, third) == [True, False]


async def test_the_address_with_most_connections_gives_one_up() -> None:
    here = Connections(4)
    with here.stack:
        (visitor,) = here.open("b", idle=True)
        first, *_ = here.open("a", "a", "a", idle=True)
        for _ in range(10):
            here.open("a", idle=True)
        assert left(first, visitor) == [True, False]


async def test_busy_connections_give_way_to_another_address_alone() -> None:
    here = Connections(3)
    with here.stack:
        first, second, _ = here.open("a", "a", "a")
        assert here.connect("a") is None
        assert here.connect("b")
        assert left(first, second) == [True, False]
        assert here.connect("b") is None  # now neither has two more than the other would have
        assert left(second) == [False]


async def test_refusals_are_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    here = Connections(1)
    with here.stack:
        here.open("a")
        assert [here.connect("a") for _ in range(50)] == [None] * 50
    assert [record.getMessage() for record in caplog.records] == [
        "refused a connection: all 1 are busy; raise the limit of open files (ulimit -n)"
    ]


async def test_a_place_is_free_when_its_block_ends() -> None:
    places = Places(1)
    for address in ("a", "b", "a"):
        with places.taken(address) as place:
            assert place is not None
            with pytest.raises(RuntimeError), places.taken("c"):
                raise RuntimeError


async def test_the_block_of_a_place_that_is_given_up_is_left() -> None:
    places = Places(1)
    ended: list[str] = []

    async def hold(address: str, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        with places.taken(address) as place:
            assert place is not None
            with place.idle():
                task_status.started()
                await anyio.sleep_forever()
        ended.append(address)

    async with anyio.create_task_group() as tasks:
        await tasks.start(hold, "a")
        await tasks.start(hold, "b")
        await anyio.wait_all_tasks_blocked()
        assert ended == ["a"]
        tasks.cancel_scope.cancel()


async def test_room_is_told_before_a_place_is_taken() -> None:
    here = Connections(3)
    with here.stack:
        assert here.places.has_room("a")
        places = here.open("a", "a", "a")
        assert not here.places.has_room("a")
        assert here.places.has_room("b")
        assert left(*places) == [False, False, False]  # asking takes nothing
        here.open("b")
        assert not here.places.has_room("b")
        places[1].is_idle = True
        assert here.places.has_room("b")
    assert here.places.has_room("a")
