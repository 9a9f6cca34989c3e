"""The channel of a query: where it is created, and what is told if it is paused, missing or ephemeral."""

from __future__ import annotations

import logging
from collections.abc import Generator
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal

from nsq_anyio.errors import InvalidOption
from nsq_anyio.spark.depth import DepthClient, channel_depths
from nsq_anyio.spark.options import ReadOptions, batch_read_options, read_options
from nsq_anyio.spark.plan import Depth
from nsq_anyio.spark.stream_reader import NsqStreamReader

from ..real_servers import real_nsqlookupd
from .conftest import new_name
from .nsqds import Nsqd, Topic, registered, running_nsqd, wait_until
from .reading import options_of

LOGGER = "nsq_anyio.spark"

pytestmark = pytest.mark.timeout(60)


def reading(*nsqds: Nsqd, topic: str, create: str) -> ReadOptions:
    return read_options(
        {
            "topic": topic,
            "channel": "spark",
            "nsqd": ",".join(nsqd.tcp_address for nsqd in nsqds),
            "nsqdHttp": ",".join(nsqd.http_url for nsqd in nsqds),
            "createChannel": create,
        }
    )


def channels(nsqd: Nsqd, topic: str) -> bytes:
    return nsqd.request("GET", f"/stats?format=json&topic={topic}&include_mem=false")


def test_ephemeral_channel_is_refused() -> None:
    given = {"topic": "t", "channel": "spark#ephemeral", "nsqd": "127.0.0.1:4150"}
    with pytest.raises(InvalidOption, match="'spark#ephemeral' is not valid: nsqd deletes"):
        read_options(given)
    with pytest.raises(InvalidOption, match="deletes an #ephemeral channel"):
        batch_read_options({**given, "peek": "true"})


def test_nothing_is_created_unless_wanted(nsqd: Nsqd) -> None:
    topic = new_name()
    nsqd.publish(topic, [b"x"] * 3)
    with pytest.raises(InvalidOption, match=f"no nsqd has the channel spark of topic {topic}"):
        channel_depths(reading(nsqd, topic=topic, create="false"))
    assert b"spark" not in channels(nsqd, topic)
    missing = new_name()
    with pytest.raises(InvalidOption, match="createChannel=false"):
        channel_depths(reading(nsqd, topic=missing, create="false"))
    assert missing.encode() not in channels(nsqd, missing)


def test_an_nsqd_without_the_channel_is_left_out(
    real_nsqd: Nsqd, embedded_nsqd: Nsqd, caplog: pytest.LogCaptureFixture
) -> None:
    topic = real_nsqd.topic(new_name())
    topic.publish_numbers(4)
    embedded_nsqd.publish(topic.name, [b"x"])
    caplog.set_level(logging.WARNING, LOGGER)
    with DepthClient(reading(real_nsqd, embedded_nsqd, topic=topic.name, create="false")) as asked:
        for _ in range(2):
            assert asked.ask() == [Depth(real_nsqd.tcp_address, 4), Depth(embedded_nsqd.tcp_address, 0)]
    assert caplog.text.count(f"nsqd {embedded_nsqd.tcp_address}: it has topic {topic.name}, but not") == 1


@pytest.fixture(scope="module")
def cluster() -> Generator[tuple[str, Nsqd, Nsqd]]:
    """The URL of an nsqlookupd, and two nsqds that register there."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(real_nsqlookupd()) as lookupd:
        flags = [f"--lookupd-tcp-address={lookupd.tcp_address}"]
        with running_nsqd("real", flags) as first, running_nsqd("real", flags) as second:
            yield lookupd.http_url, first, second


def test_everywhere_includes_nsqds_without_the_topic(cluster: tuple[str, Nsqd, Nsqd]) -> None:
    lookupd, first, second = cluster
    topic = first.topic(new_name()).name
    given = {"topic": topic, "channel": "spark", "nsqlookupd": lookupd}
    wait_until(lambda: registered(lookupd, topic) == 1, "nsqd to register the topic")
    channel_depths(read_options(given))
    assert topic.encode() not in channels(second, topic), "by default only where the topic is"
    channel_depths(read_options({**given, "createChannel": "everywhere"}))
    assert Topic(second, topic, "spark").state().depth == 0


def test_nsqlookupd_does_not_hear_of_a_channel_that_must_not_be_created(
    cluster: tuple[str, Nsqd, Nsqd],
) -> None:
    lookupd, first, _ = cluster
    topic = new_name()
    given = {"topic": topic, "channel": "spark", "nsqlookupd": lookupd, "createChannel": "false"}
    assert channel_depths(read_options(given)) == []
    first.publish(topic, [b"x"])
    wait_until(lambda: registered(lookupd, topic), "nsqd to register the topic")
    with pytest.raises(InvalidOption, match="no nsqd has the channel"):
        channel_depths(read_options(given))


def test_pause_is_told_once_and_shown_in_the_progress(
    nsqd: Nsqd, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    topic = nsqd.topic(new_name())
    topic.publish_numbers(5)
    of_channel = f"topic={topic.name}&channel={topic.channel}"
    caplog.set_level(logging.WARNING, LOGGER)
    reader = NsqStreamReader(options_of(topic, spoolDir=tmp_path, pollInterval=0.01))
    start = reader.initialOffset()
    try:
        for kind, where in (("channel", of_channel), ("topic", f"topic={topic.name}")):
            nsqd.request("POST", f"/{kind}/pause?{where}")
            for _ in range(2):
                reader.latestOffset(start, reader.getDefaultReadLimit())
            assert (reader.reportLatestOffset() or {})["paused"] == {nsqd.tcp_address: kind}
            assert caplog.text.count("is paused, so its messages wait") == 1
            nsqd.request("POST", f"/{kind}/unpause?{where}")
            reader.latestOffset(start, reader.getDefaultReadLimit())
            assert "paused" not in (reader.reportLatestOffset() or {})
            assert caplog.text.count("deliver again") == 1
            caplog.clear()
    finally:
        reader.stop()
