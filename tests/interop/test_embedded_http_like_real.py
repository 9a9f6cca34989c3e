"""The HTTP side of the embedded nsqd answers what the real one answers: status, headers, body."""

import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx
import pytest

from nsq_anyio import embedded
from tests.embedded.raw_client import bodies, pub, raw_client
from tests.real_servers import real_nsqd

pytestmark = pytest.mark.anyio

MAX_BODY = 200
MAX_MESSAGE = 100
FLAGS = [
    f"--max-body-size={MAX_BODY}",
    f"--max-msg-size={MAX_MESSAGE}",
    "--max-req-timeout=10s",
]
OPTIONS = embedded.NsqdOptions(max_body_size=MAX_BODY, max_msg_size=MAX_MESSAGE, max_req_timeout=10.0)

# Method, target and body, one after the other on one server each.
REQUESTS: list[tuple[str, str, bytes]] = [
    ("GET", "/ping", b""),
    ("POST", "/ping", b""),
    ("GET", "/", b""),
    ("GET", "/nothing", b""),
    # /pub
    ("POST", "/pub?topic=t", b"x"),
    ("POST", "/pub?topic=t", b""),
    ("POST", "/pub", b"x"),
    ("POST", "/pub?topic=", b"x"),
    ("POST", "/pub?topic=a$", b"x"),
    ("POST", "/pub?topic=t", b"x" * MAX_MESSAGE),
    ("POST", "/pub?topic=t", b"x" * (MAX_MESSAGE + 1)),
    ("POST", "/pub?topic=t", b"x" * (MAX_BODY + 1)),
    ("POST", "/pub?topic=t&defer=1000", b"x"),
    ("POST", "/pub?topic=t&defer=10000", b"x"),
    ("POST", "/pub?topic=t&defer=10001", b"x"),
    ("POST", "/pub?topic=t&defer=-1", b"x"),
    ("POST", "/pub?topic=t&defer=1.5", b"x"),
    ("POST", "/pub?topic=t&defer=", b"x"),
    ("POST", "/pub?topic=t&defer=+5", b"x"),
    ("POST", "/pub?topic=t&defer=%2B5", b"x"),
    ("POST", "/pub?topic=made&defer=x", b"x"),
    ("GET", "/pub?topic=t", b""),
    # /mpub
    ("POST", "/mpub?topic=t", b"a\nb\n\nc"),
    ("POST", "/mpub?topic=t", b""),
    ("POST", "/mpub", b"a"),
    ("POST", "/mpub?topic=a$", b"a"),
    ("POST", "/mpub?topic=t", b"x" * MAX_MESSAGE + b"\ny"),
    ("POST", "/mpub?topic=t", b"x" * (MAX_MESSAGE + 1)),
    ("POST", "/mpub?topic=t", b"x\n" * (MAX_BODY // 2) + b"y"),
    ("POST", "/mpub?topic=t&binary=true", bodies(b"a", b"b")),
    ("POST", "/mpub?topic=t&binary=1", bodies(b"a")),
    ("POST", "/mpub?topic=t&binary=yes", bodies(b"a")),
    ("POST", "/mpub?topic=t&binary=0", b"a"),
    ("POST", "/mpub?topic=t&binary=true", b""),
    ("POST", "/mpub?topic=t&binary=true", bodies()),
    ("POST", "/mpub?topic=t&binary=true", bodies(b"")),
    ("POST", "/mpub?topic=t&binary=true", bodies(b"x" * (MAX_MESSAGE + 1))),
    ("POST", "/mpub?topic=t&binary=true", bodies(b"abc")[:-1]),
    # /topic
    ("POST", "/topic/create", b""),
    ("POST", "/topic/create?topic=a$", b""),
    ("POST", "/topic/create?topic=u", b""),
    ("GET", "/topic/create?topic=u", b""),
    *[
        ("POST", f"/topic/{verb}{query}", b"")
        for verb in ("empty", "pause", "unpause", "delete")
        for query in ("", "?topic=unknown", "?topic=a$", "?topic=u", "?topic=%zz", "?topic=a;b")
    ],
    # /channel
    *[
        ("POST", f"/channel/{verb}{query}", b"")
        for verb in ("create", "empty", "pause", "unpause", "delete")
        for query in (
            "",
            "?topic=t",
            "?topic=a$&channel=c",
            "?topic=t&channel=a$",
            "?topic=unknown&channel=c",
            "?topic=t&channel=unknown" if verb != "create" else "?topic=t&channel=d",
            "?topic=t&channel=c",
        )
    ],
    # /config
    *[
        ("GET", f"/config/{option}", b"")
        for option in (
            *("max_rdy_count", "msg_timeout", "max_req_timeout", "max_heartbeat_interval", "mem_queue_size"),
            *("log_level", "log_prefix", "nsqlookupd_tcp_addresses", "auth_http_addresses", "deflate"),
            *("e2e_processing_latency_percentiles", "tls_required", "tls_min_version", "statsd_interval"),
            *("client_timeout", "unknown", "", "output_buffer_timeout", "sync_timeout", "data_pat"),
            *("http_client_connect_timeout", "max_channel_consumers", "tls_client_auth_policy"),
            *(
                "statsd_mem_stats",
                "max_body_size",
                "queue_scan_selection_count",
                "http_address",
                "tcp_address",
            ),
            *("https_address", "queue_scan_worker_pool_max", "broadcast_address"),
        )
    ],
    ("PUT", "/config/log_level", b"DEBUG"),
    ("GET", "/config/log_level", b""),
    ("PUT", "/config/log_level", b"loud"),
    ("PUT", "/config/log_level", b""),
    ("PUT", "/config/log_level", b"x" * (MAX_MESSAGE + 1)),
    ("PUT", "/config/nsqlookupd_tcp_addresses", b'["127.0.0.1:1"]'),
    ("GET", "/config/nsqlookupd_tcp_addresses", b""),
    ("PUT", "/config/nsqlookupd_tcp_addresses", b"[]"),
    *[
        request
        for body in (
            *(
                b"no json",
                b"[1]",
                b"null",
                b"[]",
                b'[""]',
                b'["a"]',
                b'["a:1",null]',
                b'"a"',
                b"{}",
                b'["a"] x',
            ),
            *(
                b'[["a"]]',
                b'["\xff"]',
                b'["\\ud800"]',
                b'["a:1","a:1"]',
                b'["127.0.0.1:1","x y"]',
                b' ["a"] ',
            ),
            *(b'["a', b'[1,"a"]', b"[NaN]", b"[]"),
        )
        for request in (
            ("PUT", "/config/nsqlookupd_tcp_addresses", body),
            ("GET", "/config/nsqlookupd_tcp_addresses", b""),
        )
    ],
    ("PUT", "/config/max_rdy_count", b"1"),
    ("POST", "/config/log_level", b"info"),
]


@asynccontextmanager
async def servers() -> AsyncGenerator[tuple[tuple[str, str], tuple[str, str]]]:
    async with real_nsqd(flags=FLAGS) as real, embedded.nsqd(options=OPTIONS) as own:
        yield (real.tcp_address, real.http_url), (own.tcp_address, own.http_url)


async def ask(http: httpx.AsyncClient, url: str, method: str, target: str, body: bytes) -> tuple[Any, ...]:
    reply = await http.request(method, url + target, content=body)
    headers = {name: reply.headers.get(name) for name in ("content-type", "x-nsq-content-type", "allow")}
    return reply.status_code, headers, reply.content


async def test_requests_are_answered_alike() -> None:
    async with servers() as (real, own), httpx.AsyncClient(trust_env=False) as http:
        for request in REQUESTS:
            expected = await ask(http, real[1], *request)
            actual = await ask(http, own[1], *request)
            assert actual == expected, request


def normalized(value: object) -> object:
    """``value`` without what differs from server to server."""
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {key: type(item).__name__ if key in VARIABLE else normalized(item) for key, item in items}
    if isinstance(value, list):
        return [normalized(item) for item in cast("list[object]", value)]
    return value


VARIABLE = {
    *("remote_address", "connect_ts", "start_time", "http_port", "tcp_port"),
    *("heap_objects", "heap_idle_bytes", "heap_in_use_bytes", "heap_released_bytes", "next_gc_bytes"),
    *("gc_pause_usec_100", "gc_pause_usec_99", "gc_pause_usec_95", "gc_total_runs"),
}


@asynccontextmanager
async def filled(tcp_address: str, http_url: str, http: httpx.AsyncClient) -> AsyncGenerator[None]:
    """Bring topics, channels, a consumer and a producer into being; they last as long as the block."""
    for path in ("topic/create?topic=empty", "topic/create?topic=t", "topic/pause?topic=empty"):
        await http.post(f"{http_url}/{path}")
    for channel in ("b", "a"):
        await http.post(f"{http_url}/channel/create?topic=t&channel={channel}")
    await http.post(f"{http_url}/channel/pause?topic=t&channel=b")
    async with raw_client(tcp_address) as producer, raw_client(tcp_address) as consumer:
        await producer.publish("t", b"one", b"two", b"three")
        await producer.send(b"DPUB t 9000\n\x00\x00\x00\x01x")
        assert await producer.response() == b"OK"
        await consumer.subscribe("t", "a", rdy=2)
        first, second = await consumer.messages(2)
        await consumer.req(first, 9000)
        third = await consumer.message()
        assert third.id != second.id
        await consumer.fin(third)
        # The error says that all before it was executed.
        await consumer.fin(third)
        assert b"E_FIN_FAILED" in await consumer.error()
        await consumer.rdy(0)
        await consumer.fin(third)
        assert b"E_FIN_FAILED" in await consumer.error()
        yield


STATS = [
    "?format=json",
    "?format=json&include_mem=false",
    "?format=json&include_clients=false",
    "?format=json&topic=t",
    "?format=json&topic=t&channel=a",
    "?format=json&topic=empty&include_mem=0",
    "?format=json&topic=t&channel=unknown",
    "?format=json&topic=unknown",
    "?format=json&channel=unknown",
    "?format=json&include_mem=other&include_clients=1",
]


async def test_statistics_are_alike() -> None:
    async with (
        servers() as (real, own),
        httpx.AsyncClient(trust_env=False) as http,
        filled(*real, http),
        filled(*own, http),
    ):
        for query in STATS:
            expected = (await http.get(f"{real[1]}/stats{query}")).json()
            actual = (await http.get(f"{own[1]}/stats{query}")).json()
            assert normalized(actual) == normalized(expected), query
            assert list(actual) == list(expected)
        for query in ("", "?include_clients=false", "?topic=t&include_mem=false", "?topic=unknown"):
            expected_text = (await http.get(f"{real[1]}/stats{query}")).text
            actual_text = (await http.get(f"{own[1]}/stats{query}")).text
            assert shape(actual_text) == shape(expected_text), query


async def test_a_producer_of_several_topics_shows_one() -> None:
    async with servers() as (real, own), httpx.AsyncClient(trust_env=False) as http:
        for tcp_address, http_url in (real, own):
            async with raw_client(tcp_address) as producer:
                await producer.publish("t", b"x")
                await producer.publish("u", b"x")
                await producer.publish("u", b"x")
                for query, expected in (("", 1), ("&topic=u", [{"topic": "u", "count": 2}])):
                    reply = (await http.get(f"{http_url}/stats?format=json{query}")).json()
                    (stats,) = reply["producers"]
                    assert expected in (len(stats["pub_counts"]), stats["pub_counts"])


def shape(text: str) -> str:
    """The statistics without the values that differ from server to server, and their padding."""
    text = re.sub(r"built w/[^)]*", "built w/", text)
    text = re.sub(r"(start_time|uptime|connected:) \S+", r"\1", text)
    text = re.sub(r"(_bytes|_objects|_100|_99|_95|_runs)( *\t)\d+", r"\1\2", text)
    return re.sub(r":\d+ +\]", ":]", text)


async def test_info_is_alike() -> None:
    async with servers() as (real, own), httpx.AsyncClient(trust_env=False) as http:
        expected = await http.get(f"{real[1]}/info")
        actual = await http.get(f"{own[1]}/info")
        assert normalized(json.loads(actual.text)) == normalized(json.loads(expected.text))
        assert f":{actual.json()['tcp_port']}" in own[0]
        assert own[1].endswith(f":{actual.json()['http_port']}")


async def test_http_publishes_reach_consumers() -> None:
    async with embedded.nsqd() as own, httpx.AsyncClient(trust_env=False) as http:
        await http.post(f"{own.http_url}/pub?topic=t", content=b"one")
        await http.post(f"{own.http_url}/mpub?topic=t", content=b"two\nthree\n")
        await http.post(f"{own.http_url}/mpub?topic=t&binary=true", content=bodies(b"fo\nur"))
        async with raw_client(own.tcp_address) as client:
            await client.send(pub("t", b"five"))
            assert await client.response() == b"OK"
            await client.subscribe("t", "c", rdy=10)
            received = [message.body for message in await client.messages(5)]
        assert received == [b"one", b"two", b"three", b"fo\nur", b"five"]
