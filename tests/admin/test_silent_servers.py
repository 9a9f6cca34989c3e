"""A dashboard of servers that accept connections and never answer: real sockets."""

from __future__ import annotations

import re
import socket
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from itertools import count

import anyio
import httpx
import pytest

import nsq_anyio as nsq
from nsq_anyio.admin import AdminOptions, app
from nsq_anyio.serving.http_messages import Request, Response
from nsq_anyio.serving.http_server import serve_http
from nsq_anyio.serving.listener import local_port, open_listener
from nsq_anyio.serving.nsq_api import error_response, json_response
from nsq_anyio.tasks import background_tasks

from .. import virtual_time
from .test_application import Below, cluster

anyio_backend = virtual_time.anyio_backend
pytestmark = pytest.mark.anyio

SILENT = r"silent for \d+ s"


@contextmanager
def silent_ports(number: int) -> Generator[list[int]]:
    """Listen on ports: the kernel accepts connections, and nobody reads."""
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(number)]
        yield [listener.getsockname()[1] for listener in listeners]


@asynccontextmanager
async def naming(ports: Sequence[int]) -> AsyncGenerator[str]:
    """An nsqlookupd that knows nsqds at these ports, which have a topic that no other has."""
    numbers = count(1)
    producers = [
        {
            "broadcast_address": "127.0.0.1",
            "hostname": f"silent-{next(numbers)}",
            "http_port": port,
            "tcp_port": port,
            "version": "1.3.0",
            "topics": ["other"],
            "tombstones": [False],
        }
        for port in ports
    ]

    async def answer(request: Request) -> Response:
        if request.target.path == "/lookup":
            return error_response(404, "TOPIC_NOT_FOUND")
        topics = {"topics": ["other"]}
        return json_response({"producers": producers} if request.target.path == "/nodes" else topics)

    async with await open_listener("127.0.0.1", 0) as listener, background_tasks() as tasks:
        tasks.start_soon(serve_http, listener, answer)
        yield f"http://127.0.0.1:{local_port(listener)}"


@asynccontextmanager
async def dashboard(*nsqlookupds: str, nsqd: Sequence[str] = ()) -> AsyncGenerator[httpx.AsyncClient]:
    application = app(nsqlookupds, nsqd, options=AdminOptions(poll_interval=0.5))
    async with application:
        transport = Below(application)
        async with httpx.AsyncClient(transport=transport, base_url="http://admin", timeout=30) as client:
            yield client


async def polls(client: httpx.AsyncClient) -> int:
    """How many polls there were."""
    found = re.search(r"(?m)^nsq_exporter_surveys_total (\d+)", (await client.get("/metrics")).text)
    return int(found[1]) if found else 0


@pytest.mark.parametrize("silent", [1, 130])
async def test_what_answers_is_shown_and_acted_on_at_once(silent: int) -> None:
    async with cluster() as (url, nsqd), nsq.http.Nsqd(nsqd.http_url) as http:
        with silent_ports(silent) as ports:
            async with naming(ports) as other, dashboard(url, other) as client:
                with anyio.fail_after(6):  # a busy machine is given time
                    page = (await client.get("/topics")).text
                    assert "/topics/clicks" in page
                page = (await client.get("/nodes")).text
                assert re.search(SILENT, page)
                with anyio.fail_after(3):
                    reply = await client.post("/api/topics/clicks", json={"action": "pause"})
                    assert reply.status_code == 200
                assert (await http.stats()).topics[0].paused
                began = await polls(client)
                with anyio.fail_after(8):
                    while await polls(client) < began + 3:  # noqa: ASYNC110 - each poll tells nobody
                        await anyio.sleep(0.05)


async def test_a_silent_nsqlookupd_hides_nobody() -> None:
    async with cluster() as (url, _):
        with silent_ports(1) as (port,):
            async with dashboard(url, f"http://127.0.0.1:{port}") as client:
                with anyio.fail_after(6):  # a busy machine is given time
                    assert "/topics/clicks" in (await client.get("/topics")).text
                with anyio.fail_after(3):
                    page = (await client.get("/lookup")).text
                assert re.search(SILENT, page)


@pytest.mark.parametrize("kind", ["nsqlookupd", "nsqd"])
async def test_an_action_waits_less_for_servers_that_were_silent(kind: str) -> None:
    silent = 1 if kind == "nsqlookupd" else 130
    async with cluster() as (url, nsqd), nsq.http.Nsqd(nsqd.http_url) as http:
        with silent_ports(silent) as ports:
            others = [f"http://127.0.0.1:{port}" for port in ports]
            lookups, nsqds = ([url, *others], []) if kind == "nsqlookupd" else ([], [nsqd.http_url, *others])
            async with dashboard(*lookups, nsqd=nsqds) as client:
                await client.get("/topics")
                with anyio.fail_after(6):
                    reply = await client.post("/api/topics/clicks", json={"action": "pause"})
                assert "no answer within 2 s" in reply.json()["message"]
        assert (await http.stats()).topics[0].paused


async def test_the_first_page_comes_though_nobody_answers() -> None:
    with silent_ports(1) as (port,):
        async with dashboard(f"http://127.0.0.1:{port}") as client:
            with anyio.fail_after(6):  # a busy machine is given time
                reply = await client.get("/")
            assert reply.status_code == 200
            assert re.search(SILENT, reply.text)
