"""Pages and polls: pages wait for the first, are rendered once for each, and are not charged to them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest

from nsq_anyio.admin.access import Access
from nsq_anyio.admin.actions import Actions
from nsq_anyio.admin.notifications import Notifications
from nsq_anyio.admin.options import AdminOptions
from nsq_anyio.admin.pages.pages import Pages
from nsq_anyio.admin.pages.request import Context
from nsq_anyio.admin.upstream import Upstream
from nsq_anyio.monitoring import Watch
from nsq_anyio.serving.http_messages import Request, Response, Target
from nsq_anyio.serving.nsq_router import Router

from ..http.fake_cluster import FakeCluster, channel, lookupd, nsqd, topic

pytestmark = pytest.mark.anyio

INTERVAL = 0.4


@asynccontextmanager
async def site(
    topics: int, channels: int, interval: float = INTERVAL
) -> AsyncGenerator[tuple[Watch, Router[Response]]]:
    """The pages of a cluster with so many topics, and channels in each."""
    found = [topic(f"t{n}", [channel(f"c{m}", depth=m) for m in range(channels)]) for n in range(topics)]
    fake = FakeCluster({"l1": lookupd("n1"), "n1": nsqd("n1", *found)})
    options = AdminOptions(poll_interval=interval)
    access = Access(options)
    async with fake.cluster(["l1"]) as cluster, Watch(cluster, interval=interval) as watch:
        upstream = Upstream(("http://127.0.0.1:9",), (), options)
        actions = Actions(access, Notifications(None, options.timeout))
        pages = Pages(options.base, Context(options, access, actions, upstream, watch), watch)
        yield watch, Router(pages.routes, base=options.base)  # type: ignore[arg-type]


async def get(pages: Router[Response], path: str) -> Response:
    reply = await pages(Request("GET", Target.parse(path), {}))
    assert reply.status == 200
    return reply


async def test_twenty_pages_a_second_do_not_stretch_the_interval() -> None:
    async with site(topics=10, channels=1) as (watch, pages):
        asked = 0
        view = await watch.after(None)
        while view.number < 6:
            # No two are the same page, so each is rendered.
            asked += 1
            await get(pages, f"/topics?q=t&asked={asked}")
            await anyio.sleep(0.05)
            view = await watch.after(None)
            assert view.interval == INTERVAL
    assert asked > 10


async def test_a_page_is_rendered_once_for_a_poll() -> None:
    async with site(topics=1, channels=1, interval=0.5) as (watch, pages):
        bodies: list[bytes] = []

        async def ask() -> None:
            bodies.append((await get(pages, "/topics")).body)

        before = await watch.after(None)
        for _ in range(2):
            await watch.after(watch.last)
            async with anyio.create_task_group() as tasks:
                for _ in range(20):
                    tasks.start_soon(ask)
        assert before is not watch.last
        assert len({id(body) for body in bodies}) == 2


async def test_polls_of_a_large_cluster_are_stretched() -> None:
    async with site(topics=1000, channels=10) as (watch, _):
        with anyio.fail_after(30):
            view = await watch.after(None)
            while view.interval == INTERVAL:
                view = await watch.after(view)
        assert view.number == 2


async def test_before_the_first_poll_has_ended_pages_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nsq_anyio.admin.pages.pages._FIRST_POLL", 0.0)
    async with site(topics=1, channels=1) as (_, pages):
        reply = await pages(Request("GET", Target.parse("/"), {}))
        assert reply.status == 503
        assert b"The first poll is still under way" in reply.body
        assert b"no answer yet" in reply.body
