"""The embedded nsqd shows the latencies, and tells statsd the lines, that the real one does."""

import re
import socket
from collections import Counter
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import anyio
import httpx
import pytest

from nsq_anyio import embedded
from tests.embedded.raw_client import raw_client
from tests.real_servers import real_nsqd

pytestmark = pytest.mark.anyio

LIMIT = 60.0
PAUSE = 0.4
"""Seconds between two FINs, far more than a server takes for one."""
PACKET_SIZE = 200
INTERVAL = 1.5
"""Seconds. The real one needs more than 1."""
PERCENTILES = [1.0, 0.99, 0.5]
MEMORY_ONLY_OF_GO = {
    *("mem.heap_idle_bytes", "mem.heap_in_use_bytes", "mem.heap_released_bytes", "mem.next_gc_bytes"),
    *("mem.gc_pause_usec_100", "mem.gc_pause_usec_99", "mem.gc_pause_usec_95"),
}

Line = tuple[str, int, str]
"""Name, value and type."""


@dataclass
class Observed:
    """What one server said; an interval is a list of packets."""

    stats: dict[str, Any] = field(default_factory=dict[str, Any])
    text: str = ""
    finished_at: list[float] = field(default_factory=list[float])
    intervals: list[list[str]] = field(default_factory=list[list[str]])


@contextmanager
def receiver() -> Generator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        udp.setblocking(False)
        yield udp


@asynccontextmanager
async def real_server(statsd: str, options: dict[str, Any]) -> AsyncGenerator[tuple[str, str]]:
    flags = [
        f"--statsd-address={statsd}",
        f"--statsd-interval={INTERVAL}s",
        f"--statsd-udp-packet-size={PACKET_SIZE}",
        "--broadcast-address=a.b",
        *(f"--e2e-processing-latency-percentile={each}" for each in PERCENTILES),
        *(f"--{name.replace('_', '-')}={str(value).lower()}" for name, value in options.items()),
    ]
    async with real_nsqd(flags=flags) as nsqd:
        yield nsqd.tcp_address, nsqd.http_url


@asynccontextmanager
async def embedded_server(statsd: str, options: dict[str, Any]) -> AsyncGenerator[tuple[str, str]]:
    made = embedded.NsqdOptions(
        statsd_address=statsd,
        statsd_interval=INTERVAL,
        statsd_udp_packet_size=PACKET_SIZE,
        e2e_processing_latency_percentiles=PERCENTILES,
        **options,
    )
    async with embedded.nsqd(options=made, broadcast_address="a.b") as nsqd:
        yield nsqd.tcp_address, nsqd.http_url


async def observe(server: Any, options: dict[str, Any], observed: Observed) -> None:
    with receiver() as udp, anyio.fail_after(LIMIT):
        async with server(f"127.0.0.1:{udp.getsockname()[1]}", options) as (tcp_address, http_url):
            async with (
                httpx.AsyncClient(trust_env=False, base_url=http_url) as http,
                raw_client(tcp_address) as client,
            ):
                for target in (
                    *("topic/create?topic=empty", "topic/create?topic=t"),
                    *("channel/create?topic=t&channel=c", "channel/create?topic=t&channel=d%23ephemeral"),
                    "pub?topic=u%23ephemeral",
                ):
                    assert (await http.post(f"/{target}", content=b"xyz")).status_code == 200
                await client.negotiate()
                await client.subscribe("t", "c", rdy=20)
                await http.post("/mpub?topic=t", content=b"\n".join([b"body"] * 12))
                messages = await client.messages(12)
                for message in messages[:10]:
                    await anyio.sleep(PAUSE)
                    await client.fin(message)
                    observed.finished_at.append(anyio.current_time())
                await client.req(messages[10], 60_000)
                await client.settle()
                query = "include_mem=false&include_clients=false"
                observed.stats = (await http.get(f"/stats?format=json&{query}")).json()
                observed.text = (await http.get(f"/stats?{query}")).text
                # The client stays subscribed while statsd is told, with one message in flight.
                await listen(udp, observed.intervals)


async def listen(udp: socket.socket, intervals: list[list[str]]) -> None:
    """Receive what is there, and then until an interval is complete that begins after this call."""
    started_before: int | None = None
    while started_before is None or len(intervals) < started_before + 2:
        try:
            packet = udp.recv(65_536).decode()
        except BlockingIOError:
            if started_before is None:
                started_before = len(intervals)
            await anyio.wait_readable(udp)
            continue
        if ".topic.empty.message_count:" in packet:  # the first of all names
            intervals.append([])
        if intervals:
            intervals[-1].append(packet)


async def observe_both(**options: Any) -> tuple[Observed, Observed]:
    """At the same time, so that both take about the same time."""
    real, own = Observed(), Observed()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(observe, real_server, options, real)
        tasks.start_soon(observe, embedded_server, options, own)
    return real, own


def lines(packets: list[str]) -> list[Line]:
    """Names without the prefix, which has a port of its own."""
    found: list[Line] = []
    for text in "".join(packets).splitlines():
        match = re.fullmatch(r"nsq\.a_b_\d+\.(.+):(-?\d+)\|([a-z]+)", text)
        assert match, text
        found.append((match[1], int(match[2]), match[3]))
    return found


def without_latencies(stats: Any, latencies: list[tuple[int, list[int]]]) -> Any:
    """``stats`` with the values of percentiles put aside."""
    for topic in stats["topics"]:
        for each in (topic, *topic["channels"]):
            latency = each["e2e_processing_latency"]
            percentiles = latency["percentiles"] or ()
            latencies.append((latency["count"], [percentile.pop("value") for percentile in percentiles]))
    return {**stats, "start_time": 0}


async def test_latencies_are_shown_alike() -> None:
    real, own = await observe_both()
    values: tuple[list[tuple[int, list[int]]], ...] = ([], [])
    assert without_latencies(own.stats, values[1]) == without_latencies(real.stats, values[0])
    for (real_count, expected), (own_count, found) in zip(*values, strict=True):
        assert own_count == real_count
        assert [value > 0 for value in found] == [value > 0 for value in expected]
    for observed, (count, (largest, p99, median)) in ((real, values[0][-3]), (own, values[1][-3])):
        assert (count, p99) == (10, largest)
        # For the median of ten nsqd takes the seventh.
        between = observed.finished_at[9] - observed.finished_at[6]
        assert (largest - median) / 1e9 == pytest.approx(between, abs=PAUSE / 2)
    assert [len(each) for each in e2e(own.text)] == [len(each) for each in e2e(real.text)]
    assert layout(own.text) == layout(real.text)


def e2e(text: str) -> list[list[str]]:
    """The latencies of each line that has some."""
    return [re.findall(r"\d+\.\d(?:ns|us|ms|s)\b", line) for line in text.splitlines() if "e2e%: " in line]


def layout(text: str) -> list[str]:
    """The lines of topics and channels without latencies."""
    return [re.sub(r"\d+\.\d(ns|us|ms|s)\b", "?", line) for line in text.splitlines() if "e2e%: " in line]


async def test_statsd_is_told_alike() -> None:
    real, own = await observe_both()
    # The last interval has only begun.
    expected, found = (lines(observed.intervals[-2]) for observed in (real, own))
    common = [line for line in expected if line[0] not in MEMORY_ONLY_OF_GO]
    assert [(name, kind) for name, _, kind in found] == [(name, kind) for name, _, kind in common]
    assert len(common) < len(expected)
    # Counters are the sums over all intervals; gauges are the last values.
    assert totals(own) == totals(real)
    for observed in (real, own):
        for packets in observed.intervals[:-1]:
            for packet, following in pairwise(packets):
                assert len(packet) <= PACKET_SIZE
                assert len(packet) + len(following.partition("\n")[0]) + 1 > PACKET_SIZE


def totals(observed: Observed) -> dict[str, int]:
    found: Counter[str] = Counter()
    for packets in observed.intervals[:-1]:
        for name, value, kind in lines(packets):
            if "latency" in name:
                found[name] = value > 0
            elif not name.startswith("mem."):
                found[name] = value + (found[name] if kind == "c" else 0)
    return found


async def test_statsd_is_told_nothing_of_what_is_excluded() -> None:
    real, own = await observe_both(statsd_exclude_ephemeral=True, statsd_mem_stats=False)
    expected, found = (lines(observed.intervals[-2]) for observed in (real, own))
    assert [(name, kind) for name, _, kind in found] == [(name, kind) for name, _, kind in expected]
    assert totals(own) == totals(real)
    assert not [name for name, _, _ in found if "#" in name or name.startswith("mem.")]
