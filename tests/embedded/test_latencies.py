"""Latencies from publish to FIN: their window, and what ``/stats`` tells of them."""

from typing import Any

import anyio
import httpx
import pytest

from nsq_anyio import embedded
from nsq_anyio.embedded import NsqdOptions
from nsq_anyio.embedded.nsqd.latencies import Latencies, merged_percentiles
from tests.embedded.raw_client import raw_client

pytestmark = pytest.mark.anyio

TEN_MINUTES = 600.0
HALF = TEN_MINUTES / 2


def count(latencies: Latencies, now: float) -> int:
    return latencies.percentiles(now).count


def test_halves_of_the_window_are_forgotten_in_turn() -> None:
    latencies = Latencies([0.5], TEN_MINUTES, now=1000.0)
    latencies.insert(7, 1000.0)
    latencies.insert(7, 1000.0 + HALF)
    assert count(latencies, 1000.0 + HALF) == 2
    latencies.insert(9, 1001.0 + HALF)
    assert count(latencies, 1000.0 + 2 * HALF) == 3
    assert count(latencies, 1001.0 + 2 * HALF) == 1
    assert latencies.percentiles(1000.0 + 3 * HALF).values == ((0.5, 9),)
    assert count(latencies, 1001.0 + 3 * HALF) == 0


@pytest.mark.parametrize("halves", [2, 3, 4, 5, 10**9])
def test_a_long_silence_forgets_everything_at_once(halves: int) -> None:
    latencies = Latencies([0.5], TEN_MINUTES, now=0.0)
    latencies.insert(7, 0.0)
    latencies.insert(7, HALF + 1)
    now = (halves + 1) * HALF + 1
    assert count(latencies, now) == 0
    latencies.insert(8, now)
    assert count(latencies, now + HALF - 2) == 1
    assert count(latencies, now + HALF) == 1
    assert count(latencies, now + 2 * HALF) == 0


def test_channels_together() -> None:
    parts = [Latencies([1.0, 0.5], TEN_MINUTES, now=0.0) for _ in range(3)]
    for i in range(100):
        parts[i % 2].insert(i, 3.0 * i)
    whole = merged_percentiles(parts, 310.0)
    assert (whole.count, whole.values[0]) == (100, (1.0, 99))
    assert abs(whole.values[1][1] - 50) <= 5
    # The first half of the time, to 300, is forgotten alike in all of them.
    assert merged_percentiles(parts, 601.0).count == 0


async def get(http_url: str, target: str) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False, base_url=http_url) as http:
        return await http.get(target)


async def latency_stats(http_url: str, query: str = "") -> list[dict[str, Any]]:
    """Of topic t, then of its channels."""
    stats = (await get(http_url, f"/stats?format=json&topic=t{query}")).json()
    (topic,) = stats["topics"]
    return [each["e2e_processing_latency"] for each in (topic, *topic["channels"])]


async def test_fins_are_measured_per_channel_and_topic() -> None:
    options = NsqdOptions(e2e_processing_latency_percentiles=(1.0, 0.5))
    async with embedded.nsqd(options=options) as nsqd:
        async with raw_client(nsqd.tcp_address) as client:
            await client.negotiate()
            await client.subscribe("t", "b", rdy=5)
            nsqd.topics["t"].get_channel("a")
            for _ in range(3):
                nsqd.topics["t"].publish([b"x"])
            messages = await client.messages(3)
            await client.fin(messages[0])
            await anyio.sleep(0.05)
            await client.fin(messages[1])
            await client.req(messages[2], 60_000)
            await client.fin(messages[0])
            assert b"E_FIN_FAILED" in await client.error()
        topic, a, b = await latency_stats(nsqd.http_url)
        assert a == {"count": 0, "percentiles": [{"quantile": 1, "value": 0}, {"quantile": 0.5, "value": 0}]}
        assert topic == b
        assert (b["count"], [each["quantile"] for each in b["percentiles"]]) == (2, [1, 0.5])
        assert all(isinstance(each["value"], int) for each in b["percentiles"])
        assert 50_000_000 <= b["percentiles"][0]["value"] < 60_000_000_000
        # As in nsqd, the topic's are those of all its channels, whichever are asked for.
        assert await latency_stats(nsqd.http_url, "&channel=a") == [topic, a]
        text = (await get(nsqd.http_url, "/stats?include_mem=false")).text
        lines = [line.partition("e2e%: ")[2] for line in text.splitlines() if "e2e%: " in line]
        assert len(lines) == 3
        assert lines[0] == lines[2]
        assert lines[1] == "0.0ns, 0.0ns"
        assert lines[0].partition(", ")[0].endswith("s")


async def test_without_percentiles_nothing_is_measured() -> None:
    async with embedded.nsqd() as nsqd:
        async with raw_client(nsqd.tcp_address) as client:
            await client.negotiate()
            await client.subscribe("t", "a", rdy=1)
            nsqd.topics["t"].publish([b"x"])
            await client.fin(await client.message())
            await client.settle()
        assert nsqd.topics["t"].channels["a"].latencies is None
        assert await latency_stats(nsqd.http_url) == [{"count": 0, "percentiles": None}] * 2


async def test_a_topic_without_channels_has_no_latencies() -> None:
    async with embedded.nsqd(options=NsqdOptions(e2e_processing_latency_percentiles=[0.5])) as nsqd:
        async with raw_client(nsqd.tcp_address) as client:
            await client.publish("t", b"x")
        assert await latency_stats(nsqd.http_url) == [{"count": 0, "percentiles": None}]


async def test_latencies_are_forgotten_after_the_window() -> None:
    options = NsqdOptions(e2e_processing_latency_percentiles=[0.5], e2e_processing_latency_window_time=0.2)
    async with embedded.nsqd(options=options) as nsqd:
        async with raw_client(nsqd.tcp_address) as client:
            await client.negotiate()
            await client.subscribe("t", "a", rdy=1)
            nsqd.topics["t"].publish([b"x"])
            await client.fin(await client.message())
            await anyio.sleep(0.25)
        assert [each["count"] for each in await latency_stats(nsqd.http_url)] == [0, 0]
