"""The embedded nsqlookupd over its sockets: registration by TCP, questions by HTTP."""

import json
import struct
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio
import httpx
import pytest
from anyio.abc import SocketAttribute, SocketStream

from nsq_anyio import errors
from nsq_anyio.address import Address
from nsq_anyio.embedded.nsqlookupd import EmbeddedNsqlookupd, NsqlookupdOptions, nsqlookupd
from nsq_anyio.embedded.nsqlookupd.nsqlookupd_session import MAGIC_V1, frame
from nsq_anyio.serving.listener import ListenFailed

pytestmark = pytest.mark.anyio

LIMIT = 10.0


class Nsqd:
    """As much of nsqd as nsqlookupd sees."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self.address = "{}:{}".format(*stream.extra(SocketAttribute.local_address))

    async def ask(self, command: bytes) -> bytes:
        with anyio.fail_after(LIMIT):
            await self._stream.send(command)
            (size,) = struct.unpack(">i", await self.receive(4))
            return await self.receive(size)

    async def receive(self, count: int) -> bytes:
        received = b""
        while len(received) < count:
            received += await self._stream.receive(count - len(received))
        return received


@asynccontextmanager
async def connected(server: EmbeddedNsqlookupd) -> AsyncGenerator[Nsqd]:
    address = Address.parse(server.tcp_address)
    async with await anyio.connect_tcp(address.host, address.port) as stream:
        yield Nsqd(stream)


@asynccontextmanager
async def registered(
    server: EmbeddedNsqlookupd, *commands: bytes, name: str = "nsqd1"
) -> AsyncGenerator[Nsqd]:
    async with connected(server) as nsqd:
        fields = {
            "broadcast_address": name,
            "hostname": "h",
            "tcp_port": 4150,
            "http_port": 4151,
            "version": "1.3.0",
        }
        await nsqd.ask(MAGIC_V1 + b"IDENTIFY\n" + frame(json.dumps(fields).encode()))
        for command in commands:
            assert await nsqd.ask(command) == b"OK"
        yield nsqd


@asynccontextmanager
async def http(server: EmbeddedNsqlookupd) -> AsyncGenerator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=server.http_url, trust_env=False) as client:
        yield client


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(LIMIT):
        while not condition():  # noqa: ASYNC110 - nothing signals it
            await anyio.sleep(0.005)


def described(nsqd: Nsqd, name: str = "nsqd1") -> dict[str, object]:
    return {
        "remote_address": nsqd.address,
        "hostname": "h",
        "broadcast_address": name,
        "tcp_port": 4150,
        "http_port": 4151,
        "version": "1.3.0",
    }


async def test_identify_tells_where_nsqlookupd_is() -> None:
    async with nsqlookupd(broadcast_address="lookup.example") as server, connected(server) as nsqd:
        fields = {"broadcast_address": "x", "tcp_port": 1, "http_port": 2, "version": "1"}
        reply = json.loads(await nsqd.ask(MAGIC_V1 + b"IDENTIFY\n" + frame(json.dumps(fields).encode())))
        assert reply["broadcast_address"] == "lookup.example"
        assert server.tcp_address == f"127.0.0.1:{reply['tcp_port']}"
        assert server.http_url == f"http://127.0.0.1:{reply['http_port']}"
        assert reply["version"] == "1.3.0"
        assert reply["hostname"]


async def test_lookup_of_a_registered_topic() -> None:
    async with (
        nsqlookupd() as server,
        http(server) as client,
        registered(server, b"REGISTER t c\n", b"REGISTER t d\n", b"REGISTER u\n") as nsqd,
    ):
        reply = await client.get("/lookup", params={"topic": "t"})
        assert reply.json() == {"channels": ["c", "d"], "producers": [described(nsqd)]}
        assert (await client.get("/topics")).json() == {"topics": ["t", "u"]}
        assert (await client.get("/channels", params={"topic": "t"})).json() == {"channels": ["c", "d"]}
        assert (await client.get("/nodes")).json() == {
            "producers": [{**described(nsqd), "tombstones": [False, False], "topics": ["t", "u"]}]
        }


async def test_debug_lists_every_producer() -> None:
    async with nsqlookupd() as server, http(server) as client, registered(server, b"REGISTER t c\n") as nsqd:
        reply = (await client.get("/debug")).json()
        assert list(reply) == ["channel:t:c", "client::", "topic:t:"]
        (producer,) = reply["topic:t:"]
        assert producer["id"] == nsqd.address
        assert producer["last_update"] > 1_600_000_000 * 10**9
        assert producer["tombstoned"] is False


async def test_a_lost_nsqd_is_not_listed_any_more() -> None:
    async with nsqlookupd() as server, http(server) as client:
        async with registered(server, b"REGISTER t c\n"):
            assert len(server.registry.nodes(0)) == 1
        await until(lambda: not server.registry.nodes(0))
        reply = await client.get("/lookup", params={"topic": "t"})
        assert reply.json() == {"channels": ["c"], "producers": []}


async def test_an_error_ends_the_connection_and_its_registrations() -> None:
    async with nsqlookupd() as server, registered(server, b"REGISTER t\n") as nsqd:
        assert await nsqd.ask(b"REGISTER t!\n") == b"E_BAD_TOPIC REGISTER topic name 't!' is not valid"
        await until(lambda: not server.registry.nodes(0))
        with anyio.fail_after(LIMIT), pytest.raises(anyio.EndOfStream):
            await nsqd.receive(1)


async def test_a_peer_that_vanishes_within_a_command_does_not_disturb_the_others() -> None:
    async with nsqlookupd() as server:
        address = Address.parse(server.tcp_address)
        for cut in (b"  V", MAGIC_V1 + b"PI", MAGIC_V1 + b"IDENTIFY\n\0\0\0\x09{"):
            stream = await anyio.connect_tcp(address.host, address.port)
            await stream.send(cut)
            await anyio.aclose_forcefully(stream)
        async with registered(server, b"REGISTER t\n"):
            assert server.registry.topics() == ["t"]


async def test_a_tombstone_and_an_inactive_producer_are_hidden() -> None:
    options = NsqlookupdOptions(inactive_producer_timeout=0, tombstone_lifetime=300)
    async with nsqlookupd() as server, http(server) as client, registered(server, b"REGISTER t\n"):
        reply = await client.post("/topic/tombstone", params={"topic": "t", "node": "nsqd1:4151"})
        assert (reply.status_code, reply.text) == (200, "")
        assert (await client.get("/lookup", params={"topic": "t"})).json()["producers"] == []
        assert (await client.get("/nodes")).json()["producers"][0]["tombstones"] == [True]
    async with (
        nsqlookupd(options=options) as server,
        http(server) as client,
        registered(server, b"REGISTER t\n"),
    ):
        assert (await client.get("/lookup", params={"topic": "t"})).json()["producers"] == []
        assert (await client.get("/nodes")).json()["producers"] == []


async def test_operators_create_and_delete() -> None:
    async with nsqlookupd() as server, http(server) as client:
        assert (await client.post("/topic/create?topic=a")).status_code == 200
        assert (await client.post("/channel/create?topic=b&channel=c")).status_code == 200
        assert (await client.get("/lookup?topic=b")).json() == {"channels": ["c"], "producers": []}
        assert (await client.post("/channel/delete?topic=b&channel=c")).status_code == 200
        assert (await client.get("/channels?topic=b")).json() == {"channels": []}
        assert (await client.post("/topic/delete?topic=b")).status_code == 200
        assert (await client.get("/topics")).json() == {"topics": ["a"]}


@pytest.mark.parametrize(
    ("method", "target", "status", "code"),
    [
        ("GET", "/lookup", 400, "MISSING_ARG_TOPIC"),
        ("GET", "/lookup?topic=none", 404, "TOPIC_NOT_FOUND"),
        ("GET", "/channels", 400, "MISSING_ARG_TOPIC"),
        ("POST", "/topic/create", 400, "MISSING_ARG_TOPIC"),
        ("POST", "/topic/create?topic=", 400, "INVALID_ARG_TOPIC"),
        ("POST", "/topic/delete", 400, "MISSING_ARG_TOPIC"),
        ("POST", "/topic/tombstone?topic=t", 400, "MISSING_ARG_NODE"),
        ("POST", "/channel/create?topic=t", 400, "MISSING_ARG_CHANNEL"),
        ("POST", "/channel/create?topic=t!&channel=c", 400, "INVALID_ARG_TOPIC"),
        ("POST", "/channel/create?topic=t&channel=c!", 400, "INVALID_ARG_CHANNEL"),
        ("POST", "/channel/delete?topic=t&channel=c", 404, "CHANNEL_NOT_FOUND"),
        ("POST", "/lookup?topic=t", 405, "METHOD_NOT_ALLOWED"),
        ("GET", "/stats", 404, "NOT_FOUND"),
    ],
)
async def test_refusals(method: str, target: str, status: int, code: str) -> None:
    async with nsqlookupd() as server, http(server) as client:
        reply = await client.request(method, target)
        assert (reply.status_code, reply.json()) == (status, {"message": code})


async def test_ping_and_info() -> None:
    async with nsqlookupd() as server, http(server) as client:
        assert (await client.get("/ping")).text == "OK"
        assert (await client.get("/info")).json() == {"version": "1.3.0"}


async def test_the_ports_are_free_again_after_the_block() -> None:
    async with nsqlookupd() as first, registered(first, b"REGISTER t\n"):
        port = Address.parse(first.tcp_address).port
        with pytest.raises(ListenFailed, match=f"127.0.0.1:{port}: .*use another port"):
            async with nsqlookupd(tcp_port=port):
                pytest.fail("the port was taken")
    async with nsqlookupd(tcp_port=port) as second:
        assert second.tcp_address == f"127.0.0.1:{port}"
        assert second.registry.topics() == []


async def test_bad_options_are_refused() -> None:
    with pytest.raises(errors.InvalidOption, match=r"tombstone_lifetime=-1 .*0 or more"):
        NsqlookupdOptions(tombstone_lifetime=-1)
    with pytest.raises(errors.InvalidOption, match=r"port 70000 .*0 to 65535"):
        async with nsqlookupd(http_port=70000):
            pytest.fail("there is no such port")
