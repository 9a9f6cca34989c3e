"""nsqadmin's HTTP API: the real nsqadmin and this one answer the same, over the same real servers."""

import json
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import anyio
import httpx
import pytest

import nsq_anyio as nsq
from nsq_anyio.admin import AdminOptions, app
from nsq_anyio.serving.asgi_server import serve_asgi
from nsq_anyio.serving.listener import local_port, open_listener
from nsq_anyio.tasks import background_tasks
from tests.real_servers import RealServer, real_nsqadmin, real_nsqd, real_nsqlookupd

pytestmark = pytest.mark.anyio

NOBODY = "127.0.0.1:1"
JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Stage:
    """Two nsqds at two nsqlookupds, and both programs that ask them."""

    real: str
    own: str
    nsqds: tuple[RealServer, ...]
    http: httpx.AsyncClient

    async def ask(self, url: str, method: str, path: str, body: bytes = b"") -> httpx.Response:
        headers = JSON if method == "POST" else {}
        path = path.replace("NODE", self.nsqds[0].http_url.removeprefix("http://"))
        return await self.http.request(method, url + path, content=body, headers=headers)

    async def compare(self, method: str, path: str, body: bytes = b"") -> httpx.Response:
        """Send a request to both, and check that the answers are alike."""
        expected = await self.ask(self.real, method, path, body)
        actual = await self.ask(self.own, method, path, body)
        assert shape(actual) == shape(expected), (method, path)
        return actual

    async def compare_json(self, path: str) -> Any:
        return (await self.compare("GET", path)).json()


def shape(reply: httpx.Response) -> tuple[object, ...]:
    """What must be equal of a response."""
    kind = reply.headers.get("content-type", "")
    names = ("x-nsq-content-type", "allow", "location")
    headers = [reply.headers.get(name) for name in names]
    if reply.status_code == 200 and not reply.content:
        kind = ""
    if "json" not in kind or not reply.content:
        return (reply.status_code, kind, headers, reply.text)
    return (reply.status_code, kind, headers, normalized(reply.json()))


def normalized(value: object) -> object:
    """``value`` without what nsqadmin itself answers differently from request to request.

    It sorts nsqds by host name alone, and these all have the same one.
    """
    if isinstance(value, dict):
        found = {
            key: "seconds" if key == "connected" else normalized(each)
            for key, each in cast("dict[str, object]", value).items()
        }
        for key in ("nodes", "clients", "remote_addresses"):
            if isinstance(found.get(key), list):
                found[key] = sorted(cast("list[object]", found[key]), key=json.dumps)
        if "remote_address" in found and "remote_addresses" in found:
            found["remote_address"] = "of one of the nsqlookupds"
        return found
    if isinstance(value, list):
        return [normalized(each) for each in cast("list[object]", value)]
    if isinstance(value, str) and value.startswith(("UPSTREAM_ERROR", "WARNING")):
        # Whose connection was refused stands in Go's words there.
        lines = re.sub(r"(Get|Post) \"?http.*?(?=\n|; |$)|http://.*?(?=\n|; |$)", "ERROR", value)
        return sorted(re.split(r"\n|; |(?<=nsqlookupd): |(?<=WARNING): ", lines))
    return value


@asynccontextmanager
async def own_admin(
    nsqlookupd: Sequence[str] = (), nsqd: Sequence[str] = (), options: AdminOptions | None = None
) -> AsyncGenerator[str]:
    """Serve this package's application, as the command does; yields its URL."""
    async with (
        await open_listener("127.0.0.1", 0) as listener,
        app(nsqlookupd, nsqd, options=options) as application,
        background_tasks() as tasks,
    ):
        tasks.start_soon(partial(serve_asgi, listener, application, max_body_size=2 * 1024 * 1024))
        yield f"http://127.0.0.1:{local_port(listener)}"


@asynccontextmanager
async def stage(
    nsqds: int = 2, lookupds: int = 2, more: Sequence[str] = (), base_path: str = "/", direct: bool = False
) -> AsyncGenerator[Stage]:
    """Start everything.

    :param more: further nsqlookupds
    :param direct: whether both programs are given the nsqds in place of the nsqlookupds
    """
    async with nsq_servers(nsqds, lookupds) as (found_nsqds, found_lookupds):
        servers = found_nsqds if direct else found_lookupds
        addresses = [*(each.http_url.removeprefix("http://") for each in servers), *more]
        flag = "nsqd" if direct else "lookupd"
        flags = [f"--{flag}-http-address={address}" for address in addresses]
        own = own_admin(
            () if direct else addresses, addresses if direct else (), AdminOptions(base_path=base_path)
        )
        async with (
            real_nsqadmin([*flags, f"--base-path={base_path}"] if base_path == "/" else flags) as real,
            own as own_url,
            # nsqadmin drops the type of text that it compresses.
            httpx.AsyncClient(trust_env=False, headers={"Accept-Encoding": "identity"}) as http,
        ):
            yield Stage(real.http_url, own_url, found_nsqds, http)


@asynccontextmanager
async def nsq_servers(
    nsqds: int, lookupds: int
) -> AsyncGenerator[tuple[tuple[RealServer, ...], tuple[RealServer, ...]]]:
    async with AsyncExitStack() as stack:
        found_lookupds = [await stack.enter_async_context(real_nsqlookupd()) for _ in range(lookupds)]
        addresses = [each.tcp_address for each in found_lookupds]
        found_nsqds = [
            await stack.enter_async_context(
                real_nsqd(
                    lookupd_tcp_addresses=addresses,
                    flags=["--e2e-processing-latency-percentile=0.5,0.99"] if number == 0 else [],
                )
            )
            for number in range(nsqds)
        ]
        yield tuple(found_nsqds), tuple(found_lookupds)


async def fill(stage: Stage) -> None:
    """Bring topics and channels into being, with messages."""
    for number, nsqd in enumerate(stage.nsqds):
        async with nsq.http.Nsqd(nsqd.http_url) as http:
            for topic in ("t", "paused", "bare", "e#ephemeral"):
                await http.create_topic(topic)
            for channel in ("a", "b", "c#ephemeral"):
                await http.create_channel("t", channel)
            await http.pause_topic("paused")
            await http.pause_channel("t", "b")
            for _ in range(number + 1):
                await http.publish("t", b"x")
                await http.publish("bare", b"x")
    async with nsq.consume("t", "a", nsqd=stage.nsqds[0].tcp_address) as consumer:
        async for message in consumer:
            message.finish()
            break


async def until_known(stage: Stage, topics: int) -> None:
    """Wait until all nsqlookupds know all topics on all nsqds."""
    with anyio.fail_after(10):
        while True:
            reply = (await stage.ask(stage.own, "GET", "/api/nodes")).json()
            nodes = reply["nodes"] or ()
            if len(nodes) == len(stage.nsqds) and all(len(node["topics"] or ()) == topics for node in nodes):
                return
            await anyio.sleep(0.02)


QUESTIONS = [
    "/ping",
    "/api/topics",
    "/api/topics?inactive=true",
    "/api/topics?inactive=false",
    "/api/topics?a=%zz",
    "/api/topics?a;b",
    "/api/topics/paused",
    "/api/topics/nope",
    "/api/topics/idle",
    "/api/topics/e%23ephemeral",
    "/api/topics/t/a",
    "/api/topics/t/b",
    "/api/topics/t/c%23ephemeral",
    "/api/topics/t/nope",
    "/api/topics/nope/nope",
    "/api/topics/idle/c",
    "/api/nodes",
    "/api/nodes/NODE",
    "/api/nodes/nope",
    "/api/nodes/127.0.0.1:1",
    "/api/counter",
    "/api/graphite",
    "/api/graphite?metric=rate",
    "/api/graphite?metric=depth&target=x",
    "/api/graphite?metric=%zz",
    "/config/nsqlookupd_http_addresses",
    "/config/nsqd_http_addresses",
    "/config/admin_users",
    "/config/acl_http_header",
    "/config/allow_config_from_cidr",
    "/config/base_path",
    "/config/notification_http_endpoint",
    "/config/nope",
    "/config/",
    "/nope",
    "/api",
    "/api/",
    "/api/topics/",
    "/api/topics/t/",
    "/api/topics/t/a/",
    "/api/topics/t/a/b",
    "/API/Topics",
    "/api//topics",
    "/api/../ping",
    "/api/nodes/",
    "/render",
]


async def test_questions() -> None:
    async with stage() as both:
        await fill(both)
        await until_known(both, 4)
        await both.ask(both.own, "POST", "/api/topics", b'{"topic":"idle","channel":"c"}')
        for path in QUESTIONS:
            await both.compare("GET", path)
        for method in ("HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"):
            for path in ("/api/topics", "/api/nodes", "/ping", "/nope"):
                await both.compare(method, path)


@pytest.mark.parametrize("direct", [False, True], ids=["nsqlookupd", "nsqd"])
async def test_one_nsqd(direct: bool) -> None:
    async with stage(nsqds=1, lookupds=1, direct=direct) as both:
        await fill(both)
        await until_known(both, 4)
        for path in [*QUESTIONS, "/api/topics/t", "/api/topics/bare"]:
            await both.compare("GET", path)


async def test_a_topic_on_two_nsqds() -> None:
    """The first nsqd has its own figures, where nsqadmin shows those of all."""
    async with stage() as both:
        await fill(both)
        await until_known(both, 4)
        expected = (await both.ask(both.real, "GET", "/api/topics/t")).json()
        actual = (await both.ask(both.own, "GET", "/api/topics/t")).json()
        shown = {node["node"]: node for node in actual["nodes"]}
        for total in (expected, actual):
            for node in total["nodes"]:
                node.pop("channels")
            for channel in total["channels"]:
                channel.pop("nodes")
                for each in channel["e2e_processing_latency"]["percentiles"]:
                    each.pop("value", None)
        assert normalized(actual) == normalized(expected)
        assert set(shown) == {nsqd.http_url.removeprefix("http://") for nsqd in both.nsqds}
        assert actual["message_count"] == 3


async def test_servers_that_do_not_answer() -> None:
    async with stage(nsqds=1, lookupds=1, more=[NOBODY]) as both:
        await fill(both)
        await until_known(both, 4)
        for path in QUESTIONS:
            reply = await both.compare("GET", path)
        reply = await both.ask(both.own, "GET", "/api/topics")
        assert reply.json()["message"].startswith("WARNING: ")
        assert NOBODY in reply.json()["message"]


async def test_nsqds_that_do_not_answer() -> None:
    async with stage(nsqds=2, lookupds=0, direct=True, more=[NOBODY]) as both:
        await fill(both)
        for path in QUESTIONS:
            await both.compare("GET", path)
        await both.nsqds[0].kill()
        for path in ("/api/topics", "/api/topics/t", "/api/topics/t/a", "/api/nodes/NODE", "/api/counter"):
            await both.compare("GET", path)
        await both.nsqds[1].kill()
        for path in ("/api/topics", "/api/topics/t", "/api/topics/t/a", "/api/nodes/NODE", "/api/counter"):
            assert (await both.compare("GET", path)).status_code == 502


ACTIONS: list[tuple[str, str, bytes]] = [
    ("POST", "/api/topics", b""),
    ("POST", "/api/topics", b"{}"),
    ("POST", "/api/topics", b'{"topic":"a$"}'),
    ("POST", "/api/topics", b'{"topic":"n","channel":"a$"}'),
    ("POST", "/api/topics", b'{"topic":"n"}'),
    ("POST", "/api/topics", b'{"topic":"n"}'),
    ("POST", "/api/topics", b'{"TOPIC":"n","channel":"c","other":[1]}'),
    ("POST", "/api/topics", b'{"topic":"t","channel":"new"}'),
    ("POST", "/api/topics/t", b""),
    ("POST", "/api/topics/t", b"{}"),
    ("POST", "/api/topics/t", b'{"action":"delete"}'),
    *[
        ("POST", f"/api/topics/{path}", b'{"action":"%s"}' % action)
        for action in (b"pause", b"unpause", b"empty")
        for path in ("t", "t/a", "t/unknown", "unknown", "unknown/c", "n", "n/c", "e%23ephemeral")
    ],
    ("DELETE", "/api/nodes/NODE", b""),
    ("DELETE", "/api/nodes/NODE", b"{}"),
    ("DELETE", "/api/nodes/NODE", b'{"topic":"a$"}'),
    ("DELETE", "/api/nodes/NODE", b'{"topic":"unknown"}'),
    ("DELETE", "/api/topics/t/unknown", b""),
    ("DELETE", "/api/topics/unknown/c", b""),
    ("DELETE", "/api/topics/unknown", b""),
]

# What the second of two programs would find done already: each has a topic of its own.
ONCE: list[tuple[str, str, bytes]] = [
    ("POST", "/api/topics", b'{"topic":"TOPIC-new","channel":"c"}'),
    ("DELETE", "/api/topics/TOPIC-new/c", b""),
    ("DELETE", "/api/topics/TOPIC-new", b""),
    ("DELETE", "/api/topics/TOPIC-new", b""),
    ("DELETE", "/api/topics/TOPIC/c", b""),
    ("DELETE", "/api/nodes/NODE", b'{"topic":"TOPIC"}'),
    ("DELETE", "/api/topics/TOPIC", b""),
    ("DELETE", "/api/topics/TOPIC", b""),
]


async def test_actions() -> None:
    async with stage() as both:
        await fill(both)
        await until_known(both, 4)
        for request in ACTIONS:
            await both.compare(*request)
            for path in ("/api/topics", "/api/topics/t/a"):
                await both.compare("GET", path)


async def test_actions_that_delete() -> None:
    async with stage() as both:
        for nsqd in both.nsqds:
            async with nsq.http.Nsqd(nsqd.http_url) as http:
                for topic in ("real", "own"):
                    await http.create_topic(topic)
                    await http.create_channel(topic, "c")
        await until_known(both, 2)
        for method, path, body in ONCE:
            replies: list[tuple[object, ...]] = []
            for url, topic in ((both.real, "real"), (both.own, "own")):
                named = (path.replace("TOPIC", topic), body.replace(b"TOPIC", topic.encode()))
                replies.append(shape(await both.ask(url, method, *named)))
            assert replies[1] == replies[0], (method, path)
        async with nsq.http.Nsqd(both.nsqds[1].http_url) as http:
            assert (await http.stats()).topics == ()


async def test_a_pause_does_something() -> None:
    async with stage(nsqds=1, lookupds=1) as both:
        await fill(both)
        await until_known(both, 4)

        async def state() -> dict[str, object]:
            reply = await both.compare_json("/api/topics/t/a")
            return {"paused": reply["paused"], "depth": reply["depth"]}

        assert await state() == {"paused": False, "depth": 0}
        for url, action, paused in ((both.own, "pause", True), (both.real, "unpause", False)):
            body = json.dumps({"action": action}).encode()
            assert (await both.ask(url, "POST", "/api/topics/t/a", body)).json() == {"message": ""}
            assert (await state())["paused"] is paused
        async with nsq.http.Nsqd(both.nsqds[0].http_url) as http:
            await http.publish("t", b"x")
        with anyio.fail_after(10):
            while (await state())["depth"] != 1:  # noqa: ASYNC110 - nsqd tells nobody
                await anyio.sleep(0.02)
        await both.ask(both.own, "POST", "/api/topics/t/a", b'{"action":"empty"}')
        assert (await state())["depth"] == 0


CONFIG: list[tuple[str, str, bytes]] = [
    ("PUT", "/config/log_level", b""),
    ("PUT", "/config/log_level", b"loud"),
    ("PUT", "/config/log_level", b"WARN"),
    ("GET", "/config/log_level", b""),
    ("PUT", "/config/log_level", b"info"),
    ("PUT", "/config/log_level", b"x" * (1024 * 1024 + 1)),
    ("PUT", "/config/base_path", b"/x"),
    ("PUT", "/config/nope", b"x"),
    ("POST", "/config/log_level", b"info"),
    ("PUT", "/config/nsqlookupd_http_addresses", b"x"),
    ("PUT", "/config/nsqlookupd_http_addresses", b"{}"),
    ("PUT", "/config/nsqlookupd_http_addresses", b'"a"'),
    ("PUT", "/config/nsqlookupd_http_addresses", b"[1]"),
    ("PUT", "/config/nsqlookupd_http_addresses", b'["127.0.0.1:1"]'),
    ("GET", "/config/nsqlookupd_http_addresses", b""),
    ("GET", "/api/topics", b""),
]


async def test_configuration() -> None:
    async with stage(nsqds=1, lookupds=1) as both:
        for request in CONFIG:
            await both.compare(*request)


async def test_nsqds_in_place_of_nsqlookupds_create_topics() -> None:
    """nsqadmin creates nothing there."""
    async with stage(nsqds=1, direct=True) as both:
        for body in (b'{"topic":"new"}', b'{"topic":"new","channel":"c"}'):
            real = await both.ask(both.real, "POST", "/api/topics", body)
            assert real.status_code == (502 if b"channel" in body else 200)
            assert await both.compare_json("/api/topics") == {"topics": None, "message": ""}
        reply = await both.ask(both.own, "POST", "/api/topics", body)
        assert (reply.status_code, reply.json()) == (200, {"message": ""})
        assert (await both.compare_json("/api/topics/new/c"))["channel_name"] == "c"
