"""``/metrics`` and compression of the application."""

from __future__ import annotations

import gzip
import sys

import anyio
import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from nsq_anyio.admin import AdminOptions, app

from .test_application import asking, cluster

pytestmark = pytest.mark.anyio

OPTIONS = AdminOptions(poll_interval=0.05, base_path="/nsq", allowed_hosts=["admin"])


async def scraped(client: httpx.AsyncClient, path: str = "/nsq/metrics") -> dict[str, list[dict[str, str]]]:
    """The labels of each sample, by its name."""
    reply = await client.get(path)
    assert reply.status_code == 200
    found: dict[str, list[dict[str, str]]] = {}
    for family in text_string_to_metric_families(reply.text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample.labels)
    return found


async def test_the_metrics_are_those_of_the_last_view() -> None:
    async with cluster() as (url, nsqd), app(url, options=OPTIONS) as application:
        async with asking(application) as client:
            with anyio.fail_after(10):
                while "nsq_channel_depth_messages" not in (found := await scraped(client)):  # noqa: ASYNC110
                    await anyio.sleep(0.05)
            name = nsqd.tcp_address
            assert found["nsq_channel_depth_messages"] == [
                {"topic": "clicks", "channel": "archive", "nsqd": name}
            ]
            assert found["nsq_nsqd_registration_lag_seconds"] == [{"nsqd": name, "nsqlookupd": url}]
            summed = await scraped(client, "/nsq/metrics?nsqds=sum")
            assert summed["nsq_channel_depth_messages"] == [{"topic": "clicks", "channel": "archive"}]


async def test_what_it_refuses() -> None:
    async with app("127.0.0.1:1", options=OPTIONS) as application, asking(application) as client:
        assert (await client.get("/nsq/metrics?nsqds=each")).json() == {"message": "INVALID_ARG_NSQDS"}
        reply = await client.get("/nsq/metrics", headers={"Host": "evil.example"})
        assert (reply.status_code, reply.json()) == (403, {"message": "INVALID_HOST"})
        assert (await client.post("/nsq/metrics")).status_code == 404
        assert (await client.get("/metrics")).status_code == 404


async def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.startswith("nsq_anyio.instrumentation.prometheus")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    async with app("127.0.0.1:1", options=OPTIONS) as application, asking(application) as client:
        reply = await client.get("/nsq/metrics")
        assert reply.status_code == 501
        assert "pip install 'nsq-anyio[prometheus]'" in reply.text
        assert (await client.get("/nsq/ping")).text == "OK"


async def test_responses_are_compressed_but_not_streams() -> None:
    async with cluster() as (url, _), app(url, options=OPTIONS) as application:
        async with asking(application) as client:
            for path, kind in (("/nsq/", "text/html"), ("/nsq/api/topics/clicks", "application/json")):
                with anyio.fail_after(10):
                    while len((await client.get(path)).content) < 1024:  # noqa: ASYNC110 - until there is enough
                        await anyio.sleep(0.05)
                async with client.stream("GET", path, headers={"Accept-Encoding": "gzip"}) as reply:
                    raw = b"".join([chunk async for chunk in reply.aiter_raw()])
                    assert reply.headers["content-type"].startswith(kind)
                    assert reply.headers["content-encoding"] == "gzip"
                    assert "Accept-Encoding" in reply.headers["vary"]
                    assert int(reply.headers["content-length"]) == len(raw)
                    assert len(gzip.decompress(raw)) >= 1024
                reply = await client.get(path, headers={"Accept-Encoding": "identity"})
                assert "content-encoding" not in reply.headers
            reply = await client.get("/nsq/metrics", headers={"Accept-Encoding": "gzip"})
            assert reply.headers["content-encoding"] == "gzip"
            assert "nsq_nsqd_up" in reply.text
