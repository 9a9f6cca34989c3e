"""Live views: events and history, over HTTP."""

import json
import re
import time

import anyio
import httpx
import pytest

from nsq_anyio.admin import Admin, AdminOptions, app
from nsq_anyio.serving.asgi_server import serve_asgi
from nsq_anyio.serving.listener import local_port, open_listener
from nsq_anyio.tasks import background_tasks

from .test_application import cluster

pytestmark = pytest.mark.anyio


async def test_viewers_get_events_and_history() -> None:
    async with cluster() as (url, _):
        application: Admin = app(url, options=AdminOptions(poll_interval=0.05, allowed_hosts=["127.0.0.1"]))
        async with (
            application,
            await open_listener("127.0.0.1", 0) as listener,
            background_tasks() as tasks,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{local_port(listener)}") as client,
        ):
            port = local_port(listener)
            tasks.start_soon(serve_asgi, listener, application)
            with anyio.fail_after(10):
                async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                    await stream.send(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                    sent = b""
                    while sent.count(b"event: poll") < 4:
                        sent += await stream.receive()
                head, _, events = sent.decode().partition("\r\n\r\n")
                assert "content-type: text/event-stream" in head.lower()
                assert "x-content-type-options: nosniff" in head.lower()
                numbers = [
                    json.loads(each)["number"] for each in re.findall(r"event: poll\n.*\ndata: (.*)", events)
                ]
                assert len(numbers) >= 3
                assert numbers == sorted(set(numbers))
                series = (await client.get("/history", params={"topic": "clicks"})).json()
                assert series["depth"][-1] == 0
                assert len(series["times"]) == len(series["depth"])
                assert (await client.get("/history", params={"topic": "none"})).json()["times"] == []
                refused = await client.get("/events", headers={"Host": "evil.example"})
                assert refused.status_code == 403


async def test_viewers_see_that_a_stream_lives_between_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nsq_anyio.admin.live.KEEP_ALIVE_INTERVAL", 0.05)
    monkeypatch.setattr("nsq_anyio.serving.asgi.KEEP_ALIVE_INTERVAL", 0.05)
    async with cluster() as (url, _):
        application = app(url, options=AdminOptions(poll_interval=60))
        async with (
            application,
            await open_listener("127.0.0.1", 0) as listener,
            background_tasks() as tasks,
            await anyio.connect_tcp("127.0.0.1", local_port(listener)) as stream,
        ):
            tasks.start_soon(serve_asgi, listener, application)
            began = time.time()
            await stream.send(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            sent = b""
            with anyio.fail_after(10):
                while sent.count(b"event: alive") < 4 or b"event: poll" not in sent:
                    sent += await stream.receive()
            events = re.findall(r"event: (\w+)\n(?:id: \d+\n)?data: (\{.*\})", sent.decode())
            assert events[0][0] == "alive"
            assert [kind for kind, _ in events].count("poll") == 1
            for kind, data in events:
                if kind == "alive":
                    assert json.loads(data)["within"] == 0.05
                    assert began - 1 <= json.loads(data)["time"] <= time.time()


async def test_an_application_that_is_not_open_has_no_live_views() -> None:
    async with (
        cluster() as (url, _),
        httpx.AsyncClient(transport=httpx.ASGITransport(app=app(url)), base_url="http://admin") as client,
    ):
        assert (await client.get("/history")).status_code == 404
