"""Pages of servers that run: consumers, a node that goes down, and what a poll changes."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import httpx
import pytest

import nsq_anyio as nsq
from nsq_anyio.admin import AdminOptions, app

from .test_application import Below, cluster

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def watched(**servers: str) -> AsyncGenerator[httpx.AsyncClient]:
    options = AdminOptions(poll_interval=0.05, timeout=2)
    async with app(**servers, options=options) as application:
        async with httpx.AsyncClient(transport=Below(application), base_url="http://admin") as client:
            yield client


async def until(client: httpx.AsyncClient, path: str, pattern: str) -> str:
    """Ask for a page until it has what is awaited; each poll may change it."""
    with anyio.fail_after(20):
        while True:
            page = (await client.get(path)).text
            if re.search(pattern, page):
                return page
            await anyio.sleep(0.02)


async def test_a_channel_lists_its_consumers() -> None:
    async with cluster() as (url, nsqd), watched(nsqlookupd=url) as client:
        page = await until(client, "/topics/clicks/archive", "No consumer is connected")
        async with nsq.consume(
            "clicks",
            "archive",
            nsqd=nsqd.tcp_address,
            max_in_flight=7,
            connection=nsq.ConnectionOptions(
                client_id="reader-1", hostname="box", user_agent="<i>agent</i>", snappy=True, sample_rate=42
            ),
        ) as consumer:
            await consumer.ready()
            page = await until(client, "/topics/clicks/archive", "reader-1")
            assert ">box<" in page
            assert "&lt;i&gt;agent&lt;/i&gt;" in page
            assert "snappy" in page
            assert "sample of 43 %" in page  # nsqd sends one percent more
            assert (await client.get("/topics/clicks/archive?q=nobody")).text.count("reader-1") == 0
            assert "reader-1" in (await client.get("/topics/clicks/archive?q=AGENT+box")).text


async def test_what_a_channel_holds_appears_with_the_next_poll() -> None:
    async with cluster() as (url, nsqd), watched(nsqlookupd=url) as client:
        await until(client, "/", "Nothing is stuck")
        async with nsq.produce(nsqd=nsqd.tcp_address) as producer:
            await producer.publish_many("clicks", [b"x"] * 1234)
        await until(client, "/", "No consumer is connected, and 1,234 messages wait")
        part = await client.get("/topics", headers={"HX-Request": "true"})
        assert ">1,234</td>" in part.text


async def test_a_node_that_is_down_is_said_to_be() -> None:
    async with nsq.embedded.nsqd() as nsqd, watched(nsqd=nsqd.http_url) as client:
        await until(client, "/nodes", r"1 nsqd\b")
    async with watched(nsqd=nsqd.http_url) as client:
        page = await until(client, "/", "does not answer")
        assert "1 of 1 nsqd did not answer" in page
        name = nsqd.http_url.removeprefix("http://")
        assert "What it holds is not known" in (await client.get(f"/nodes/{name}")).text


async def test_an_nsqlookupd_that_is_down_is_said_to_be() -> None:
    async with watched(nsqlookupd="http://127.0.0.1:9") as client:
        await until(client, "/lookup", "no answer")
        page = await until(client, "/", "This nsqlookupd does not answer")
        assert "1 of 1 nsqlookupd did not answer" in page
