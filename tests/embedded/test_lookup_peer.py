"""nsqd's registration with nsqlookupds: complete, current, and back after every loss."""

import json
import re
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import SocketStream

from nsq_anyio import errors
from nsq_anyio.address import Address
from nsq_anyio.embedded.nsqd.lookup_peer import LookupPeers, LookupTimes
from nsq_anyio.embedded.nsqlookupd import EmbeddedNsqlookupd, nsqlookupd
from nsq_anyio.embedded.nsqlookupd.nsqlookupd_session import MAGIC_V1, frame
from nsq_anyio.serving.listener import local_port, open_listener, serve_connections
from nsq_anyio.tasks import background_tasks

pytestmark = pytest.mark.anyio

LIMIT = 10.0
FAST = LookupTimes(ping_interval=15.0, reconnect_delay=0.01, timeout=5.0)
OK = frame(b"OK")
IDENTITY = {
    "broadcast_address": "nsqd1",
    "hostname": "h",
    "tcp_port": 4150,
    "http_port": 4151,
    "version": "1.3.0",
}


class Topic:
    def __init__(self, *channels: str) -> None:
        self.channels = dict.fromkeys(channels)


class Nsqd:
    """The topics and channels of an nsqd."""

    def __init__(self, **topics: Sequence[str]) -> None:
        self._topics = {name: Topic(*channels) for name, channels in topics.items()}

    @property
    def topics(self) -> Mapping[str, Topic]:
        return self._topics

    def create(self, topic: str, *channels: str) -> None:
        self._topics[topic] = Topic(*channels)

    def delete(self, topic: str) -> None:
        del self._topics[topic]


@asynccontextmanager
async def registering(
    nsqd: Nsqd, *nsqlookupds: str, times: LookupTimes = FAST
) -> AsyncGenerator[LookupPeers]:
    peers = LookupPeers(nsqd, lambda: IDENTITY, nsqlookupds, times)
    async with background_tasks() as tasks:
        tasks.start_soon(peers.run)
        yield peers


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(LIMIT):
        while not condition():  # noqa: ASYNC110 - nothing signals it
            await anyio.sleep(0.005)


def producers(server: EmbeddedNsqlookupd) -> dict[str, list[str]]:
    """The registrations that have a producer."""
    found: dict[str, list[str]] = {"topic": [], "channel": [], "client": []}
    for key, each in server.registry.items():
        if each:
            found[key.category].append(f"{key.key} {key.subkey}".strip())
    return found


@asynccontextmanager
async def scripted(script: Callable[[SocketStream], Awaitable[None]]) -> AsyncGenerator[str]:
    """A server that answers as ``script`` says; yields its address."""

    async def serve(stream: SocketStream) -> None:
        async with stream:
            try:
                await script(stream)
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return

    async with await open_listener("127.0.0.1", 0) as listener, background_tasks() as tasks:
        tasks.start_soon(serve_connections, listener, serve)
        yield f"127.0.0.1:{local_port(listener)}"


async def test_all_that_exists_is_registered_then_each_change() -> None:
    nsqd = Nsqd(t=["c", "d"], u=[])
    async with nsqlookupd() as server, registering(nsqd, server.tcp_address) as peers:
        await until(lambda: producers(server)["channel"] == ["t c", "t d"])
        await until(lambda: producers(server)["topic"] == ["t", "u"])
        (node,) = server.registry.nodes(0)
        assert (node.peer.broadcast_address, node.peer.tcp_port) == ("nsqd1", 4150)
        assert peers.http_addresses == [server.http_url.removeprefix("http://")]

        peers.notify("v", None, exists=True)
        peers.notify("v", "e", exists=True)
        peers.notify("t", "c", exists=False)
        peers.notify("u", None, exists=False)
        await until(
            lambda: producers(server) == {"client": [""], "topic": ["t", "v"], "channel": ["t d", "v e"]}
        )
    assert producers(server) == {"client": [], "topic": [], "channel": []}


async def test_every_nsqlookupd_is_told() -> None:
    async with (
        nsqlookupd() as one,
        nsqlookupd() as two,
        registering(Nsqd(t=["c"]), one.tcp_address, two.tcp_address, one.tcp_address) as peers,
    ):
        await until(lambda: producers(one)["channel"] == producers(two)["channel"] == ["t c"])
        peers.notify("u", None, exists=True)
        await until(lambda: producers(one)["topic"] == producers(two)["topic"] == ["t", "u"])
        assert len(one.registry.nodes(0)) == 1


async def test_the_nsqlookupds_can_change() -> None:
    async with nsqlookupd() as one, nsqlookupd() as two, registering(Nsqd(t=[]), one.tcp_address) as peers:
        await until(lambda: producers(one)["topic"] == ["t"])
        peers.set_addresses([two.tcp_address])
        await until(lambda: producers(two)["topic"] == ["t"] and not producers(one)["client"])
        assert peers.http_addresses == [two.http_url.removeprefix("http://")]
        peers.set_addresses([])
        await until(lambda: not producers(two)["client"])
        peers.set_addresses([one.tcp_address, two.tcp_address])
        await until(lambda: producers(one)["topic"] == producers(two)["topic"] == ["t"])


async def test_a_bad_address_changes_nothing() -> None:
    async with nsqlookupd() as server, registering(Nsqd(t=[]), server.tcp_address) as peers:
        with pytest.raises(errors.InvalidAddress, match="nowhere"):
            peers.set_addresses(["127.0.0.1:4160", "nowhere"])
        await until(lambda: producers(server)["topic"] == ["t"])


async def test_all_is_registered_again_after_a_restart(caplog: pytest.LogCaptureFixture) -> None:
    nsqd = Nsqd(t=["c"], u=[])
    async with nsqlookupd() as first:
        port = Address.parse(first.tcp_address).port
    async with registering(nsqd, f"127.0.0.1:{port}") as peers:
        await until(lambda: "trying again" in caplog.text)  # it was not there at the start
        async with nsqlookupd(tcp_port=port) as second:
            await until(lambda: producers(second)["topic"] == ["t", "u"])
        nsqd.delete("t")
        peers.notify("t", None, exists=False)
        nsqd.create("v", "d")
        peers.notify("v", None, exists=True)
        peers.notify("v", "d", exists=True)
        async with nsqlookupd(tcp_port=port) as third:
            await until(lambda: producers(third) == {"client": [""], "topic": ["u", "v"], "channel": ["v d"]})
            assert caplog.text.count("trying again") == 2  # once for each outage


async def test_ping_is_sent_in_time_even_while_changes_keep_coming() -> None:
    received = bytearray()

    async def script(stream: SocketStream) -> None:
        await stream.receive()
        await stream.send(frame(json.dumps(IDENTITY).encode()))
        while True:
            command = await stream.receive()
            received.extend(command)
            await stream.send(OK)
            if command.startswith(b"REGISTER"):
                peers.notify("t", None, exists=True)  # there is always one more

    times = LookupTimes(ping_interval=0.02, reconnect_delay=0.01, timeout=5.0)
    async with scripted(script) as address, registering(Nsqd(t=[]), address, times=times) as peers:
        await until(lambda: received.count(b"PING\n") >= 3)
        assert received.startswith(b"REGISTER t\n")


async def test_an_idle_connection_is_kept_alive() -> None:
    times = LookupTimes(ping_interval=0.02, reconnect_delay=60, timeout=5.0)
    async with nsqlookupd() as server, registering(Nsqd(), server.tcp_address, times=times):
        await until(lambda: bool(server.registry.nodes(0)))
        (node,) = server.registry.nodes(0)
        introduced = node.peer.last_update
        await until(lambda: node.peer.last_update > introduced)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (b"", "closed the connection"),
        (b"\0\0", "closed the connection"),
        (frame(b"E_BAD_BODY IDENTIFY missing fields"), "missing fields"),
        (frame(b"[]"), r"answered with b'\[\]'"),
        (struct.pack(">i", -1), "is it nsqlookupd"),
        (struct.pack(">i", 2**31 - 1), "is it nsqlookupd"),
        (frame(json.dumps(IDENTITY).encode()) + frame(b"E_INVALID no"), "E_INVALID no"),
    ],
)
async def test_a_server_that_answers_nonsense_is_tried_again(
    reply: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    attempts: list[bytes] = []

    async def script(stream: SocketStream) -> None:
        attempts.append(await stream.receive())
        if reply:
            await stream.send(reply)
        await stream.send_eof()
        await stream.receive()

    async with (
        nsqlookupd() as server,
        scripted(script) as address,
        registering(Nsqd(t=[]), address, server.tcp_address),
    ):
        await until(lambda: len(attempts) >= 3)
        assert attempts[0].startswith(MAGIC_V1 + b"IDENTIFY\n")
        await until(lambda: producers(server)["topic"] == ["t"])
    assert re.search(f"nsqlookupd {address}: .*{reason}.*; trying again", caplog.text)


async def test_a_silent_server_is_given_up_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    attempts: list[bytes] = []

    async def script(stream: SocketStream) -> None:
        while True:
            attempts.append(await stream.receive())

    times = LookupTimes(reconnect_delay=0.01, timeout=0.05)
    async with scripted(script) as address, registering(Nsqd(), address, times=times):
        await until(lambda: len(attempts) >= 2)
    assert "no answer in time" in caplog.text


async def test_a_server_that_speaks_unasked_is_left() -> None:
    attempts: list[bytes] = []

    async def script(stream: SocketStream) -> None:
        attempts.append(await stream.receive())
        await stream.send(frame(json.dumps(IDENTITY).encode()) + OK)
        await stream.receive()

    async with scripted(script) as address, registering(Nsqd(), address):
        await until(lambda: len(attempts) >= 2)
