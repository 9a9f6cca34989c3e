"""The application as ASGI servers and hosts call it, on embedded servers."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest

import nsq_anyio as nsq
from nsq_anyio.admin import Admin, AdminOptions, app
from nsq_anyio.serving.http_messages import Request, Response
from nsq_anyio.serving.http_server import serve_http
from nsq_anyio.serving.listener import local_port, open_listener
from nsq_anyio.tasks import background_tasks

pytestmark = pytest.mark.anyio

Asked = Callable[..., Awaitable[httpx.Response]]


class Below(httpx.ASGITransport):
    """Calls an application as a host does that mounted it at ``root``."""

    def __init__(self, application: Admin, root: str = "", *, path_has_root: bool = True) -> None:
        async def mounted(
            scope: MutableMapping[str, Any],
            receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
            send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
        ) -> None:
            path = scope["path"] if path_has_root else scope["path"].removeprefix(root)
            await application({**scope, "path": path, "root_path": root}, receive, send)

        super().__init__(app=mounted, client=("127.0.0.1", 1234))


@asynccontextmanager
async def asking(application: Admin, root: str = "", **how: bool) -> AsyncGenerator[httpx.AsyncClient]:
    transport = Below(application, root, **how)
    headers = {"Content-Type": "application/json"}
    async with httpx.AsyncClient(transport=transport, base_url="http://admin", headers=headers) as client:
        yield client


@asynccontextmanager
async def cluster() -> AsyncGenerator[tuple[str, nsq.embedded.EmbeddedNsqd]]:
    """An nsqlookupd's URL, and an nsqd with a topic and a channel."""
    async with (
        nsq.embedded.nsqlookupd() as lookupd,
        nsq.embedded.nsqd(lookupd_tcp_addresses=[lookupd.tcp_address]) as nsqd,
        nsq.http.Nsqd(nsqd.http_url) as http,
        nsq.http.Nsqlookupd(lookupd.http_url) as lookup,
    ):
        await http.create_topic("clicks")
        await http.create_channel("clicks", "archive")
        with anyio.fail_after(10):
            while not await lookup.channels("clicks"):  # noqa: ASYNC110 - nsqlookupd tells nobody
                await anyio.sleep(0.01)
        yield lookupd.http_url, nsqd


@asynccontextmanager
async def http_server(answer: Callable[[Request], Awaitable[Response]]) -> AsyncGenerator[str]:
    async with await open_listener("127.0.0.1", 0) as listener, background_tasks() as tasks:
        tasks.start_soon(serve_http, listener, answer)
        yield f"http://127.0.0.1:{local_port(listener)}"


@pytest.mark.parametrize("auth_discovered", [False, True])
async def test_nsqlookupds_that_config_names_get_no_headers(
    auth_discovered: bool, caplog: pytest.LogCaptureFixture
) -> None:
    seen: dict[str, set[str | None]] = {"given": set(), "named later": set()}

    def answering(name: str) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            seen[name].add(request.headers.get("x-token"))
            return Response(200, b'{"topics":[],"producers":[]}')

        return answer

    options = AdminOptions(headers={"X-Token": "t0ken"}, auth_discovered=auth_discovered)
    async with http_server(answering("given")) as given, http_server(answering("named later")) as later:
        async with app(given, options=options) as application, asking(application) as client:
            for urls in ([given, later], [later, given.removeprefix("http://")]):
                reply = await client.put("/config/nsqlookupd_http_addresses", content=json.dumps(urls))
                assert reply.status_code == 200
                assert (await client.get("/api/topics")).status_code == 200
    assert seen == {"given": {"t0ken"}, "named later": {"t0ken" if auth_discovered else None}}
    assert ("see --auth-discovered" in caplog.text) is not auth_discovered


async def test_it_needs_neither_lifespan_nor_block() -> None:
    async with cluster() as (url, nsqd), asking(app(url)) as client:
        for _ in range(2):
            reply = await client.get("/api/topics")
            assert reply.json() == {"topics": ["clicks"], "message": ""}
            assert reply.headers["x-content-type-options"] == "nosniff"
        name = nsqd.http_url.removeprefix("http://")
        assert (await client.get(f"/api/nodes/{name}")).json()["node"] == name


@pytest.mark.parametrize("path_has_root", [True, False])
async def test_it_is_mounted_below_a_path(path_has_root: bool) -> None:
    async with cluster() as (url, _), asking(app(url), "/nsq", path_has_root=path_has_root) as client:
        assert (await client.get("/nsq/api/topics")).json()["topics"] == ["clicks"]
        reply = await client.get("/nsq/api/topics/")
        assert (reply.status_code, reply.headers["location"]) == (301, "/nsq/api/topics")


async def test_the_base_path_has_no_way_out() -> None:
    options = AdminOptions(base_path="nsq//admin/")
    async with app("127.0.0.1:1", options=options) as application, asking(application) as client:
        assert (await client.get("/nsq/admin/ping")).text == "OK"
        assert (await client.get("/nsq/admin/config/base_path")).text == "/nsq/admin"
        for path in ("/ping", "/nsq/ping", "/nsq/adminping", "/other/ping"):
            assert (await client.get(path)).status_code == 404, path
        for path in ("/nsq/admin/%2e%2e/ping", "/nsq/admin/..%2fping", "/nsq/admin/%2e%2e/%2e%2e/ping"):
            reply = await client.get(path)
            assert (reply.status_code, reply.headers.get("location")) == (404, None), path
        reply = await client.get("/nsq/%2e%2e/nsq/admin/ping")
        assert reply.headers.get("location") == "/nsq/admin/ping"


async def test_lifespan() -> None:
    sent: list[str] = []
    events = iter(["lifespan.startup", "lifespan.shutdown"])

    async def receive() -> dict[str, object]:
        return {"type": next(events)}

    async def send(event: MutableMapping[str, Any]) -> None:
        sent.append(event["type"])

    await app("127.0.0.1:1")({"type": "lifespan"}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    with pytest.raises(ValueError, match="websocket"):
        await app("127.0.0.1:1")({"type": "websocket"}, receive, send)


PAUSE = b'{"action":"pause"}'


async def test_only_administrators_act() -> None:
    options = AdminOptions(admin_users=["ann"], acl_http_header="X-User")
    async with cluster() as (url, nsqd), app(url, options=options) as application:
        async with asking(application) as client:
            path = "/api/topics/clicks/archive"
            refused: list[list[tuple[str, str]]] = [
                [],
                [("X-User", "bob")],
                [("X-User", "Ann")],
                [("X-User", "")],
                [("X-User", "ann"), ("X-User", "bob")],
                [("X-User", "bob"), ("x-user", "ann")],
                [("X-User", "ann"), ("x-USER", "ann")],
                [("X_User", "ann")],
                [("X-Forwarded-User", "ann")],
            ]
            for headers in refused:
                for method, where, body in (
                    ("POST", path, PAUSE),
                    ("POST", "/api/topics", b'{"topic":"t"}'),
                    ("POST", "/api/topics/clicks", PAUSE),
                    ("DELETE", path, b""),
                    ("DELETE", "/api/topics/clicks", b""),
                    ("DELETE", "/api/nodes/a:1", b'{"topic":"clicks"}'),
                ):
                    sent = [("Content-Type", "application/json"), *headers]
                    reply = await client.request(method, where, content=body, headers=sent)
                    assert (reply.status_code, reply.json()) == (403, {"message": "FORBIDDEN"}), headers
            assert (await client.get(path)).json()["paused"] is False
            reply = await client.post(path, content=PAUSE, headers={"x-user": "ann"})
            assert reply.json() == {"message": ""}
            assert (await client.get(path)).json()["paused"] is True
    del nsqd


async def test_no_form_of_another_site_acts() -> None:
    async with cluster() as (url, _), app(url) as application:
        transport = Below(application)
        async with httpx.AsyncClient(transport=transport, base_url="http://admin") as client:
            for kind in (
                None,
                "text/plain",
                "application/x-www-form-urlencoded",
                "multipart/form-data; boundary=application/json",
                "text/plain; application/json",
            ):
                headers: dict[str, str] = {} if kind is None else {"Content-Type": kind}
                reply = await client.post("/api/topics/clicks", content=PAUSE, headers=headers)
                assert reply.status_code == 200, kind  # a script: a browser names the origin
                headers |= {"Origin": "http://evil.example"} if kind else {"Sec-Fetch-Site": "cross-site"}
                for path in ("/api/topics", "/api/topics/clicks", "/api/topics/clicks/archive"):
                    reply = await client.post(path, content=PAUSE, headers=headers)
                    assert reply.status_code == 415, (kind, path)
                    assert reply.json() == {"message": "INVALID_CONTENT_TYPE"}
            for good in ({"Content-Type": "Application/JSON; charset=utf-8"}, {"X-Requested-With": "curl"}):
                from_page = {**good, "Origin": "http://admin"}
                reply = await client.post("/api/topics/clicks", content=PAUSE, headers=from_page)
                assert reply.status_code == 200, good


async def test_only_allowed_hosts_are_served() -> None:
    options = AdminOptions(allowed_hosts=["nsq.example.com", "::1"])
    async with cluster() as (url, _), app(url, options=options) as application:
        async with asking(application) as client:
            for host, status in (
                ("nsq.example.com", 200),
                ("NSQ.example.com:4171", 200),
                ("[::1]:4171", 200),
                ("nsq.example.com.evil.org", 403),
                ("evil.org", 403),
                ("", 403),
            ):
                for path in ("/api/topics", "/config/log_level"):
                    assert (await client.get(path, headers={"Host": host})).status_code == status, host
                assert (await client.get("/ping", headers={"Host": host})).status_code == 200


async def test_only_known_nodes_are_asked() -> None:
    asked: list[str] = []

    async def trap(request: Request) -> Response:
        asked.append(request.target.path)
        return Response(200, b"{}")

    async with (
        cluster() as (url, _),
        app(url) as application,
        asking(application) as client,
        await open_listener("127.0.0.1", 0) as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(serve_http, listener, trap)
        node = f"127.0.0.1:{local_port(listener)}"
        for name in (node, f"x@{node}", f"{node}%23", "169.254.169.254:80"):
            for method, body in (("GET", b""), ("DELETE", b'{"topic":"clicks"}')):
                reply = await client.request(method, f"/api/nodes/{name}", content=body)
                assert (reply.status_code, reply.json()) == (404, {"message": "NODE_NOT_FOUND"})
        tasks.cancel_scope.cancel()
    assert asked == []


async def test_names_are_checked() -> None:
    async with cluster() as (url, _), app(url) as application, asking(application) as client:
        for path, code in (
            ("/api/topics/a%20b", "INVALID_TOPIC"),
            ("/api/topics/clicks/%3Cscript%3E", "INVALID_CHANNEL"),
            ("/api/topics/a%26topic=b/c", "INVALID_TOPIC"),
            ("/api/topics/" + "x" * 65, "INVALID_TOPIC"),
        ):
            for method, body in (("GET", b""), ("POST", PAUSE), ("DELETE", b"")):
                reply = await client.request(method, path, content=body)
                assert (reply.status_code, reply.json()) == (400, {"message": code})


async def test_bodies_are_bounded() -> None:
    async with app("127.0.0.1:1") as application, asking(application) as client:
        for body in (b"[" * 30_000, b'{"topic":1}', b"[]", b"\xff", b"x"):
            reply = await client.post("/api/topics", content=body)
            assert (reply.status_code, set(reply.json())) == (400, {"message"}), body[:10]
        reply = await client.post("/api/topics", content=b" " * 65537)
        assert (reply.status_code, reply.json()) == (413, {"message": "BODY_TOO_BIG"})


async def test_huge_and_slow_answers_are_bounded() -> None:
    async def endless(request: Request) -> Response:
        if request.target.path == "/topics":
            return Response(200, b'{"topics":["' + b"x" * (65 << 20) + b'"]}')
        await anyio.sleep_forever()
        raise AssertionError

    async with (
        await open_listener("127.0.0.1", 0) as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(serve_http, listener, endless)
        options = AdminOptions(timeout=1.5)
        url = f"http://127.0.0.1:{local_port(listener)}"
        async with app(url, options=options) as application, asking(application) as client:
            with anyio.fail_after(10):
                for path, reason in (
                    ("/api/topics", "max_reply_size|no answer"),
                    ("/api/nodes", "no answer"),
                ):
                    reply = await client.get(path)
                    assert reply.status_code == 502
                    assert any(word in reply.json()["message"] for word in reason.split("|"))
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("cidr", "client", "status"),
    [
        ("127.0.0.1/8", ("127.9.9.9", 1), 200),
        ("127.0.0.1/8", ("::ffff:127.0.0.1", 1), 200),
        ("127.0.0.1/8", ("10.0.0.1", 1), 403),
        ("127.0.0.1/8", ("::1", 1), 403),
        ("127.0.0.1/8", None, 400),
        ("fe80::/10", ("fe80::1%eth0", 1), 200),
        ("", ("10.0.0.1", 1), 200),
        ("", None, 200),
    ],
)
async def test_the_configuration_is_for_a_network(
    cidr: str, client: tuple[str, int] | None, status: int
) -> None:
    application = app("127.0.0.1:1", options=AdminOptions(allow_config_from_cidr=cidr))

    async def called(scope: Any, receive: Any, send: Any) -> None:
        await application({**scope, "client": client}, receive, send)

    transport = httpx.ASGITransport(app=called)
    async with httpx.AsyncClient(transport=transport, base_url="http://admin") as http:
        for method in ("GET", "PUT"):
            reply = await http.request(method, "/config/log_level", content=b"info")
            assert reply.status_code == status


async def test_nsqlookupds_are_replaced_under_requests() -> None:
    async with cluster() as (url, _), app("127.0.0.1:1") as application, asking(application) as client:
        assert (await client.get("/api/topics")).status_code == 502
        path = "/config/nsqlookupd_http_addresses"
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(client.get, "/api/topics")
            reply = await client.put(path, content=json.dumps([url]))
            assert reply.json() == [url]
        assert (await client.get("/api/topics")).json()["topics"] == ["clicks"]
        for value in (b"[]", b'["ftp://x"]', b"null", b'[""]'):
            assert (await client.put(path, content=value)).status_code == 400
        reply = await client.put(path, content=b'["http://user:secret@127.0.0.1:1?token=secret"]')
        assert reply.json() == ["http://127.0.0.1:1"]


@pytest.mark.parametrize(
    "options",
    [
        {"base_path": "/a b"},
        {"base_path": "/a?b"},
        {"admin_users": "ann"},
        {"admin_users": [""]},
        {"admin_users": [" "]},
        {"acl_http_header": "X User"},
        {"allow_config_from_cidr": "127.0.0.1"},
        {"allow_config_from_cidr": "x/8"},
        {"allowed_hosts": "a"},
        {"allowed_hosts": [""]},
        {"notification_http_endpoint": "ftp://x"},
        {"timeout": 0},
    ],
)
def test_options_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(nsq.InvalidOption):
        AdminOptions(**options)


def test_servers_are_checked() -> None:
    for nsqlookupd, nsqd in (((), ()), ("a:1", "b:1"), ("ftp://x", ())):
        with pytest.raises(nsq.InvalidOption):
            app(nsqlookupd, nsqd)
