"""The history of an application survives its restart."""

from __future__ import annotations

from pathlib import Path

import anyio
import httpx
import pytest

import nsq_anyio as nsq
from nsq_anyio.admin import AdminOptions, app
from nsq_anyio.monitoring import HistoryFileUnusable

pytestmark = pytest.mark.anyio


async def test_a_restart_keeps_the_history(tmp_path: Path) -> None:
    options = AdminOptions(poll_interval=0.05, history_file=tmp_path / "history.sqlite")
    async with nsq.embedded.nsqd() as nsqd, nsq.http.Nsqd(nsqd.http_url) as server:
        await server.publish("clicks", b"waits")
        times: list[float] = []
        with anyio.fail_after(20):
            async with app(nsqd=nsqd.http_url, options=options) as application:
                while not times:
                    await anyio.sleep(0.02)  # the transport does not wait for anything itself
                    times = await known(application)
        await server.delete_topic("clicks")
        async with app(nsqd=nsqd.http_url, options=options) as application:
            assert set(times) <= set(await known(application))


async def known(application: object) -> list[float]:
    """The times of which the application knows how the topic fared."""
    transport = httpx.ASGITransport(application)  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport, base_url="http://nsq") as client:
        reply = await client.get("/history", params={"topic": "clicks"})
    times: list[float] = reply.json()["times"]
    return times


async def test_a_file_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    path.write_bytes(b"no database " * 200)
    with pytest.raises(HistoryFileUnusable, match=r"history\.sqlite"):
        async with app(nsqd="http://127.0.0.1:9", options=AdminOptions(history_file=path)):
            pytest.fail("it has started")
