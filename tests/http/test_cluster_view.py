"""What a cluster tells: united, with what failed beside it, in bounds."""

import pickle
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import httpx
import pytest

from nsq_anyio.errors import (
    Closed,
    HTTPError,
    HTTPInvalidReply,
    HTTPStatusError,
    HTTPUnavailable,
    InvalidAddress,
    InvalidName,
    InvalidOption,
)
from nsq_anyio.http import Cluster, ClusterFailed, ClusterReply, Node

from . import samples
from .fake_cluster import DOWN, HANG, FakeCluster, Refused, channel, lookupd, nsqd, producer, topic
from .support import Answers

pytestmark = pytest.mark.anyio

Call = Callable[[Cluster], Awaitable[ClusterReply[Any]]]

READS: list[Call] = [
    Cluster.topics,
    lambda c: c.channels("t"),
    Cluster.nodes,
    lambda c: c.producers("t"),
    Cluster.stats,
    lambda c: c.topic_stats("t"),
    lambda c: c.channel_stats("t", "c"),
]


def urls(reply: ClusterReply[tuple[Node, ...]]) -> list[str]:
    return [node.url for node in reply.value]


# United


async def test_topics_and_channels_are_united() -> None:
    fake = FakeCluster(
        {
            "l1": lookupd(**{"/topics": {"topics": ["b", "a"]}, "/channels": {"channels": ["y"]}}),
            "l2": lookupd(**{"/topics": {"topics": ["c", "a"]}, "/channels": {"channels": ["x", "y"]}}),
            "n1": nsqd("n1", topic("d", [channel("z"), channel("y")])),
        }
    )
    async with fake.cluster(["l1", "l2"], ["n1"]) as cluster:
        assert await cluster.topics() == ClusterReply(("a", "b", "c", "d"))
        assert await cluster.channels("d") == ClusterReply(("x", "y", "z"))
    assert sorted(fake.asked[-3:]) == [
        "GET l1/channels?topic=d",
        "GET l2/channels?topic=d",
        "GET n1/stats?format=json&include_clients=false&include_mem=false&topic=d",
    ]


async def test_nodes_are_united_with_their_topics_and_tombstones() -> None:
    def nodes(*found: tuple[str, list[str], list[bool]]) -> dict[str, Any]:
        return {
            "producers": [producer(host, topics=names, tombstones=hidden) for host, names, hidden in found]
        }

    fake = FakeCluster(
        {
            "l1": lookupd(**{"/nodes": nodes(("n2", ["b", "a"], [True, False]), ("n1", [], []))}),
            "l2": lookupd(**{"/nodes": nodes(("n2", ["c", "a"], [False, True]))}),
        }
    )
    async with fake.cluster(["l1", "l2"]) as cluster:
        reply = await cluster.nodes()
    both = ("http://l1:4161", "http://l2:4161")
    known: dict[str, Any] = {"tcp_port": 4150, "http_port": 4151, "version": "1.3.0"}
    assert reply == ClusterReply(
        (
            Node(url="http://n1:4151", hostname="n1", broadcast_address="n1", nsqlookupds=both[:1], **known),
            Node(
                url="http://n2:4151",
                hostname="n2",
                broadcast_address="n2",
                topics=("a", "b", "c"),
                tombstoned=("a", "b"),
                nsqlookupds=both,
                **known,
            ),
        )
    )
    assert reply.value[1].name == "n2:4151"


async def test_a_given_nsqd_that_is_registered_too_is_one_and_keeps_its_url() -> None:
    fake = FakeCluster({"l1": lookupd("n1", "n2"), "mapped": nsqd("n1", topic("t"), topic("u"))})
    async with fake.cluster(["l1"], ["mapped"]) as cluster:
        nodes = await cluster.nodes()
        producers = await cluster.producers("t")
    assert urls(nodes) == ["http://mapped:4151", "http://n2:4151"]
    assert nodes.value[0].topics == ("t", "u")
    assert nodes.value[0].nsqlookupds == ("http://l1:4161",)
    assert urls(producers) == ["http://mapped:4151", "http://n2:4151"]


async def test_given_nsqds_with_one_name_are_two() -> None:
    """So it is behind mapped ports, when nobody sets their broadcast addresses."""
    fake = FakeCluster({"m1": nsqd("same", topic()), "m2": nsqd("same", topic())})
    async with fake.cluster(nsqd=["m1", "m2"]) as cluster:
        assert urls(await cluster.nodes()) == ["http://m1:4151", "http://m2:4151"]


async def test_producers_are_those_that_have_the_topic() -> None:
    fake = FakeCluster(
        {
            "l1": lookupd("n1"),
            "l2": lookupd(**{"/lookup": Refused(404, "TOPIC_NOT_FOUND")}),
            "n3": nsqd("n3", topic("other")),
            "n4": nsqd("n4", topic("t")),
        }
    )
    async with fake.cluster(["l1", "l2"], ["n3", "n4"]) as cluster:
        reply = await cluster.producers("t")
    assert urls(reply) == ["http://n1:4151", "http://n4:4151"]
    assert reply.failures == ()
    assert "GET n3/info" not in fake.asked


async def test_a_topic_that_nobody_has() -> None:
    fake = FakeCluster({"l1": lookupd(**{"/lookup": Refused(404, "TOPIC_NOT_FOUND")}), "n1": nsqd("n1")})
    async with fake.cluster(["l1"], ["n1"]) as cluster:
        assert await cluster.producers("t") == ClusterReply(())
        stats = await cluster.topic_stats("t")
        assert (stats.value.total.topic_name, stats.value.total.depth, stats.value.nodes) == ("t", 0, {})
        channel_stats = await cluster.channel_stats("t", "c")
        assert (channel_stats.value.total.channel_name, channel_stats.value.nodes) == ("c", {})


async def test_a_url_given_twice_is_asked_once() -> None:
    fake = FakeCluster({"l1": lookupd(), "n1": nsqd("n1")})
    async with fake.cluster(["l1", "l1"], ["n1", "n1"]) as cluster:
        await cluster.topics()
    assert len(fake.asked) == 2


# Statistics


async def test_statistics_are_added_up_and_kept_by_node() -> None:
    rows = [
        topic("t", [channel("c", depth=1, paused=False), channel("d", depth=2)], depth=10, message_bytes=3),
        topic("t", [channel("c", depth=4, paused=True, requeue_count=8)], depth=20, message_bytes=4),
    ]
    fake = FakeCluster(
        {
            "l1": lookupd("n1", "n2"),
            "n1": nsqd("n1", rows[0], topic("a", depth=5)),
            "n2": nsqd("n2", rows[1]),
        }
    )
    async with fake.cluster(["l1"]) as cluster:
        everything = await cluster.stats()
        one = await cluster.topic_stats("t")
        c = await cluster.channel_stats("t", "c")
    assert [totals.total.topic_name for totals in everything.value] == ["a", "t"]
    assert everything.value[1] == one.value
    assert list(everything.value[0].nodes) == ["http://n1:4151"]
    total = one.value.total
    assert (total.depth, total.backend_depth, total.message_bytes, total.paused) == (30, 16, 7, False)
    assert [(found.channel_name, found.depth) for found in total.channels] == [("c", 5), ("d", 2)]
    assert {url: row.depth for url, row in one.value.nodes.items()} == {
        "http://n1:4151": 10,
        "http://n2:4151": 20,
    }
    assert (c.value.total.depth, c.value.total.requeue_count, c.value.total.paused) == (5, 11, True)
    assert (c.value.total.in_flight_count, c.value.total.deferred_count, c.value.total.timeout_count) == (
        14,
        2,
        4,
    )
    assert {url: row.depth for url, row in c.value.nodes.items()} == {
        "http://n1:4151": 1,
        "http://n2:4151": 4,
    }
    assert (everything.failures, one.failures, c.failures) == ((), (), ())


async def test_clients_are_listed_when_asked_for() -> None:
    clients = {"clients": [samples.CLIENT], "client_count": 1}
    fake = FakeCluster(
        {
            "n1": nsqd("n1", topic("t", [channel("c", **clients)])),
            "n2": nsqd("n2", topic("t", [channel("c", **clients)])),
        }
    )
    async with fake.cluster(nsqd=["n1", "n2"]) as cluster:
        total = (await cluster.channel_stats("t", "c")).value.total
        assert (total.client_count, len(total.clients)) == (2, 2)
        assert fake.asked[-1].endswith(
            "/stats?format=json&include_clients=true&include_mem=false&topic=t&channel=c"
        )
        await cluster.topic_stats("t")
        assert "include_clients=false" in fake.asked[-1]
        await cluster.stats(include_clients=True)
        assert "include_clients=true" in fake.asked[-1]


async def test_a_latency_is_the_largest() -> None:
    def latency(count: int, **quantiles: int) -> dict[str, Any]:
        percentiles = [{"quantile": float(q[1:]) / 100, "value": value} for q, value in quantiles.items()]
        return {"e2e_processing_latency": {"count": count, "percentiles": percentiles}}

    fake = FakeCluster(
        {
            "n1": nsqd("n1", topic("t", **latency(3, q99=5_000_000_000, q50=1_000_000_000))),
            "n2": nsqd("n2", topic("t", **latency(4, q99=4_000_000_000, q50=2_000_000_000))),
        }
    )
    async with fake.cluster(nsqd=["n1", "n2"]) as cluster:
        found = (await cluster.topic_stats("t")).value.total.e2e_processing_latency
    assert (found.count, [(p.quantile, p.value) for p in found.percentiles]) == (7, [(0.99, 5.0), (0.5, 2.0)])


# Failures


@pytest.mark.parametrize("call", READS)
async def test_one_server_that_is_down_is_named_beside_the_answers_of_the_others(call: Call) -> None:
    fake = FakeCluster({"l1": lookupd("n1"), "n1": nsqd("n1", topic("t", [channel("c")]))})
    async with fake.cluster(["l1", "l2"]) as cluster:
        reply = await call(cluster)
    assert reply.value
    (failure,) = reply.failures
    assert isinstance(failure, HTTPUnavailable)
    assert failure.url.startswith("http://l2:4161/")
    assert failure.reason == "refused"


@pytest.mark.parametrize("call", READS)
async def test_when_all_are_down_it_is_an_error_that_names_all(call: Call) -> None:
    async with FakeCluster({}).cluster(["l1", "l2"], ["n1"]) as cluster:
        with pytest.raises(ClusterFailed) as caught:
            await call(cluster)
    error = caught.value
    assert error.url == "http://l1:4161, http://l2:4161, http://n1:4151"
    assert error.reason.startswith("no server answered: http://l1:4161/")
    assert [failure.url.partition("/")[2].split("/")[1] for failure in error.failures] == [
        "l1:4161",
        "l2:4161",
        "n1:4151",
    ]
    restored: ClusterFailed = pickle.loads(pickle.dumps(error))
    assert (str(restored), restored.url, len(restored.failures)) == (str(error), error.url, 3)


STATS: list[Call] = READS[4:]


@pytest.mark.parametrize("call", STATS)
async def test_an_nsqd_whose_statistics_fail_is_named(call: Call) -> None:
    fake = FakeCluster({"l1": lookupd("n1", "n2"), "n2": nsqd("n2", topic("t", [channel("c")]))})
    async with fake.cluster(["l1"]) as cluster:
        reply = await call(cluster)
        (failure,) = reply.failures
        assert failure.url.startswith("http://n1:4151/stats?")
        assert reply.value
        del fake.answers["n2"]
        with pytest.raises(ClusterFailed, match="no nsqd answered: http://n1:4151/stats"):
            await call(cluster)


FAILURES: list[tuple[Any, type[HTTPError]]] = [
    (DOWN, HTTPUnavailable),
    (httpx.RemoteProtocolError("garbage"), HTTPUnavailable),
    (HANG, HTTPUnavailable),
    (Refused(500, "INTERNAL_ERROR"), HTTPStatusError),
    (Refused(403, "FORBIDDEN"), HTTPStatusError),
    ([], HTTPInvalidReply),
    ({}, HTTPInvalidReply),
    ({"producers": 5}, HTTPInvalidReply),
]


@pytest.mark.parametrize(("answer", "kind"), FAILURES)
async def test_every_kind_of_failure_is_told(answer: Any, kind: type[HTTPError]) -> None:
    fake = FakeCluster({"l1": lookupd("n1"), "l2": lookupd(**{"/lookup": answer})})
    async with fake.cluster(["l1", "l2"], timeout=0.5) as cluster:
        reply = await cluster.producers("t")
    assert urls(reply) == ["http://n1:4151"]
    (failure,) = reply.failures
    assert type(failure) is kind
    assert failure.url.startswith("http://l2:4161")


@pytest.mark.parametrize(
    "nonsense", [producer("n2", http_port=-1), producer("a b"), producer(""), {}, "text", None]
)
async def test_an_nsqd_that_nobody_can_ask_is_told_and_hides_no_other(nonsense: Any) -> None:
    fake = FakeCluster(
        {"l1": lookupd(**{"/lookup": {"channels": [], "producers": [nonsense, producer("n1")]}})}
    )
    async with fake.cluster(["l1"]) as cluster:
        reply = await cluster.producers("t")
    assert urls(reply) == ["http://n1:4151"]
    (failure,) = reply.failures
    assert isinstance(failure, HTTPInvalidReply)
    assert failure.url == "http://l1:4161"
    assert "without a usable HTTP address" in failure.reason


# Bounds


async def test_all_are_asked_at_once_up_to_the_bound() -> None:
    hosts = [f"n{number}" for number in range(9)]
    fake = FakeCluster({host: nsqd(host, topic()) for host in hosts})
    async with fake.cluster(nsqd=hosts) as cluster:
        await cluster.topics()
        assert fake.at_once == 9
    fake.at_once = 0
    async with fake.cluster(nsqd=hosts, concurrency=2) as cluster:
        await cluster.topics()
        assert fake.at_once == 2


async def test_the_timeout_is_for_all_that_a_server_is_asked_in_a_step() -> None:
    fake = FakeCluster({"n1": nsqd("n1", topic()), "n2": nsqd("n2", topic(), **{"/info": HANG})})
    async with fake.cluster(nsqd=["n1", "n2"], timeout=0.5) as cluster:
        with anyio.fail_after(5):
            reply = await cluster.nodes()
    assert urls(reply) == ["http://n1:4151"]
    assert [str(failure) for failure in reply.failures] == ["http://n2:4151: no answer within 0.5 s"]


@pytest.mark.parametrize("call", READS)
async def test_cancellation_ends_all_requests(call: Call) -> None:
    answers = {"/topics": HANG, "/channels": HANG, "/lookup": HANG, "/nodes": HANG}
    fake = FakeCluster({"l1": answers, "l2": lookupd("n1"), "n1": nsqd("n1", topic("t", [channel("c")]))})
    async with fake.cluster(["l1", "l2"]) as cluster:
        with anyio.move_on_after(0.03) as scope:
            await call(cluster)
        assert scope.cancelled_caught
        assert fake.running == 0
        fake.answers["l1"] = lookupd("n1")
        assert (await call(cluster)).failures == ()  # and it is as good as new


# What goes to whom


async def test_credentials_go_to_the_given_servers_only() -> None:
    """Anybody can register at an nsqlookupd as an nsqd."""
    fake = FakeCluster({"l1": lookupd("n1", "n2"), "n2": nsqd("n2", topic()), "n1": nsqd("n1", topic())})
    async with Cluster(
        "http://user:password@l1:4161/?token=secret",
        "http://n1:4151",
        headers={"X-Key": "secret"},
        authorization=lambda: "Bearer secret",
        transport=httpx.MockTransport(fake.handle),
    ) as cluster:
        await cluster.topic_stats("t")
        assert repr(cluster) == "<Cluster http://l1:4161, http://n1:4151>"
    assert {request.url.host for request in fake.requests} == {"l1", "n1", "n2"}
    for request in fake.requests:
        secrets = ("X-Key" in request.headers, "Authorization" in request.headers)
        assert secrets == ((False, False) if request.url.host == "n2" else (True, True))
        assert ("token" in request.url.params) == (request.url.host == "l1")


async def test_authorization_that_fails_is_a_failure_of_that_server() -> None:
    def authorization() -> str:
        raise ValueError("secret")

    async with FakeCluster({}).cluster(["l1"], authorization=authorization) as cluster:
        with pytest.raises(ClusterFailed, match="the function authorization raised ValueError"):
            await cluster.topics()


# The block, and what is refused


@pytest.mark.parametrize("call", READS)
async def test_outside_of_its_block_it_is_closed(call: Call) -> None:
    cluster = FakeCluster({"l1": lookupd("n1"), "n1": nsqd("n1", topic())}).cluster(["l1"])
    for _ in range(2):
        with pytest.raises(Closed, match="async with"):
            await call(cluster)
        async with cluster as entered:
            assert entered is cluster
            await call(cluster)


async def test_the_transport_is_closed_with_the_block_and_not_before() -> None:
    class Transport(httpx.MockTransport):
        closed = 0

        async def aclose(self) -> None:
            self.closed += 1

    fake = FakeCluster({"l1": lookupd("n1"), "n1": nsqd("n1", topic())})
    transport = Transport(fake.handle)
    async with Cluster("http://l1:4161", transport=transport) as cluster:
        await cluster.stats()
        assert transport.closed == 0
    assert transport.closed == 1


@pytest.mark.parametrize("name", ["", "a b", "t\n", None, 5])
async def test_bad_names_are_not_sent(name: Any) -> None:
    fake = FakeCluster({})
    async with fake.cluster(["l1"]) as cluster:
        calls = [
            cluster.channels(name),
            cluster.producers(name),
            cluster.topic_stats(name),
            cluster.channel_stats(name, "c"),
            cluster.channel_stats("t", name),
        ]
        for call in calls:
            with pytest.raises(InvalidName):
                await call
    assert fake.asked == []


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, InvalidOption),
        ({"nsqlookupd": []}, InvalidOption),
        ({"nsqlookupd": "nowhere"}, InvalidAddress),
        ({"nsqd": ["127.0.0.1:4151", "nowhere"]}, InvalidAddress),
        ({"nsqd": [5]}, InvalidAddress),
        ({"nsqd": "127.0.0.1:4151", "timeout": 0}, InvalidOption),
        ({"nsqd": "127.0.0.1:4151", "concurrency": 0}, InvalidOption),
        ({"nsqd": "127.0.0.1:4151", "concurrency": 1.5}, InvalidOption),
        ({"nsqd": "127.0.0.1:4151", "headers": {"a b": "c"}}, InvalidOption),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        Cluster(**options)


async def test_a_single_url_may_be_a_string() -> None:
    async with Cluster("l1:4161", transport=Answers.json({"topics": ["t"]}).transport) as cluster:
        assert (await cluster.topics()).value == ("t",)
