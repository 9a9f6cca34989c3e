"""A host with several addresses: they are tried by turns, and the first that accepts is used."""

from __future__ import annotations

import socket
from typing import Any

import anyio
import pytest

from nsq_anyio.transport import connect_tcp as module
from nsq_anyio.transport.connect_tcp import connect_by_name

from .. import virtual_time

anyio_backend = virtual_time.anyio_backend
pytestmark = pytest.mark.anyio

FOUND = [(socket.AF_INET, "10.0.0.1"), (socket.AF_INET, "10.0.0.2"), (socket.AF_INET6, "fd00::1")]


class Stream:
    """What a connection attempt returns."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.closed = False

    async def aclose(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def resolver(monkeypatch: pytest.MonkeyPatch) -> None:
    async def look_up(*_: object) -> list[Any]:
        return [(family, socket.SOCK_STREAM, 6, "", (address, 1)) for family, address in FOUND]

    monkeypatch.setattr(module, "look_up", look_up)


async def test_one_that_refuses_is_followed_by_the_next_at_once() -> None:
    tried: list[str] = []

    async def connect(address: str) -> Stream:
        tried.append(address)
        if address != "10.0.0.2":
            raise ConnectionRefusedError(address)
        return Stream(address)

    started = anyio.current_time()
    assert (await connect_by_name("nsqd", 1, connect)).address == "10.0.0.2"
    assert tried == ["fd00::1", "10.0.0.1", "10.0.0.2"]
    assert anyio.current_time() - started < 0.1


async def test_one_that_is_silent_is_given_a_quarter_of_a_second() -> None:
    async def connect(address: str) -> Stream:
        if address == "fd00::1":
            await anyio.sleep_forever()
        return Stream(address)

    started = anyio.current_time()
    assert (await connect_by_name("nsqd", 1, connect)).address == "10.0.0.1"
    assert 0.2 < anyio.current_time() - started < 0.4


async def test_none_accepts() -> None:
    async def connect(address: str) -> Stream:
        raise ConnectionRefusedError(address)

    with pytest.raises(ConnectionRefusedError, match="fd00::1"):
        await connect_by_name("nsqd", 1, connect)


async def test_a_second_one_that_accepts_is_closed() -> None:
    streams: list[Stream] = []

    async def connect(address: str) -> Stream:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0.3)
        streams.append(Stream(address))
        return streams[-1]

    used = await connect_by_name("nsqd", 1, connect)
    assert [each.closed for each in streams] == [each is not used for each in streams]
    assert len(streams) == 2
