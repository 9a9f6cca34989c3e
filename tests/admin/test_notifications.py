"""Notifications of actions: what they say, and that no action waits for them."""

import base64
import json
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from nsq_anyio.admin import AdminOptions, app
from nsq_anyio.serving.http_messages import Request, Response
from nsq_anyio.serving.http_server import serve_http
from nsq_anyio.serving.listener import local_port, open_listener

from .test_application import PAUSE, asking, cluster

pytestmark = pytest.mark.anyio

LIMIT = 10.0


class Endpoint:
    """Notes what it is told, and answers when it may."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self.status = 200
        self.may_answer = anyio.Event()
        self.url = ""
        self._heard = anyio.Event()

    async def answer(self, request: Request) -> Response:
        assert request.method == "POST"
        assert request.headers["content-type"] == "application/json"
        self.told.append(json.loads(await request.read(10_000)))
        self._heard.set()
        await self.may_answer.wait()
        return Response(self.status)

    async def until(self, count: int) -> None:
        with anyio.fail_after(LIMIT):
            while len(self.told) < count:
                self._heard = anyio.Event()
                await self._heard.wait()


@asynccontextmanager
async def endpoint() -> AsyncGenerator[Endpoint]:
    async with await open_listener("127.0.0.1", 0) as listener, anyio.create_task_group() as tasks:
        found = Endpoint()
        found.url = f"http://127.0.0.1:{local_port(listener)}/hook"
        tasks.start_soon(serve_http, listener, found.answer)
        yield found
        tasks.cancel_scope.cancel()


async def test_each_action_is_told() -> None:
    async with cluster() as (url, nsqd), endpoint() as hook:
        hook.may_answer.set()
        options = AdminOptions(notification_http_endpoint=hook.url)
        node = nsqd.http_url.removeprefix("http://")
        pair = base64.b64encode(b"ann:secret").decode()
        async with app(url, options=options) as application, asking(application, "/nsq") as client:
            client.headers.update(
                {"Authorization": f"Basic {pair}", "User-Agent": "tests", "X-Scheme": "https"}
            )
            await client.post("/nsq/api/topics", content=b'{"topic":"t","channel":"c"}')
            for action in ("pause", "unpause", "empty"):
                body = json.dumps({"action": action})
                await client.post("/nsq/api/topics/clicks", content=body)
                await client.post("/nsq/api/topics/clicks/archive?x=1", content=body)
            await client.delete("/nsq/api/topics/clicks/archive")
            await client.request("DELETE", f"/nsq/api/nodes/{node}", content=b'{"topic":"clicks"}')
            await client.delete("/nsq/api/topics/t")
            await client.post("/nsq/api/topics/unknown", content=PAUSE)
            await hook.until(12)
        assert [each["action"] for each in hook.told] == [
            "create_topic",
            "create_channel",
            "pause_topic",
            "pause_channel",
            "unpause_topic",
            "unpause_channel",
            "empty_topic",
            "empty_channel",
            "delete_channel",
            "tombstone_topic_producer",
            "delete_topic",
            "pause_topic",
        ]
        told = hook.told[3]
        assert abs(told.pop("timestamp") - time.time()) < LIMIT
        assert told.pop("via")
        assert told == {
            "action": "pause_channel",
            "topic": "clicks",
            "channel": "archive",
            "user": "ann",
            "remote_ip": "127.0.0.1:1234",
            "user_agent": "tests",
            "url": "https://admin/nsq/api/topics/clicks/archive?x=1",
        }
        assert hook.told[9]["node"] == node


async def test_no_action_waits_for_it() -> None:
    async with cluster() as (url, _), endpoint() as hook:
        options = AdminOptions(notification_http_endpoint=hook.url)
        with anyio.fail_after(LIMIT):
            async with app(url, options=options) as application, asking(application) as client:
                for _ in range(3):
                    reply = await client.post("/api/topics/clicks", content=PAUSE)
                    assert reply.status_code == 200
                await hook.until(1)


async def test_failures_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with cluster() as (url, _), endpoint() as hook:
        hook.may_answer.set()
        hook.status = 500
        for where in (hook.url, "http://127.0.0.1:1/hook"):
            options = AdminOptions(notification_http_endpoint=where)
            with caplog.at_level(logging.ERROR, "nsq_anyio.admin"):
                async with app(url, options=options) as application, asking(application) as client:
                    assert (await client.post("/api/topics/clicks", content=PAUSE)).status_code == 200
            assert f"not accepted by {where}" in caplog.text


async def test_without_a_block_they_are_posted_after_the_response() -> None:
    async with cluster() as (url, _), endpoint() as hook:
        hook.may_answer.set()
        options = AdminOptions(notification_http_endpoint=hook.url)
        async with asking(app(url, options=options)) as client:
            await client.post("/api/topics/clicks", content=PAUSE)
        await hook.until(1)
