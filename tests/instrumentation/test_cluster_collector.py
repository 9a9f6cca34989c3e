"""The metrics of a cluster: which series there are, with which labels and values, in text that parses."""

from __future__ import annotations

import gzip
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

from nsq_anyio.errors import InvalidOption
from nsq_anyio.instrumentation.prometheus import (
    CLUSTER_METRICS,
    ClusterCollector,
    ClusterLabels,
    Exposition,
)
from nsq_anyio.monitoring import Poller, Snapshot

from .. import virtual_time
from ..http import samples
from ..http.fake_cluster import FakeCluster, Refused, channel, lookupd, nsqd, producer, topic

pytestmark = pytest.mark.anyio

anyio_backend = virtual_time.anyio_backend

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]
L1 = "http://l1:4161"


def running() -> FakeCluster:
    """Two nsqds, of which the second nsqlookupd knows one, with a topic of two channels, and another."""
    channels = [
        channel("archive", depth=5, backend_depth=4, message_count=1017, requeue_count=3, timeout_count=2),
        channel("tail#ephemeral", paused=False, client_count=2),
    ]
    known = producer("n1", topics=["clicks"], tombstones=[True])
    return FakeCluster(
        {
            "l1": {"/nodes": {"producers": [known, producer("n2", topics=["clicks"], tombstones=[False])]}},
            "l2": {"/nodes": {"producers": [known, {"broadcast_address": "", "http_port": 0}]}},
            "n1": nsqd("n1", topic("clicks", channels, message_count=7), topic("views", message_count=1)),
            "n2": nsqd("n2", topic("clicks", channels, message_count=8)),
        }
    )


@asynccontextmanager
async def collecting(
    fake: FakeCluster, nsqds: tuple[str, ...] = (), **labels: Any
) -> AsyncGenerator[tuple[Poller, ClusterCollector]]:
    chosen = ClusterLabels(**labels)
    async with fake.cluster(["l1", "l2"], nsqds) as cluster:
        async with Poller(cluster, interval=1.0, include_clients=chosen.clients) as poller:
            yield poller, ClusterCollector(poller, labels=chosen)


@dataclass
class Polled:
    """A poller that polls when the test says so, however long the thread takes that writes."""

    last: Snapshot | None = None


def series(families: Iterable[Metric]) -> Series:
    """All series, each of which is there once."""
    found: Series = {}
    for family in families:
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, key
            found[key] = sample.value
    return found


async def scraped(fake: FakeCluster, nsqds: tuple[str, ...] = (), **labels: Any) -> Series:
    async with collecting(fake, nsqds, **labels) as (poller, collector):
        await poller.after(None)
        return series(collector.collect())


def value(found: Series, name: str, **labels: str) -> float:
    return found[f"nsq_{name}", frozenset(labels.items())]


def labels_of(found: Series, name: str) -> list[dict[str, str]]:
    return [dict(labels) for known, labels in found if known == f"nsq_{name}"]


async def test_topics_and_channels_of_each_nsqd() -> None:
    found = await scraped(running())
    at = {"topic": "clicks", "channel": "archive", "nsqd": "n1:4150"}
    expected = {
        "depth_messages": 5,
        "backend_depth_messages": 4,
        "in_flight_messages": 7,
        "deferred_messages": 1,
        "clients": 0,
        "paused": 1,
        "messages_total": 1017,
        "messages_requeued_total": 3,
        "messages_timed_out_total": 2,
    }
    assert {name: value(found, f"channel_{name}", **at) for name in expected} == expected
    assert value(found, "channel_e2e_latency_seconds", **at, quantile="0.99") == 0.0015
    on = {"topic": "clicks", "nsqd": "n2:4150"}
    assert value(found, "topic_depth_messages", **on) == 9
    assert value(found, "topic_backend_depth_messages", **on) == 8
    assert value(found, "topic_channels", **on) == 2
    assert value(found, "topic_paused", **on) == 0
    assert value(found, "topic_messages_total", **on) == 8
    assert value(found, "topic_message_bytes_total", **on) == 100_000
    assert labels_of(found, "topic_e2e_latency_seconds") == []  # nsqd does not measure it
    assert labels_of(found, "client_rdy") == []


async def test_servers() -> None:
    fake = running()
    fake.answers["n2"]["/stats"] = Refused(500, "INTERNAL_ERROR")
    fake.answers["n1"]["/stats"]["health"] = "NOK - disk"
    found = await scraped(fake)
    assert value(found, "nsqd_up", nsqd="n1:4150") == 1
    assert value(found, "nsqd_healthy", nsqd="n1:4150") == 0
    assert value(found, "nsqd_start_time_seconds", nsqd="n1:4150") == samples.STATS["start_time"]
    info = {"nsqd": "n1:4150", "url": "http://n1:4151", "hostname": "n1", "version": "1.3.0"}
    assert value(found, "nsqd_info", **info) == 1
    assert value(found, "nsqd_up", nsqd="n2:4150") == 0
    assert labels_of(found, "nsqd_healthy") == [{"nsqd": "n1:4150"}]
    for nsqlookupd, nsqd_, is_known in (("l1", "n1", 1), ("l1", "n2", 1), ("l2", "n1", 1), ("l2", "n2", 0)):
        both = {"nsqd": f"{nsqd_}:4150", "nsqlookupd": f"http://{nsqlookupd}:4161"}
        assert value(found, "nsqd_registered", **both) == is_known
    assert value(found, "nsqd_unregistered_topics", nsqd="n1:4150", nsqlookupd=L1) == 1
    assert value(found, "topic_tombstoned", topic="clicks", nsqd="n1:4150") == 1
    assert len(labels_of(found, "topic_tombstoned")) == 1
    assert value(found, "nsqlookupd_up", nsqlookupd=L1) == 1
    assert value(found, "nsqlookupd_nsqds", nsqlookupd=L1) == 2
    assert value(found, "nsqlookupd_unusable_nsqds", nsqlookupd="http://l2:4161") == 1
    assert value(found, "exporter_surveys_total") == 1
    assert 0 < value(found, "nsqd_answer_duration_seconds", nsqd="n1:4150") < 1
    assert 0 < value(found, "exporter_survey_duration_seconds") < 1


async def test_nothing_is_said_about_registrations_at_an_nsqlookupd_that_is_down() -> None:
    fake = running()
    del fake.answers["l2"]
    found = await scraped(fake)
    assert value(found, "nsqlookupd_up", nsqlookupd="http://l2:4161") == 0
    assert {each["nsqlookupd"] for each in labels_of(found, "nsqd_registered")} == {L1}


async def test_the_lag_of_a_registration_grows_until_it_is_there() -> None:
    fake = running()
    async with collecting(fake) as (poller, collector):
        view = await poller.after(await poller.after(None))
        found = series(collector.collect())
        both = {"nsqd": "n2:4150", "nsqlookupd": "http://l2:4161"}
        assert value(found, "nsqd_registration_lag_seconds", **both) == pytest.approx(1.0, rel=0.1)
        assert value(found, "nsqd_registration_lag_seconds", nsqd="n2:4150", nsqlookupd=L1) == 0
        fake.answers["l2"] = lookupd("n1", "n2")
        await poller.after(await poller.after(view))
        assert value(series(collector.collect()), "nsqd_registration_lag_seconds", **both) == 0


async def test_sums_over_nsqds() -> None:
    fake = running()
    async with collecting(fake, by_nsqd=False) as (poller, collector):
        poll = await poller.after(None)
        at = {"topic": "clicks", "channel": "archive"}
        found = series(collector.collect())
        assert value(found, "channel_depth_messages", **at) == 10
        assert value(found, "channel_messages_total", **at) == 2034
        assert value(found, "topic_message_bytes_total", topic="clicks") == 200_000
        assert value(found, "nsqd_up", nsqd="n1:4150") == 1
        kept = fake.answers.pop("n2")
        poll = await poller.after(poll)
        found = series(collector.collect())
        assert value(found, "channel_depth_messages", **at) == 5
        assert value(found, "channel_messages_total", **at) == 2034
        fake.answers["n2"] = kept
        fake.answers["n1"] = nsqd("n1", topic("clicks", [channel("archive", message_count=5)]))
        await poller.after(poll)
        assert value(series(collector.collect()), "channel_messages_total", **at) == 2039


async def test_choice_of_topics_and_channels() -> None:
    fake = running()
    found = await scraped(fake, topics="clicks".__eq__, ephemeral=False)
    assert {each["topic"] for each in labels_of(found, "topic_paused")} == {"clicks"}
    assert {each["channel"] for each in labels_of(found, "channel_paused")} == {"archive"}
    found = await scraped(fake, topics="views".__eq__)
    assert labels_of(found, "channel_paused") == labels_of(found, "topic_tombstoned") == []


@pytest.mark.parametrize("by_nsqd", [True, False])
async def test_a_limit_leaves_the_last_ones_out_and_says_so(by_nsqd: bool) -> None:
    found = await scraped(running(), max_channels=2, by_nsqd=by_nsqd)
    shown = [*labels_of(found, "topic_paused"), *labels_of(found, "channel_paused")]
    assert len(shown) == 2
    assert {each["topic"] for each in shown} == {"clicks"}
    left_out = value(found, "exporter_left_out_channels")
    assert left_out == (5 if by_nsqd else 2)
    with pytest.raises(InvalidOption, match="max_channels"):
        ClusterLabels(max_channels=0)


async def test_clients() -> None:
    fake = running()
    clients = [samples.CLIENT, samples.CLIENT, {**samples.CLIENT, "remote_address": "127.0.0.1:40001"}]
    fake.answers["n1"] = nsqd("n1", topic("t", [channel("c", clients=clients)]))
    found = await scraped(fake, clients=True)
    at = {"topic": "t", "channel": "c", "nsqd": "n1:4150", "client": "worker", "address": "127.0.0.1:40000"}
    names = ("rdy", "in_flight_messages", "messages_total", "messages_finished_total")
    assert [value(found, f"client_{name}", **at) for name in names] == [200, 7, 1000, 990]
    assert value(found, "client_messages_requeued_total", **at) == 3
    assert len(labels_of(found, "client_rdy")) == 2


async def test_two_nsqds_of_one_address_and_one_of_none_have_different_labels() -> None:
    fake = running()
    fake.answers["a"] = nsqd("n1", topic())
    fake.answers["b"] = nsqd("n1", topic())
    found = await scraped(fake, ("a", "b", "down"))
    assert {each["nsqd"] for each in labels_of(found, "nsqd_up")} == {
        "http://a:4151",
        "http://b:4151",
        "down:4151",
        "n2:4150",
    }


async def test_hostile_names_and_numbers_give_text_that_parses() -> None:
    fake = running()
    odd = 'a"\n\\ \u2028\x00\x7f é{}'
    twice = [channel(odd, depth=-(2**63), message_count=2**64 - 1)] * 2
    latency = {"count": 1, "percentiles": [{"quantile": 0.5, "value": 1}] * 2}
    fake.answers["n1"] = nsqd(
        "n1", *[topic(odd, twice, e2e_processing_latency=latency)] * 2, topic(""), version="\ud800"
    )
    async with collecting(fake, clients=True) as (poller, collector):
        await poller.after(None)
        shown = Exposition(poller, collector)
        text, content_type = await shown.text()
        assert content_type.startswith("text/plain; version=")
        found = series(parse(text.decode()))
        at = {"topic": odd, "channel": odd, "nsqd": "n1:4150"}
        assert value(found, "channel_depth_messages", **at) == -(2**63)
        text, content_type = await shown.text("application/openmetrics-text; version=1.0.0")
        assert content_type.startswith("application/openmetrics-text; version=1.0.0")
        parse_openmetrics = cast("Any", openmetrics).text_string_to_metric_families
        assert series(parse_openmetrics(text.decode())) == found
        assert text.endswith(b"# EOF\n")


async def test_the_text_is_written_once_for_each_poll() -> None:
    polled = Polled()
    shown = Exposition(cast("Poller", polled), ClusterCollector(cast("Poller", polled)))
    empty, _ = await shown.text()
    assert series(parse(empty.decode())) == {}
    async with collecting(running()) as (poller, _):
        polled.last = await poller.after(None)
        first, _ = await shown.text()
        assert (await shown.text())[0] is first
        packed, _ = await shown.text(gzipped=True)
        assert gzip.decompress(packed) == first
        polled.last = await poller.after(polled.last)
        assert (await shown.text())[0] != first


async def test_it_can_be_registered_before_the_first_poll() -> None:
    registry = CollectorRegistry()
    async with running().cluster(["l1", "l2"]) as cluster:
        async with Poller(cluster) as poller:
            ClusterCollector(poller, registry=registry)
            assert series(registry.collect()) == {}
            with pytest.raises(ValueError, match="Duplicated"):
                ClusterCollector(poller, registry=registry)


async def test_every_metric_has_a_value_somewhere_and_its_labels() -> None:
    fake = running()
    latency = samples.LATENCY
    fake.answers["n1"] = nsqd(
        "n1", topic("clicks", [channel("c", clients=[samples.CLIENT])], e2e_processing_latency=latency)
    )
    found = await scraped(fake, clients=True)
    for metric in CLUSTER_METRICS:
        shown = [set(dict(labels)) for name, labels in found if name == metric.name]
        assert shown, metric.name
        assert all(each == set(metric.labels) for each in shown), metric.name
