"""The HTTP clients: every endpoint, of embedded and real servers."""

from __future__ import annotations

import ssl
import tempfile
from functools import partial
from pathlib import Path
from typing import cast

import anyio
import httpx
import pytest

import nsq_anyio as nsq
from nsq_anyio.http import ClusterReply

from ..real_servers import real_nsqd
from ..tls_files import TLSFiles
from .cluster import KINDS, Cluster, Kind, Server
from .observe import LIMIT, consume_now, until_told

pytestmark = pytest.mark.anyio


async def test_nsqd_tells_of_itself(nsqd: Server) -> None:
    async with nsqd.http() as http:
        await http.ping()
        info = await http.info()
    assert info.version == "1.3.0"
    assert (info.broadcast_address, info.tcp_port, info.http_port) == (
        "127.0.0.1",
        nsqd.tcp_port,
        nsqd.http_port,
    )
    assert (info.max_heartbeat_interval, info.max_output_buffer_size) == (60, 64 * 1024)


async def test_publishing(cluster: Cluster, nsqd_kind: Kind) -> None:
    nsqd = await cluster.nsqd(nsqd_kind, channels={"t": ["c"]}, max_msg_size=1000, max_body_size=3000)
    async with nsqd.http() as http:
        await http.publish("t", b"one\n\0")
        await http.publish("t", b"later", defer=0.1)
        await http.publish_many("t", [b"two", bytearray(b"three\n"), memoryview(b"four")])
        with pytest.raises(nsq.HTTPStatusError, match="MSG_TOO_BIG"):
            await http.publish("t", b"x" * 1001)
        with pytest.raises(nsq.HTTPStatusError, match="INVALID_DEFER"):
            await http.publish("t", b"x", defer=10_000)
        with pytest.raises(nsq.HTTPStatusError, match=r"E_BAD_MESSAGE|BAD_MESSAGE"):
            await http.publish_many("t", [b"x", b"x" * 1001])
        with pytest.raises(nsq.HTTPStatusError, match="BODY_TOO_BIG"):
            await http.publish_many("t", [b"x" * 1000] * 3)
    got = await consume_now("t", "c", nsqd.tcp_address, 5)
    assert got == sorted([b"one\n\0", b"later", b"two", b"three\n", b"four"])


async def test_topics_and_channels(nsqd: Server, topic: str) -> None:
    async with nsqd.http() as http:

        async def depths() -> tuple[int, list[tuple[str, int]]]:
            (found,) = (await http.stats(topic=topic)).topics
            return found.depth, [(channel.channel_name, channel.depth) for channel in found.channels]

        async def has_depths(topic_depth: int, *channels: tuple[str, int]) -> None:
            async def is_so() -> bool:
                return await depths() == (topic_depth, list(channels))

            await until_told(is_so)

        for unknown in (http.delete_topic, http.empty_topic, http.pause_topic, http.unpause_topic):
            with pytest.raises(nsq.HTTPStatusError, match="404 TOPIC_NOT_FOUND"):
                await unknown(topic)
        with pytest.raises(nsq.HTTPStatusError, match="404 TOPIC_NOT_FOUND"):
            await http.create_channel(topic, "c")
        assert (await http.stats(topic=topic)).topics == ()

        await http.create_topic(topic)
        await http.create_topic(topic)  # once more does no harm
        for missing in (
            http.delete_channel,
            http.empty_channel,
            http.pause_channel,
            http.unpause_channel,
        ):
            with pytest.raises(nsq.HTTPStatusError, match="404 CHANNEL_NOT_FOUND"):
                await missing(topic, "c")
        await http.publish(topic, b"x")
        await has_depths(1)
        await http.empty_topic(topic)
        await has_depths(0)

        await http.create_channel(topic, "c")
        await http.publish(topic, b"x")
        await has_depths(0, ("c", 1))
        await http.empty_channel(topic, "c")
        await has_depths(0, ("c", 0))

        await http.pause_topic(topic)
        await http.pause_channel(topic, "c")
        await http.publish(topic, b"x")
        (paused,) = (await http.stats(topic=topic)).topics
        assert (paused.paused, paused.channels[0].paused) == (True, True)
        await has_depths(1, ("c", 0))
        await http.unpause_topic(topic)
        await http.unpause_channel(topic, "c")
        await has_depths(0, ("c", 1))
        (running,) = (await http.stats(topic=topic)).topics
        assert (running.paused, running.channels[0].paused) == (False, False)

        await http.delete_channel(topic, "c")
        await has_depths(0)
        await http.delete_topic(topic)
        assert (await http.stats(topic=topic)).topics == ()


async def test_statistics(nsqd: Server, topic: str) -> None:
    async with (
        nsqd.http() as http,
        nsq.produce(nsqd.tcp_address) as producer,
        nsq.consume(topic, "c", nsqd=nsqd.tcp_address, max_in_flight=3) as consumer,
    ):
        for _ in range(2):
            await producer.publish(topic, b"12345")
        with anyio.fail_after(LIMIT):
            await anext(consumer)
            await anext(consumer)
        stats = await http.stats(topic=topic, channel="c")
        (found,) = stats.topics
        assert (found.topic_name, found.message_count, found.message_bytes) == (topic, 2, 10)
        (channel,) = found.channels
        assert (channel.in_flight_count, channel.message_count, channel.client_count) == (2, 2, 1)
        (client,) = channel.clients
        assert (client.in_flight_count, client.ready_count, client.state) == (2, 3, 3)
        (counted,) = [
            found for client in stats.producers for found in client.pub_counts if found.topic == topic
        ]
        assert counted.count == 2
        assert stats.memory is not None
        bare = await http.stats(topic=topic, include_clients=False, include_mem=False)
        assert bare.memory is None
        assert bare.topics[0].channels[0].clients == ()
        assert bare.topics[0].channels[0].client_count == 1
        assert f"[{topic}" in await http.stats_text(topic=topic)


async def test_configuration(cluster: Cluster, nsqd_kind: Kind, nsqlookupd_kind: Kind) -> None:
    lookupd = await cluster.nsqlookupd(nsqlookupd_kind)
    nsqd = await cluster.nsqd(nsqd_kind, max_rdy_count=77)
    async with nsqd.http() as http, lookupd.lookup_http() as lookup_http:
        assert await http.config("max_rdy_count") == 77
        assert await http.log_level() == "info"
        await http.set_log_level("warn")
        assert await http.log_level() == "warn"
        with pytest.raises(nsq.HTTPStatusError, match="400 INVALID_OPTION"):
            await http.config("no_such_option")
        with pytest.raises(nsq.HTTPStatusError, match="400 INVALID_OPTION"):
            await http.set_config("max_rdy_count", "5")
        with pytest.raises(nsq.HTTPStatusError, match="400 INVALID_VALUE"):
            await http.set_config("log_level", "loud")

        assert await http.nsqlookupd_tcp_addresses() == ()
        await http.set_nsqlookupd_tcp_addresses([lookupd.tcp_address])
        assert await http.nsqlookupd_tcp_addresses() == (lookupd.tcp_address,)
        await until_told(lookup_http.nodes)
        await http.set_nsqlookupd_tcp_addresses([])

        async def is_empty() -> bool:
            return not await lookup_http.nodes()

        await until_told(is_empty)


async def test_the_insides_of_the_go_program(nsqd: Server) -> None:
    async with nsqd.http() as http:
        if nsqd.kind == "real":
            await http.free_memory()
            await http.set_block_rate(0)
            assert b"goroutine" in await http.pprof()
            assert b"nsqd" in await http.pprof("cmdline")
            assert b"num_symbols" in await http.pprof_symbols(1)
        else:
            for call in (http.free_memory(), http.pprof(), http.set_block_rate(0), http.pprof_symbols(1)):
                with pytest.raises(nsq.HTTPStatusError, match="404"):
                    await call


async def test_nsqlookupd(cluster: Cluster, nsqd_kind: Kind, nsqlookupd_kind: Kind) -> None:
    lookupd = await cluster.nsqlookupd(nsqlookupd_kind)
    nsqd = await cluster.nsqd(nsqd_kind, lookupds=[lookupd])
    async with lookupd.lookup_http() as http, nsqd.http() as nsqd_http:
        await http.ping()
        assert (await http.info()).version == "1.3.0"
        with pytest.raises(nsq.HTTPStatusError, match="404 TOPIC_NOT_FOUND"):
            await http.lookup("t")
        await nsqd_http.create_topic("t")
        await nsqd_http.create_channel("t", "c")

        async def knows() -> bool:
            nodes = await http.nodes()
            return bool(nodes) and nodes[0].topics == ("t",) and await http.channels("t") == ("c",)

        await until_told(knows)
        reply = await http.lookup("t")
        assert reply.channels == ("c",)
        (producer,) = reply.producers
        assert (str(producer.address), producer.http_url) == (nsqd.tcp_address, nsqd.http_url)
        assert producer.version == "1.3.0"
        assert await http.topics() == ("t",)
        assert await http.channels("unknown") == ()
        debug = await http.debug()
        assert {"client::", "topic:t:", "channel:t:c"} <= debug.keys()
        assert [(found.tcp_port, found.tombstoned) for found in debug["topic:t:"]] == [(nsqd.tcp_port, False)]

        await http.tombstone_topic("t", producer.node)
        assert (await http.lookup("t")).producers == ()
        (node,) = await http.nodes()
        assert (node.topics, node.tombstones) == (("t",), (True,))
        assert (await http.debug())["topic:t:"][0].tombstoned

        await http.create_topic("u")
        await http.create_channel("u", "d")
        assert sorted(await http.topics()) == ["t", "u"]
        assert await http.channels("u") == ("d",)
        await http.delete_channel("u", "d")
        assert await http.channels("u") == ()
        with pytest.raises(nsq.HTTPStatusError, match="404 CHANNEL_NOT_FOUND"):
            await http.delete_channel("u", "d")
        await http.delete_topic("u")
        assert await http.topics() == ("t",)


@pytest.mark.parametrize("policy", ["", "require-verify"])
async def test_https_with_certificates(cluster: Cluster, tls_files: TLSFiles, policy: str) -> None:
    nsqd = await cluster.nsqd(
        "real",
        tls_cert=tls_files.certificate_file,
        tls_key=tls_files.private_key_file,
        tls_root_ca_file=tls_files.ca_file,
        tls_client_auth_policy=policy,
    )
    assert nsqd.real is not None
    assert nsqd.real.https_url is not None
    url = nsqd.real.https_url
    trusting = ssl.create_default_context(cafile=tls_files.ca_file)
    known = ssl.create_default_context(cafile=tls_files.ca_file)
    known.load_cert_chain(tls_files.client.certificate_file, tls_files.client.private_key_file)
    async with nsq.http.Nsqd(url, ssl_context=known) as http:
        await http.publish("t", b"x")
        assert (await http.info()).version == "1.3.0"
    async with nsq.http.Cluster(nsqd=url, ssl_context=known) as client:
        (node,) = (await client.producers("t")).value
        assert node.url == url
        assert (await client.pause_topic("t")).value == (url,)
    async with nsq.http.Nsqd(url, ssl_context=trusting) as http:
        if policy:
            # What nsqd says of it may be lost, as it closes the connection on the request.
            with pytest.raises(nsq.HTTPUnavailable) as caught:
                await http.ping()
            assert "no answer within" not in caught.value.reason
        else:
            await http.ping()
    async with nsq.http.Nsqd(url) as http:
        with pytest.raises(nsq.HTTPUnavailable, match="certificate verify failed"):
            await http.ping()


async def test_a_unix_socket() -> None:
    # Not pytest's directory, whose name may be longer than that of a socket can be.
    with tempfile.TemporaryDirectory(prefix="nsqd-http-") as directory:
        path = Path(directory) / "http.sock"
        async with real_nsqd(http_unix_path=path), nsq.http.Nsqd(str(path)) as http:
            await http.ping()
            await http.publish_many("t", [b"x", b"y"])
            assert (await http.stats()).topics[0].message_count == 2
            async with nsq.http.Cluster(nsqd=f"unix:{path}") as client:
                (node,) = (await client.nodes()).value
                assert (node.url, node.topics) == (f"unix:{path}", ("t",))
                assert await client.delete_topic("t") == ClusterReply((node.url,))
            assert (await http.stats()).topics == ()


def shape(value: object) -> object:
    """The names and types in a JSON value, for lists those of the first element."""
    if isinstance(value, dict):
        return {name: shape(element) for name, element in cast("dict[str, object]", value).items()}
    if isinstance(value, list):
        return [shape(element) for element in cast("list[object]", value)[:1]]
    return type(value)


async def test_both_kinds_answer_in_the_same_shape(cluster: Cluster) -> None:
    embedded, real = [await shapes(cluster, kind) for kind in KINDS]
    for url, found in real.items():
        assert embedded[url] == found, url


async def shapes(cluster: Cluster, kind: Kind) -> dict[str, object]:
    lookupd = await cluster.nsqlookupd(kind)
    nsqd = await cluster.nsqd(kind, lookupds=[lookupd])
    found: dict[str, object] = {}
    async with (
        nsq.consume("t", "c", nsqd=nsqd.tcp_address) as consumer,
        nsq.produce(nsqd.tcp_address) as producer,
        lookupd.lookup_http() as http,
        httpx.AsyncClient(trust_env=False) as client,
    ):
        await producer.publish("t", b"x")
        with anyio.fail_after(LIMIT):
            await anext(consumer)
        await until_told(partial(http.channels, "t"))
        for server, paths in (
            (nsqd, ["/info", "/stats?format=json", "/ping"]),
            (lookupd, ["/info", "/topics", "/channels?topic=t", "/lookup?topic=t", "/nodes", "/debug"]),
        ):
            for path in paths:
                reply = await client.get(server.http_url + path)
                is_json = reply.headers["Content-Type"].startswith("application/json")
                name = "nsqd" if server is nsqd else "nsqlookupd"
                found[name + path] = (reply.status_code, shape(reply.json()) if is_json else reply.text)
    return found
