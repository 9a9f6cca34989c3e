"""Asking nsqds what waits: real ones and the embedded one, found by hand or through a real nsqlookupd."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import anyio
import pytest
from anyio.from_thread import start_blocking_portal

from nsq_anyio.http import ClusterFailed
from nsq_anyio.spark import depth
from nsq_anyio.spark.bounded_reader import bounded_reader
from nsq_anyio.spark.depth import DepthClient, channel_depths
from nsq_anyio.spark.options import ReadOptions, read_options
from nsq_anyio.spark.plan import Depth

from ..real_servers import real_nsqlookupd
from .conftest import new_name
from .nsqds import Nsqd, Topic, registered, running_nsqd, wait_until
from .reading import options_of

LOGGER = "nsq_anyio.spark"


def reading(*nsqds: Nsqd, topic: str, channel: str = "spark") -> ReadOptions:
    return read_options(
        {
            "topic": topic,
            "channel": channel,
            "nsqd": ",".join(nsqd.tcp_address for nsqd in nsqds),
            "nsqdHttp": ",".join(nsqd.http_url for nsqd in nsqds),
        }
    )


def test_what_waits_counts_and_what_is_in_flight_does_not(topic: Topic) -> None:
    topic.publish_numbers(70)
    assert channel_depths(options_of(topic)) == [Depth(topic.nsqd.tcp_address, 70)]

    async def hold_some() -> list[Depth]:
        async with bounded_reader(options_of(topic), topic.nsqd.tcp_address, 20) as reader:
            held = 0
            while chunk := await reader.take():
                held += len(chunk)
            assert held == 20
            return await anyio.to_thread.run_sync(channel_depths, options_of(topic))

    assert anyio.run(hold_some) == [Depth(topic.nsqd.tcp_address, 50)]


def test_channel_that_is_missing_is_created_and_gets_what_the_topic_kept(nsqd: Nsqd) -> None:
    topic = new_name()
    nsqd.publish(topic, [b"before"] * 3)
    assert channel_depths(reading(nsqd, topic=topic)) == [Depth(nsqd.tcp_address, 3)]
    nsqd.publish(topic, [b"after"] * 2)
    found = Topic(nsqd, topic, "spark")
    wait_until(lambda: found.state().depth == 5, "nsqd to copy messages to the channel")
    assert channel_depths(reading(nsqd, topic=topic)) == [Depth(nsqd.tcp_address, 5)]


def test_new_channel_is_told_once(nsqd: Nsqd, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever reads it for the first time finds nothing."""
    caplog.set_level(logging.WARNING, LOGGER)
    topic = nsqd.topic(new_name())
    options = reading(nsqd, topic=topic.name, channel="new")
    for _ in range(2):
        channel_depths(options)
    assert caplog.text.count(f"channel new of topic {topic.name} is new at nsqd {nsqd.tcp_address}") == 1


def test_topic_that_is_missing_is_created_so_that_nothing_is_missed(nsqd: Nsqd) -> None:
    topic = new_name()
    assert channel_depths(reading(nsqd, topic=topic)) == [Depth(nsqd.tcp_address, 0)]
    nsqd.publish(topic, [b"after"])
    found = Topic(nsqd, topic, "spark")
    wait_until(lambda: found.state().depth == 1, "nsqd to copy the message to the channel")


def test_paused_channel_and_topic_deliver_nothing(nsqd: Nsqd) -> None:
    topic = nsqd.topic(new_name())
    topic.publish_numbers(5)
    nsqd.request("POST", f"/channel/pause?topic={topic.name}&channel={topic.channel}")
    assert channel_depths(options_of(topic)) == [Depth(nsqd.tcp_address, 0)]
    paused = new_name()
    nsqd.publish(paused, [b"x"])
    nsqd.request("POST", f"/topic/pause?topic={paused}")
    assert channel_depths(reading(nsqd, topic=paused)) == [Depth(nsqd.tcp_address, 0)]


def test_several_nsqds_are_asked(real_nsqd: Nsqd, embedded_nsqd: Nsqd) -> None:
    name = new_name()
    real_nsqd.topic(name).publish_numbers(4)
    embedded_nsqd.topic(name).publish_numbers(6)
    assert channel_depths(reading(embedded_nsqd, real_nsqd, topic=name)) == [
        Depth(embedded_nsqd.tcp_address, 6),
        Depth(real_nsqd.tcp_address, 4),
    ]


def test_one_of_several_that_is_down_counts_as_empty_and_is_logged(
    real_topic: Topic, unreachable: str, caplog: pytest.LogCaptureFixture
) -> None:
    real_topic.publish_numbers(4)
    options = read_options(
        {
            "topic": real_topic.name,
            "channel": real_topic.channel,
            "nsqd": f"{unreachable},{real_topic.nsqd.tcp_address}",
            "nsqdHttp": f"http://{unreachable},{real_topic.nsqd.http_url}",
        }
    )
    with caplog.at_level(logging.WARNING, LOGGER):
        assert channel_depths(options) == [Depth(unreachable, 0), Depth(real_topic.nsqd.tcp_address, 4)]
    (record,) = [record for record in caplog.records if record.name == LOGGER]
    assert unreachable in record.getMessage()


@pytest.mark.parametrize("kind", ["nsqd", "nsqlookupd"])
def test_all_that_are_down_are_named(kind: str, unreachable: str) -> None:
    servers = {"nsqd": {"nsqd": "127.0.0.1:1", "nsqdHttp": f"http://{unreachable}"}}
    servers["nsqlookupd"] = {"nsqlookupd": f"http://{unreachable}"}
    with pytest.raises(ClusterFailed, match=unreachable) as caught:
        channel_depths(read_options({"topic": "t", "channel": "c", **servers[kind]}))
    assert f"no {kind} answered" in str(caught.value)
    assert ("nsqdHttp" in str(caught.value)) == (kind == "nsqd")


@contextmanager
def looked_up(flags: list[str]) -> Generator[tuple[str, Nsqd]]:
    """A nsqlookupd's URL, and an nsqd that registers there."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(real_nsqlookupd()) as lookupd,
        running_nsqd("real", [*flags, f"--lookupd-tcp-address={lookupd.tcp_address}"]) as nsqd,
    ):
        yield lookupd.http_url, nsqd


def test_nsqlookupd_tells_which_nsqds_have_the_topic(
    unreachable: str, caplog: pytest.LogCaptureFixture
) -> None:
    with looked_up([]) as (lookupd, nsqd):
        name = new_name()
        options = read_options(
            {"topic": name, "channel": "spark", "nsqlookupd": f"{lookupd},http://{unreachable}"}
        )
        with caplog.at_level(logging.WARNING, LOGGER):
            assert channel_depths(options) == [], "nobody has the topic yet"
        assert any(unreachable in record.getMessage() for record in caplog.records)
        # Its channel is known from now on, so an nsqd creates it before the first message is in the topic.
        nsqd.publish(name, [b"first", b"second"])
        wait_until(lambda: registered(lookupd, name), "nsqd to register the topic")
        found = Topic(nsqd, name, "spark")
        wait_until(lambda: found.state().depth == 2, "nsqd to copy messages to the channel")
        assert channel_depths(options) == [Depth(nsqd.tcp_address, 2)]


def test_nsqd_that_nsqlookupd_lists_wrongly_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    with looked_up(["--broadcast-address=no such host"]) as (lookupd, nsqd):
        name = new_name()
        nsqd.topic(name)
        wait_until(lambda: registered(lookupd, name), "nsqd to register the topic")
        options = read_options({"topic": name, "channel": "spark", "nsqlookupd": lookupd})
        with caplog.at_level(logging.WARNING, LOGGER):
            assert channel_depths(options) == []
        assert any("no such host" in record.getMessage() for record in caplog.records)


def test_connections_are_kept_between_questions(real_nsqd: Nsqd, embedded_nsqd: Nsqd) -> None:
    """An idle query asks for as long as it runs."""
    topic = new_name()
    for nsqd in (real_nsqd, embedded_nsqd):
        nsqd.topic(topic)
    before = sockets()
    with DepthClient(reading(real_nsqd, embedded_nsqd, topic=topic)) as asked:
        asked.ask()
        first = sockets() - before
        assert first
        for _ in range(3):
            assert [depth.rows for depth in asked.ask()] == [0, 0]
        assert sockets() - before == first
        copy = pickle.loads(pickle.dumps(asked))
        assert copy.ask() == asked.ask()
        copy.close()
    assert not sockets() - before, "closed at the end"


def test_nsqd_that_goes_and_comes_back_is_told_once_each_time(
    real_nsqd: Nsqd, caplog: pytest.LogCaptureFixture
) -> None:
    topic = real_nsqd.topic(new_name()).name
    caplog.set_level(logging.WARNING, LOGGER)
    with running_nsqd("real") as other:
        other.topic(topic)
        asked = DepthClient(reading(real_nsqd, other, topic=topic))
        asked.ask()
    for _ in range(3):
        asked.ask()
    asked.close()
    assert caplog.text.count("counts as empty until it answers") == 1


def test_the_only_nsqd_is_away_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as stopping, ThreadPoolExecutor(1) as tasks:
        old = stopping.enter_context(running_nsqd("real"))
        old.topic("only")
        with DepthClient(reading(old, topic="only")) as asked:
            asked.ask()
            stopping.close()
            monkeypatch.setattr(depth, "PATIENCE", 0.5)
            with pytest.raises(ClusterFailed, match=old.http_address):
                asked.ask()
            monkeypatch.undo()
            asking = tasks.submit(asked.ask)
            with pytest.raises(TimeoutError):
                asking.result(2)
            flags = [f"--tcp-address={old.tcp_address}", f"--http-address={old.http_address}"]
            with running_nsqd("real", flags):
                assert asking.result(20) == [Depth(old.tcp_address, 0)]


def test_the_only_nsqlookupd_is_away_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as stopping:
        portal = stopping.enter_context(start_blocking_portal())
        lookupd = stopping.enter_context(portal.wrap_async_context_manager(real_nsqlookupd()))
        flags = [f"--lookupd-tcp-address={lookupd.tcp_address}", "--broadcast-address=127.0.0.1"]
        with running_nsqd("real", flags) as nsqd:
            topic = nsqd.topic(new_name())
            wait_until(lambda: registered(lookupd.http_url, topic.name), "nsqd to register the topic")
            options = {"topic": topic.name, "channel": topic.channel, "nsqlookupd": lookupd.http_url}
            with DepthClient(read_options(options)) as asked:
                asked.ask()
                stopping.close()
                topic.publish_numbers(3)
                assert asked.ask() == [Depth(nsqd.tcp_address, 3)]
                monkeypatch.setattr(depth, "PATIENCE", 0)
                with pytest.raises(ClusterFailed, match="no nsqlookupd answered"):
                    asked.ask()


def sockets() -> set[str]:
    """The sockets of this process."""
    found: set[str] = set()
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.add(str(link.readlink()))
    return {target for target in found if target.startswith("socket:")}
