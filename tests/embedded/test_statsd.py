"""What the embedded nsqd tells statsd, and when: lines, packets, intervals."""

import logging
import re
import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import anyio
import pytest

from nsq_anyio import embedded
from nsq_anyio.embedded import NsqdOptions
from nsq_anyio.embedded.identity import NsqdIdentity
from nsq_anyio.embedded.nsqd.statsd import StatsdLines, packets, statsd_prefix
from nsq_anyio.http import Nsqd as NsqdHttp
from tests import virtual_time
from tests.embedded.raw_client import raw_client

pytestmark = pytest.mark.anyio
anyio_backend = virtual_time.anyio_backend


@pytest.mark.parametrize(
    ("prefix", "host", "port", "made"),
    [
        ("nsq.%s", "127.0.0.1", 4151, "nsq.127_0_0_1_4151."),
        ("%s.nsqd.", "a.b-c", 1, "a_b-c_1.nsqd."),
        ("x", "h", 1, "x."),
        ("%s%s", "h", 1, "h_1h_1."),
        ("", "h", 1, ""),
        ("nsq.%s", "::1", 4151, "nsq.[__1]_4151."),
        ("nsq.%s", "h", 0, "nsq.h_0."),
    ],
)
def test_the_prefix_names_the_server(prefix: str, host: str, port: int, made: str) -> None:
    identity = NsqdIdentity(host, 4150, port, broadcast_tcp_port=4150, broadcast_http_port=port, started_at=0)
    assert statsd_prefix(prefix, identity) == made


def no_latency() -> dict[str, Any]:
    return {"count": 0, "percentiles": None}


def topic(name: str, count: int, *channels: dict[str, Any]) -> dict[str, Any]:
    return {
        "topic_name": name,
        "message_count": count,
        "message_bytes": 2 * count,
        "depth": 3,
        "backend_depth": 4,
        "channels": channels,
        "e2e_processing_latency": no_latency(),
    }


def channel(name: str, count: int) -> dict[str, Any]:
    return {
        "channel_name": name,
        "message_count": count,
        "depth": 5,
        "backend_depth": 6,
        "in_flight_count": 7,
        "deferred_count": 8,
        "requeue_count": 2 * count,
        "timeout_count": 3 * count,
        "client_count": 9,
        "e2e_processing_latency": no_latency(),
    }


def test_counters_count_from_the_last_interval() -> None:
    lines = StatsdLines("p.", exclude_ephemeral=False)
    first = lines.lines([topic("t", 10, channel("c", 4))], {"heap_objects": 5, "gc_runs": 6})
    assert first == [
        *(b"p.topic.t.message_count:10|c\n", b"p.topic.t.message_bytes:20|c\n"),
        *(b"p.topic.t.depth:3|g\n", b"p.topic.t.backend_depth:4|g\n"),
        *(b"p.topic.t.channel.c.message_count:4|c\n", b"p.topic.t.channel.c.depth:5|g\n"),
        *(b"p.topic.t.channel.c.backend_depth:6|g\n", b"p.topic.t.channel.c.in_flight_count:7|g\n"),
        *(b"p.topic.t.channel.c.deferred_count:8|g\n", b"p.topic.t.channel.c.requeue_count:8|c\n"),
        *(b"p.topic.t.channel.c.timeout_count:12|c\n", b"p.topic.t.channel.c.clients:9|g\n"),
        *(b"p.mem.heap_objects:5|g\n", b"p.mem.gc_runs:6|c\n"),
    ]
    second = lines.lines([topic("t", 13, channel("c", 4))], {"heap_objects": 4, "gc_runs": 7})
    assert second[0] == b"p.topic.t.message_count:3|c\n"
    assert second[4] == b"p.topic.t.channel.c.message_count:0|c\n"
    assert second[-2:] == [b"p.mem.heap_objects:4|g\n", b"p.mem.gc_runs:1|c\n"]
    assert lines.lines([], {}) == []
    assert lines.lines([topic("t", 2)], {})[0] == b"p.topic.t.message_count:2|c\n"


def test_what_is_made_again_counts_from_0() -> None:
    """Whether it has fewer messages by then, or more."""
    lines = StatsdLines("", exclude_ephemeral=False)
    lines.lines([topic("t", 10, channel("c", 4)), topic("c", 10)], {})
    lines.note_change("t", "c", False)
    lines.note_change("t", "c", True)
    made = lines.lines([topic("t", 10, channel("c", 5)), topic("c", 10)], {})
    assert {b"topic.t.message_count:0|c\n", b"topic.c.message_count:0|c\n"} < set(made)
    assert {b"topic.t.channel.c.message_count:5|c\n", b"topic.t.channel.c.requeue_count:10|c\n"} < set(made)
    lines.note_change("t", None, False)
    made = lines.lines([topic("t", 3, channel("c", 1)), topic("c", 11)], {})
    assert {b"topic.t.message_count:3|c\n", b"topic.t.channel.c.message_count:1|c\n"} < set(made)
    assert b"topic.c.message_count:1|c\n" in made


def test_a_message_that_could_not_be_written_after_all_makes_no_negative_counter() -> None:
    lines = StatsdLines("", exclude_ephemeral=False)
    counts = [lines.lines([topic("t", count)], {})[0] for count in (5, 4, 5, 7)]
    assert counts == [b"topic.t.message_count:%d|c\n" % count for count in (5, 0, 0, 2)]


def test_dots_in_names_confuse_no_counters() -> None:
    lines = StatsdLines("", exclude_ephemeral=False)
    for count in (10, 11):
        made = lines.lines([topic("a", 0, channel("b", count)), topic("a.channel.b", 100 * count)], {})
        found = [line for line in made if line.startswith(b"topic.a.channel.b.message_count:")]
    assert found == [b"topic.a.channel.b.message_count:%d|c\n" % added for added in (1, 100)]


def test_latencies_are_gauges_of_nanoseconds() -> None:
    each = topic("t", 0)
    percentiles = [{"quantile": quantile, "value": 5} for quantile in (1, 0.999, 0.995, 0.99, 0.055)]
    each["e2e_processing_latency"] = {"count": 1, "percentiles": percentiles}
    made = StatsdLines("", exclude_ephemeral=False).lines([each], {})[4:]
    # Rounded to whole percents, as nsqd does.
    assert made == [
        b"topic.t.e2e_processing_latency_%d:5|g\n" % percent for percent in (100, 100, 100, 99, 6)
    ]


def test_ephemeral_ones_can_be_left_out() -> None:
    topics = [
        topic("t", 1, channel("c#ephemeral", 1), channel("d", 1)),
        topic("u#ephemeral", 1, channel("d", 1)),
    ]
    names = {
        exclude: {
            line.partition(b":")[0] for line in StatsdLines("", exclude_ephemeral=exclude).lines(topics, {})
        }
        for exclude in (False, True)
    }
    assert len(names[False]) == 2 * 4 + 3 * 8
    assert names[True] == {name for name in names[False] if b"#" not in name}
    assert len(names[True]) == 4 + 8


def test_packets_are_full_and_never_cut_lines() -> None:
    lines = [b"12345\n", b"123\n", b"1\n", b"123456789012\n", b"1234\n", b"1\n"]
    assert packets(lines, 10) == [b"12345\n123\n", b"1\n", b"123456789012\n", b"1234\n1\n"]
    assert packets(lines, 1) == lines
    assert packets([], 10) == []


@contextmanager
def receiver() -> Generator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        udp.setblocking(False)
        yield udp


def address(udp: socket.socket) -> str:
    return f"127.0.0.1:{udp.getsockname()[1]}"


def received(udp: socket.socket) -> list[bytes]:
    found: list[bytes] = []
    while True:
        try:
            found.append(udp.recv(65_536))
        except BlockingIOError:
            return found


async def test_packets_come_at_each_interval_and_spread_over_it() -> None:
    with receiver() as udp:
        options = NsqdOptions(
            statsd_address=address(udp), statsd_udp_packet_size=1, statsd_mem_stats=False, statsd_prefix="p"
        )
        async with embedded.nsqd(options=options) as nsqd:
            await anyio.sleep(60.5)
            assert received(udp) == []  # no topic yet
            async with raw_client(nsqd.tcp_address) as client:
                await client.publish("t", b"x")
            await anyio.sleep(59.4)
            assert received(udp) == []
            await anyio.sleep(0.2)
            assert received(udp) == [b"p.topic.t.message_count:1|c\n"]
            await anyio.sleep(15)
            assert received(udp) == [b"p.topic.t.message_bytes:1|c\n"]
            await anyio.sleep(30)
            assert received(udp) == [b"p.topic.t.depth:1|g\n", b"p.topic.t.backend_depth:0|g\n"]
            await anyio.sleep(14)
            assert received(udp) == []
            async with raw_client(nsqd.tcp_address) as client, NsqdHttp(nsqd.http_url) as http:
                await http.delete_topic("t")
                await client.publish("t", b"x")
            await anyio.sleep(1)
            assert received(udp) == [b"p.topic.t.message_count:1|c\n"]
        # The end of the block does not wait for the pauses.
        assert len(received(udp)) == 3


async def test_without_room_for_pauses_all_packets_come_at_once() -> None:
    with receiver() as udp:
        options = NsqdOptions(statsd_address=address(udp), statsd_interval=0.5, statsd_udp_packet_size=1)
        async with embedded.nsqd(options=options):
            await anyio.sleep(1.7)
            found = [line.rpartition(b".")[2] for line in received(udp)]
        assert [re.sub(rb":\d+", b"", line) for line in found] == [b"heap_objects|g\n", b"gc_runs|c\n"] * 3


async def test_an_absent_statsd_is_logged_and_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    with receiver() as udp:
        gone = address(udp)
    caplog.set_level(logging.WARNING, "nsq_anyio.embedded")
    options = NsqdOptions(statsd_address=gone, statsd_interval=1.0, statsd_udp_packet_size=1)
    async with embedded.nsqd(options=options):
        await anyio.sleep(2.5)
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "1 of 2 packets cannot be sent to statsd"
    ] * 2


async def test_an_unknown_host_is_logged_and_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "nsq_anyio.embedded")
    host = "x" * 70  # too long for a name: nobody is asked
    async with embedded.nsqd(options=NsqdOptions(statsd_address=f"{host}:8125", statsd_interval=5.0)):
        await anyio.sleep(12)
    assert len(caplog.records) == 2
    assert all(
        record.getMessage().startswith(f"statistics cannot be sent to statsd at {host}:8125: ")
        for record in caplog.records
    )
