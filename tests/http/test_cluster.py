"""What a cluster does: on whom, in which order, and what it says when some or all fail."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from nsq_anyio.errors import Closed, HTTPStatusError, HTTPUnavailable, InvalidName, InvalidOption
from nsq_anyio.http import Cluster, ClusterFailed, ClusterReply, Node

from .fake_cluster import HANG, FakeCluster, Refused, lookupd, nsqd, producer, topic

pytestmark = pytest.mark.anyio

Call = Callable[[Cluster], Awaitable[ClusterReply[tuple[str, ...]]]]

LOOKUPDS = ["http://l1:4161", "http://l2:4161"]
NSQDS = ["http://n1:4151", "http://n2:4151"]

ON_PRODUCERS: list[tuple[Call, str]] = [
    (lambda c: c.empty_topic("t"), "/topic/empty?topic=t"),
    (lambda c: c.pause_topic("t"), "/topic/pause?topic=t"),
    (lambda c: c.unpause_topic("t"), "/topic/unpause?topic=t"),
    (lambda c: c.empty_channel("t", "c"), "/channel/empty?topic=t&channel=c"),
    (lambda c: c.pause_channel("t", "c"), "/channel/pause?topic=t&channel=c"),
    (lambda c: c.unpause_channel("t", "c"), "/channel/unpause?topic=t&channel=c"),
]
EVERYWHERE: list[tuple[Call, str]] = [
    (lambda c: c.create_channel("t", "c"), "/channel/create?topic=t&channel=c"),
    (lambda c: c.delete_topic("t"), "/topic/delete?topic=t"),
    (lambda c: c.delete_channel("t", "c"), "/channel/delete?topic=t&channel=c"),
]
CREATE_TOPIC: tuple[Call, str] = (lambda c: c.create_topic("t"), "/topic/create?topic=t")
ACTIONS = [*ON_PRODUCERS, *EVERYWHERE]
PAUSES = ("/topic/pause", "/channel/pause")
"""Which take it for a failure if a server lacks what they are to pause."""


def running() -> FakeCluster:
    """Two nsqlookupds, which know one nsqd each."""
    return FakeCluster(
        {
            "l1": lookupd("n1"),
            "l2": lookupd("n2"),
            "n1": nsqd("n1", topic()),
            "n2": nsqd("n2", topic()),
        }
    )


# On whom


@pytest.mark.parametrize(("call", "action"), ON_PRODUCERS)
async def test_actions_of_nsqds_go_to_all_that_have_the_topic(call: Call, action: str) -> None:
    fake = running()
    async with fake.cluster(["l1", "l2"]) as cluster:
        assert await call(cluster) == ClusterReply(tuple(NSQDS))
    assert sorted(fake.posts()) == [f"n1{action}", f"n2{action}"]


@pytest.mark.parametrize(("call", "action"), EVERYWHERE)
async def test_other_actions_go_to_nsqlookupds_first_and_then_to_nsqds(call: Call, action: str) -> None:
    fake = running()
    async with fake.cluster(["l1", "l2"]) as cluster:
        assert await call(cluster) == ClusterReply((*LOOKUPDS, *NSQDS))
    posts = fake.posts()
    assert sorted(posts[:2]) == [f"l1{action}", f"l2{action}"]
    assert sorted(posts[2:]) == [f"n1{action}", f"n2{action}"]


@pytest.mark.parametrize(("call", "action"), EVERYWHERE[1:])
async def test_who_has_it_is_found_out_before_it_is_deleted(call: Call, action: str) -> None:
    fake = running()
    async with fake.cluster(["l1", "l2"]) as cluster:
        await call(cluster)
    first_post = fake.asked.index(next(line for line in fake.asked if line.startswith("POST")))
    assert {"GET l1/lookup?topic=t", "GET l2/lookup?topic=t"} <= set(fake.asked[:first_post])


async def test_a_channel_is_made_known_before_it_is_found_out_who_has_the_topic() -> None:
    fake = running()
    async with fake.cluster(["l1", "l2"]) as cluster:
        await cluster.create_channel("t", "c")
    assert sorted(fake.asked[2:4]) == ["GET l1/lookup?topic=t", "GET l2/lookup?topic=t"]


async def test_a_topic_is_created_on_nsqlookupds_and_then_on_given_nsqds() -> None:
    fake = running()
    async with fake.cluster(["l1", "l2"], ["n1"]) as cluster:
        assert await cluster.create_topic("u") == ClusterReply((*LOOKUPDS, "http://n1:4151"))
    assert sorted(fake.asked[:2]) == ["POST l1/topic/create?topic=u", "POST l2/topic/create?topic=u"]
    assert fake.asked[2:] == ["POST n1/topic/create?topic=u"]


@pytest.mark.parametrize(("call", "action"), ACTIONS)
async def test_without_nsqlookupds_given_nsqds_are_asked(call: Call, action: str) -> None:
    fake = FakeCluster({"n1": nsqd("n1", topic()), "n2": nsqd("n2", topic("other"))})
    async with fake.cluster(nsqd=["n1", "n2"]) as cluster:
        assert await call(cluster) == ClusterReply(("http://n1:4151",))
    assert fake.posts() == [f"n1{action}"]


@pytest.mark.parametrize("given", ["node", "n1:4151", "[n1]:4151"])
async def test_a_tombstone_is_set_everywhere_before_the_topic_is_deleted_there(given: str) -> None:
    fake = running()
    async with fake.cluster(["l1", "l2"]) as cluster:
        node: Node | str = (await cluster.producers("t")).value[0] if given == "node" else given
        fake.asked.clear()
        assert await cluster.tombstone_topic("t", node) == ClusterReply((*LOOKUPDS, "http://n1:4151"))
    assert sorted(fake.asked[:2]) == [
        "POST l1/topic/tombstone?topic=t&node=n1%3A4151",
        "POST l2/topic/tombstone?topic=t&node=n1%3A4151",
    ]
    assert fake.asked[2:] == ["POST n1/topic/delete?topic=t"]


@pytest.mark.parametrize("given", ["node", "::1:4151", "[::1]:4151"])
async def test_a_tombstone_of_an_ipv6_node(given: str) -> None:
    """nsqlookupd compares names without brackets; a URL needs them."""
    fake = FakeCluster(
        {"l1": lookupd(**{"/nodes": {"producers": [producer("::1")]}}), "::1": {"/topic/delete": {}}}
    )
    async with fake.cluster(["l1"]) as cluster:
        node: Node | str = (await cluster.nodes()).value[0] if given == "node" else given
        reply = await cluster.tombstone_topic("t", node)
    assert reply == ClusterReply(("http://l1:4161", "http://[::1]:4151"))
    assert fake.posts()[0] == "l1/topic/tombstone?topic=t&node=%3A%3A1%3A4151"


# Some fail


@pytest.mark.parametrize(("call", "action"), ACTIONS)
async def test_an_nsqd_that_is_down_is_named_and_the_others_do_it(call: Call, action: str) -> None:
    fake = running()
    del fake.answers["n1"]
    async with fake.cluster(["l1", "l2"]) as cluster:
        reply = await call(cluster)
    assert NSQDS[1] in reply.value
    assert NSQDS[0] not in reply.value
    (failure,) = reply.failures
    assert isinstance(failure, HTTPUnavailable)
    assert failure.url == f"http://n1:4151{action}"
    assert f"n2{action}" in fake.posts()


@pytest.mark.parametrize(("call", "action"), ACTIONS)
async def test_an_nsqlookupd_that_is_down_is_named_and_the_others_tell(call: Call, action: str) -> None:
    fake = running()
    del fake.answers["l2"]
    async with fake.cluster(["l1", "l2"]) as cluster:
        reply = await call(cluster)
    assert NSQDS[0] in reply.value
    assert NSQDS[1] not in reply.value  # nobody knows it
    assert reply.failures
    assert all(failure.url.startswith("http://l2:4161/") for failure in reply.failures)


@pytest.mark.parametrize(("call", "action"), ON_PRODUCERS)
async def test_a_server_that_has_no_such_thing(call: Call, action: str) -> None:
    """It is a failure for a pause, which otherwise would seem to be complete."""
    fake = running()
    path = action.partition("?")[0]
    fake.answers["n1"][path] = Refused(404, "CHANNEL_NOT_FOUND")
    async with fake.cluster(["l1", "l2"]) as cluster:
        reply = await call(cluster)
        assert reply.value == (NSQDS[1],)
        codes = [error.code for error in reply.failures if isinstance(error, HTTPStatusError)]
        assert codes == (["CHANNEL_NOT_FOUND"] if path in PAUSES else [])
        fake.answers["n2"][path] = Refused(404, "CHANNEL_NOT_FOUND")
        with pytest.raises(ClusterFailed) as caught:
            await call(cluster)
    assert len(caught.value.failures) == (2 if path in PAUSES else 0)


async def test_a_delete_can_be_repeated_until_all_is_gone() -> None:
    fake = running()
    gone = Refused(404, "CHANNEL_NOT_FOUND")
    for host in ("l1", "l2", "n1"):
        fake.answers[host]["/channel/delete"] = gone
    async with fake.cluster(["l1", "l2"]) as cluster:
        assert await cluster.delete_channel("t", "c") == ClusterReply((NSQDS[1],))
        fake.answers["n2"]["/channel/delete"] = gone
        with pytest.raises(ClusterFailed, match=r"no server has this channel$") as caught:
            await cluster.delete_channel("t", "c")
    assert caught.value.failures == ()


async def test_a_topic_that_only_nsqlookupds_know_is_deleted() -> None:
    fake = FakeCluster({"l1": lookupd(), "l2": lookupd(**{"/lookup": Refused(404, "TOPIC_NOT_FOUND")})})
    async with fake.cluster(["l1", "l2"]) as cluster:
        assert await cluster.delete_topic("t") == ClusterReply((LOOKUPDS[0],))
    assert fake.posts() == ["l1/topic/delete?topic=t"]


async def test_refusals_are_failures() -> None:
    fake = running()
    fake.answers["n1"]["/topic/empty"] = Refused(500, "INTERNAL_ERROR")
    fake.answers["l1"]["/topic/create"] = Refused(400, "INVALID_ARG_TOPIC")
    async with fake.cluster(["l1", "l2"]) as cluster:
        for call in (cluster.empty_topic, cluster.create_topic):
            reply = await call("t")
            assert len(reply.value) == len(reply.failures) == 1


async def test_a_tombstone_that_some_do_not_set() -> None:
    fake = running()
    del fake.answers["l1"], fake.answers["n1"]
    async with fake.cluster(["l1", "l2"]) as cluster:
        reply = await cluster.tombstone_topic("t", "n1:4151")
    assert reply.value == (LOOKUPDS[1],)
    assert [failure.url.partition("?")[0] for failure in reply.failures] == [
        "http://l1:4161/topic/tombstone",
        "http://n1:4151/topic/delete",
    ]


# All fail


@pytest.mark.parametrize(("call", "action"), [*ACTIONS, CREATE_TOPIC])
async def test_when_all_are_down_nothing_was_done(call: Call, action: str) -> None:
    async with FakeCluster({}).cluster(["l1", "l2"]) as cluster:
        with pytest.raises(ClusterFailed, match=r"http://l1:4161/.*: refused; http://l2:4161/") as caught:
            await call(cluster)
    assert len(caught.value.failures) == 2


@pytest.mark.parametrize(("call", "action"), ON_PRODUCERS)
async def test_when_all_nsqds_fail_nothing_was_done(call: Call, action: str) -> None:
    fake = running()
    del fake.answers["n1"], fake.answers["n2"]
    async with fake.cluster(["l1", "l2"]) as cluster:
        with pytest.raises(ClusterFailed, match="nothing was done: http://n1:4151/") as caught:
            await call(cluster)
    assert [failure.url for failure in caught.value.failures] == [f"{url}{action}" for url in NSQDS]


@pytest.mark.parametrize(("call", "action"), [*ON_PRODUCERS, EVERYWHERE[1]])
async def test_a_topic_that_nobody_has_is_an_error(call: Call, action: str) -> None:
    """A name that is mistyped must not look like a success."""
    fake = FakeCluster({"l1": lookupd(**{"/lookup": Refused(404, "TOPIC_NOT_FOUND")}), "n1": nsqd("n1")})
    async with fake.cluster(["l1"], ["n1"]) as cluster:
        with pytest.raises(ClusterFailed, match=r"no server has this (topic|channel)$"):
            await call(cluster)
    assert fake.posts() == []


async def test_without_a_tombstone_nothing_is_deleted() -> None:
    fake = running()
    del fake.answers["l1"], fake.answers["l2"]
    async with fake.cluster(["l1", "l2"]) as cluster:
        with pytest.raises(ClusterFailed, match="no nsqlookupd set the tombstone: http://l1"):
            await cluster.tombstone_topic("t", "n1:4151")
    assert [post for post in fake.posts() if "delete" in post] == []


# Cancellation, and what is refused


@pytest.mark.parametrize(("call", "action"), ACTIONS)
async def test_a_cancelled_action_ends_its_requests(call: Call, action: str) -> None:
    fake = running()
    fake.answers["n1"][action.partition("?")[0]] = HANG
    async with fake.cluster(["l1", "l2"]) as cluster:
        with anyio.move_on_after(0.05) as scope:
            await call(cluster)
        assert scope.cancelled_caught
        assert fake.running == 0


async def test_a_server_that_does_not_answer_holds_nobody_up() -> None:
    fake = running()
    fake.answers["n1"]["/topic/pause"] = HANG
    async with fake.cluster(["l1", "l2"], timeout=0.5) as cluster:
        with anyio.fail_after(5):
            reply = await cluster.pause_topic("t")
    assert reply.value == (NSQDS[1],)
    assert [str(failure) for failure in reply.failures] == ["http://n1:4151: no answer within 0.5 s"]


@pytest.mark.parametrize("name", ["", "a b", "t\n", "#ephemeral", None, 5])
async def test_bad_names_are_not_sent(name: Any) -> None:
    fake = running()
    async with fake.cluster(["l1"]) as cluster:
        for operation in ("create", "delete", "empty", "pause", "unpause"):
            on_topic: Callable[[str], Awaitable[object]] = getattr(cluster, f"{operation}_topic")
            on_channel: Callable[[str, str], Awaitable[object]] = getattr(cluster, f"{operation}_channel")
            for call in (on_topic(name), on_channel(name, "c"), on_channel("t", name)):
                with pytest.raises(InvalidName):
                    await call
        with pytest.raises(InvalidName):
            await cluster.tombstone_topic(name, "n1:4151")
    assert fake.asked == []


@pytest.mark.parametrize("node", ["", "n1", "n1:", ":4151", "n1:0", "n1:65536", "n1:x", "a b:4151", None, 5])
async def test_a_node_that_is_none_is_refused(node: Any) -> None:
    fake = running()
    async with fake.cluster(["l1"]) as cluster:
        with pytest.raises(InvalidOption, match=f"node={node!r}"):
            await cluster.tombstone_topic("t", node)
    assert fake.asked == []


async def test_a_tombstone_needs_nsqlookupds() -> None:
    fake = running()
    async with fake.cluster(nsqd=["n1"]) as cluster:
        with pytest.raises(InvalidOption, match="a tombstone needs an nsqlookupd"):
            await cluster.tombstone_topic("t", "n1:4151")
    assert fake.asked == []


@pytest.mark.parametrize(("call", "action"), ACTIONS)
async def test_outside_of_its_block_it_is_closed(call: Call, action: str) -> None:
    with pytest.raises(Closed):
        await call(running().cluster(["l1"]))
