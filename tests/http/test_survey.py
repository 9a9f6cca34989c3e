"""A survey: one look at a whole cluster, in which a server that fails is a part of the result."""

from __future__ import annotations

import json
import time
from typing import Any

import anyio
import pytest

from nsq_anyio.http import Node, NsqlookupdSurvey, Survey

from .. import virtual_time
from . import samples
from .fake_cluster import DOWN, HANG, FakeCluster, Refused, channel, lookupd, nsqd, producer, topic

pytestmark = pytest.mark.anyio

anyio_backend = virtual_time.anyio_backend

MANY = 1000


def running() -> FakeCluster:
    """Two nsqlookupds: the first knows both nsqds, the second only one."""
    return FakeCluster(
        {
            "l1": lookupd("n1", "n2"),
            "l2": lookupd("n2"),
            "n1": nsqd("n1", topic("t", [channel("c", depth=2)], depth=1, message_count=5)),
            "n2": nsqd("n2", topic("t", [channel("c", depth=3)], depth=4, message_count=6), topic("u")),
        }
    )


def urls(nsqlookupd: NsqlookupdSurvey) -> list[str]:
    """The URLs of the nsqds that it knows."""
    return [node.url for node in nsqlookupd.nodes]


async def _survey(fake: FakeCluster, lookupds: list[str], nsqds: list[str], **options: Any) -> Survey:
    async with fake.cluster(lookupds, nsqds) as cluster:
        return await cluster.survey(**options)


async def test_all_servers_are_asked_once_and_say_who_knows_whom() -> None:
    fake = running()
    began = time.time()
    survey = await _survey(fake, ["l1", "l2"], [])
    assert sorted(fake.asked) == [
        "GET l1/nodes",
        "GET l2/nodes",
        *(f"GET n{n}/stats?format=json&include_clients=false&include_mem=false" for n in (1, 2)),
    ]
    assert survey.errors == {}
    assert began <= survey.time <= time.time()
    first, second = survey.nsqlookupds
    assert (first.url, urls(first)) == ("http://l1:4161", ["http://n1:4151", "http://n2:4151"])
    assert (second.url, urls(second)) == ("http://l2:4161", ["http://n2:4151"])
    assert [node.topics for node in first.nodes] == [("t",), ("t",)]
    n1, n2 = survey.nsqds
    assert n1.node.nsqlookupds == ("http://l1:4161",)
    assert sorted(n2.node.nsqlookupds) == ["http://l1:4161", "http://l2:4161"]
    assert (n1.node.url, n1.node.topics) == ("http://n1:4151", ("t",))
    assert [found.topic_name for found in n2.stats.topics] == ["t", "u"]
    for server in (first, second, n1, n2):
        assert 0 < server.seconds <= survey.seconds
    t, u = survey.topics()
    assert (t.total.depth, t.total.channels[0].depth, t.total.message_count) == (5, 5, 11)
    assert u.nodes.keys() == {"http://n2:4151"}


async def test_topics_and_clients_are_asked_for_only_if_wanted() -> None:
    fake = running()
    fake.answers["l2"]["/topics"] = {"topics": ["v", "inactive"]}
    fake.answers["n1"] = nsqd("n1", topic("t", [channel("c", clients=[samples.CLIENT])]))
    survey = await _survey(fake, ["l1", "l2"], [], include_topics=True, include_clients=True)
    assert [each.topics for each in survey.nsqlookupds] == [("t",), ("inactive", "v")]
    assert "GET n1/stats?format=json&include_clients=true&include_mem=false" in fake.asked
    assert survey.nsqds[0].stats.topics[0].channels[0].clients[0].client_id == "worker"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (DOWN, "refused"),
        (Refused(503, "NOK"), "503"),
        ("text", "stats is not an object"),
        ({}, "no 'topics'"),
    ],
)
async def test_an_nsqd_that_fails_is_a_part_of_the_result(answer: Any, error: str) -> None:
    fake = running()
    fake.answers["n1"]["/stats"] = answer
    survey = await _survey(fake, ["l1", "l2"], [])
    n1, n2 = survey.nsqds
    assert error in n1.error
    assert (n1.stats.topics, n1.node.topics) == ((), ("t",))
    assert survey.errors == {"http://n1:4151": n1.error}
    assert not n2.error
    assert [found.total.topic_name for found in survey.topics()] == ["t", "u"]


async def test_an_nsqlookupd_that_fails_hides_nothing_that_others_know() -> None:
    fake = running()
    fake.answers["l1"]["/nodes"] = Refused(500, "INTERNAL_ERROR")
    fake.answers["l2"]["/topics"] = DOWN
    survey = await _survey(fake, ["l1", "l2"], [], include_topics=True)
    assert "INTERNAL_ERROR" in survey.nsqlookupds[0].error
    assert survey.nsqlookupds[1].error == "refused"
    assert urls(survey.nsqlookupds[1]) == ["http://n2:4151"]
    assert [each.node.url for each in survey.nsqds] == ["http://n2:4151"]
    assert [each.error for each in survey.nsqds] == [""]


async def test_nobody_answers() -> None:
    survey = await _survey(FakeCluster({}), ["l1"], ["n1"])
    assert survey.errors == {"http://l1:4161": "refused", "http://n1:4151": "refused"}
    assert [each.node for each in survey.nsqds] == [Node(url="http://n1:4151")]
    assert survey.topics() == ()


async def test_slow_servers_cost_their_own_time_limit_and_delay_nobody() -> None:
    fake = running()
    fake.answers["l2"]["/nodes"] = HANG
    fake.answers["n1"]["/stats"] = HANG
    async with fake.cluster(["l1", "l2"], timeout=0.2) as cluster:
        survey = await cluster.survey()
    assert survey.seconds < 0.6  # not one after the other
    assert survey.errors.keys() == {"http://l2:4161", "http://n1:4151"}
    assert set(survey.errors.values()) == {"no answer within 0.2 s"}
    assert survey.nsqds[0].seconds >= 0.2
    assert survey.nsqds[1].seconds < 0.2


async def test_only_so_many_servers_are_asked_at_once() -> None:
    hosts = [f"n{n}" for n in range(20)]
    fake = FakeCluster({"l1": lookupd(*hosts), **{host: nsqd(host, topic()) for host in hosts}})
    async with fake.cluster(["l1"], concurrency=3) as cluster:
        survey = await cluster.survey()
    assert len(survey.nsqds) == 20
    assert survey.errors == {}
    assert fake.at_once == 3


async def test_a_given_nsqd_that_is_also_registered_appears_once() -> None:
    fake = running()
    fake.answers["localhost"] = nsqd("n1", topic("t", message_count=7))
    survey = await _survey(fake, ["l1"], ["localhost"])
    assert [each.node.url for each in survey.nsqds] == ["http://localhost:4151", "http://n2:4151"]
    given = survey.nsqds[0]
    assert given.node.nsqlookupds == ("http://l1:4161",)
    assert given.stats.topics[0].message_count == 7
    assert urls(survey.nsqlookupds[0]) == ["http://localhost:4151", "http://n2:4151"]


async def test_a_given_nsqd_that_is_down_keeps_what_nsqlookupds_know_of_it() -> None:
    fake = running()
    del fake.answers["n1"]
    survey = await _survey(fake, ["l1"], ["n1"])
    n1 = survey.nsqds[0]
    assert (n1.node.broadcast_address, n1.node.nsqlookupds) == ("n1", ("http://l1:4161",))
    assert urls(survey.nsqlookupds[0]) == ["http://n1:4151", "http://n2:4151"]
    assert n1.error == "refused"


async def test_nsqds_that_were_known_before_are_asked_though_nobody_names_them() -> None:
    fake = running()
    async with fake.cluster(["l1"]) as cluster:
        before = await cluster.survey()
        fake.answers["l1"] = lookupd("n2")
        del fake.answers["n2"]
        after = await cluster.survey(also=[each.node for each in before.nsqds])
    n1, n2 = after.nsqds
    assert (n1.error, n1.node.nsqlookupds, n1.stats.topics) == ("", (), before.nsqds[0].stats.topics)
    assert (n2.error, n2.node.nsqlookupds) == ("refused", ("http://l1:4161",))


async def test_a_remembered_nsqd_that_is_given_too_appears_once() -> None:
    fake = running()
    fake.answers["localhost"] = nsqd("n1", topic())
    async with fake.cluster(["l1"]) as cluster:
        before = await cluster.survey()
    fake.answers["l1"] = lookupd()
    survey = await _survey(fake, ["l1"], ["localhost"], also=[each.node for each in before.nsqds])
    assert [each.node.url for each in survey.nsqds] == ["http://localhost:4151", "http://n2:4151"]


async def test_nsqds_without_a_usable_address_are_named_and_hide_nobody() -> None:
    fake = running()
    odd = [{"broadcast_address": "a b", "http_port": 1}, producer("x", http_port=0), 7, None]
    fake.answers["l1"]["/nodes"] = {"producers": [*odd, producer("n1", topics=["t", "u"], tombstones=[True])]}
    survey = await _survey(fake, ["l1"], [])
    (lookup,) = survey.nsqlookupds
    assert len(lookup.unusable) == len(odd)
    assert "usable" in lookup.unusable[0]
    (n1,) = survey.nsqds
    assert (n1.node.topics, n1.node.tombstoned) == (("t", "u"), ("t",))


ODD: list[Any] = [
    None,
    [],
    {"topics": None},
    {"topics": {}},
    {"topics": [None]},
    {"topics": [{"topic_name": 1}]},
    {"topics": [{"topic_name": "t", "channels": [{"depth": "7"}]}]},
    {"topics": [{"topic_name": "t", "depth": 1e400}]},
    {"topics": [{"topic_name": "t", "depth": 2**70}]},
    {"topics": [{"topic_name": "t", "e2e_processing_latency": []}]},
    {"topics": [{"topic_name": "t"}] * 2, "producers": 7},
    {"topics": [{"topic_name": "\ud800", "channels": [{"channel_name": "c\n\0"}]}]},
    {"topics": [], "health": None, "start_time": -1},
]


@pytest.mark.parametrize("answer", ODD, ids=lambda value: json.dumps(value)[:60])
async def test_odd_json_is_read_or_is_an_error_and_never_more(answer: Any) -> None:
    fake = running()
    fake.answers["n1"]["/stats"] = answer
    survey = await _survey(fake, ["l1"], [])
    assert survey.nsqds[1].error == ""
    for found in survey.topics():
        found.total.topic_name.encode()


async def test_it_can_be_cancelled() -> None:
    fake = running()
    fake.answers["n1"]["/stats"] = HANG
    async with fake.cluster(["l1"]) as cluster:
        with anyio.move_on_after(0.05) as scope:
            await cluster.survey()
    assert scope.cancelled_caught
    assert fake.running == 0


async def test_a_large_cluster_takes_little_cpu() -> None:
    """The limit is several times what two nsqds with 1,000 topics of 10 channels take, the fakes included."""
    topics = [topic(f"t{n}", [channel(f"c{m}") for m in range(10)]) for n in range(MANY)]
    fake = FakeCluster({"l1": lookupd("n1", "n2"), "n1": nsqd("n1", *topics), "n2": nsqd("n2", *topics)})
    async with fake.cluster(["l1"]) as cluster:
        await cluster.survey()
        before = time.process_time()
        survey = await cluster.survey()
        took = time.process_time() - before
    assert sum(len(each.stats.topics) for each in survey.nsqds) == 2 * MANY
    assert took < 4.0
