"""Opening a TCP connection: what fails is told in one type, with the address and the reason."""

import anyio
import pytest

from nsq_anyio.address import Address
from nsq_anyio.errors import DialFailed
from nsq_anyio.testing.faults import fault_proxy
from nsq_anyio.transport.dial import dial

from ..fake_nsqd import FakeConnection, fake_nsqd

pytestmark = pytest.mark.anyio


async def test_bytes_flow_once_it_is_open() -> None:
    async def answer(connection: FakeConnection) -> None:
        await connection.expect(b"ping")
        await connection.send(b"pong")

    async with fake_nsqd(answer) as server, await dial(server.parsed, timeout=5) as stream:
        await stream.send(b"ping\n")
        assert await stream.receive() == b"pong"


async def test_a_host_name_is_resolved() -> None:
    async with fake_nsqd() as server, await dial(Address("localhost", server.port), timeout=5):
        await server.connection()


async def test_a_refused_connection_names_the_address_and_the_reason() -> None:
    async with fake_nsqd() as server, fault_proxy(server.address) as proxy:
        await proxy.refuse()
        with pytest.raises(DialFailed, match=r"^nsqd 127\.0\.0\.1:\d+: cannot connect: .*111") as failure:
            await dial(Address.parse(proxy.address), timeout=5)
    assert failure.value.nsqd == proxy.address


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 64, ".leading-dot", "ü" * 64, "☃.invalid"])
async def test_a_name_that_cannot_be_resolved_is_a_failed_dial(host: str) -> None:
    with pytest.raises(DialFailed, match="cannot connect"):
        await dial(Address(host, 4150), timeout=5)


async def test_a_dial_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(_host: str, _port: int) -> None:
        await anyio.sleep_forever()

    monkeypatch.setattr(anyio, "connect_tcp", never)
    with pytest.raises(DialFailed, match=r"no connection within dial_timeout=0\.02 s"):
        await dial(Address("127.0.0.1", 4150), timeout=0.02)


async def test_a_cancelled_dial_stays_a_cancellation(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(_host: str, _port: int) -> None:
        await anyio.sleep_forever()

    monkeypatch.setattr(anyio, "connect_tcp", never)
    with anyio.move_on_after(0.02) as scope:
        await dial(Address("127.0.0.1", 4150), timeout=5)
    assert scope.cancelled_caught
