"""Work on dead letters, on an embedded nsqd."""

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio import envelope
from nsq_anyio.admin.messages.jobs import Job, JobRefused, Jobs
from nsq_anyio.admin.messages.topic_nodes import TopicNode
from nsq_anyio.admin.upstream import Upstream
from nsq_anyio.dead_letters import Filter
from nsq_anyio.options import ConnectionOptions
from nsq_anyio.testing import fault_proxy

from ... import virtual_time
from .stage import Stage, ended, stage

anyio_backend = virtual_time.anyio_backend
pytestmark = pytest.mark.anyio

ALL = Filter()
LETTERS = Filter(letters_only=True)


async def die(on: Stage, topic: str, bodies: list[bytes]) -> str:
    """Publish messages whose consumer discards them; return the topic of their letters."""
    dead = f"{topic}.dead"
    for name, channel in ((topic, "c"), (dead, "dead-letter")):
        await on.http.create_topic(name)
        await on.http.create_channel(name, channel)
    async with nsq.produce(on.nsqd.tcp_address) as producer:
        await producer.publish_many(topic, bodies)
        dead_letter = nsq.DeadLetter("{topic}.dead", producer=producer)
        async with nsq.consume(topic, "c", nsqd=on.nsqd.tcp_address, dead_letter=dead_letter) as consumer:
            for number in range(len(bodies)):
                async with await anext(consumer):
                    raise nsq.Discard(f"error {number}")
    await on.seen(dead)
    return dead


async def depth(on: Stage, topic: str, channel: str) -> int:
    found = (await on.channels(topic))[channel]
    assert (found.in_flight_count, found.deferred_count) == (0, 0)
    return found.depth


async def work(jobs: Jobs, topic: str, kind: str, meant: Filter = LETTERS, limit: int = 0) -> Job:
    job = jobs.start(topic, "dead-letter", kind, meant, limit)  # type: ignore[arg-type]
    await ended(job)
    return job


async def test_letters_are_listed_and_stay() -> None:
    async with stage() as on:
        dead = await die(on, "t", [b"one", b"two", envelope.encode(b"{}", {"h": "v"})])
        await on.http.publish(dead, b"stray")
        jobs = on.jobs()
        for _ in range(2):
            job = await work(jobs, dead, "list", ALL)
            assert (job.state, job.visited, job.problem, job.notes) == ("done", 4, "", [])
            listing = jobs.listing(dead, "dead-letter")
            assert listing is not None
            assert (listing.count, listing.others, listing.is_cut) == (4, 1, False)
            assert sorted(row.error for row in listing.rows if not row.problem) == [
                "nsq_anyio.errors.Discard: error 0",
                "nsq_anyio.errors.Discard: error 1",
                "nsq_anyio.errors.Discard: error 2",
            ]
            assert await depth(on, dead, "dead-letter") == 4


async def test_a_list_is_bounded() -> None:
    async with stage(letters=5) as on:
        dead = await die(on, "t", [b"%d" % number for number in range(12)])
        jobs = on.jobs()
        job = await work(jobs, dead, "list", ALL)
        listing = jobs.listing(dead, "dead-letter")
        assert job.state == "done"
        assert listing is not None
        assert (len(listing.rows), listing.is_cut) == (5, True)
        assert await depth(on, dead, "dead-letter") == 12


async def test_selected_letters_are_retried_and_dropped() -> None:
    async with stage() as on:
        dead = await die(on, "t", [b"one", b"two", b"three"])
        await on.http.publish(dead, b"stray")
        jobs = on.jobs()
        await work(jobs, dead, "list", ALL)
        listing = jobs.listing(dead, "dead-letter")
        assert listing is not None
        (second,) = [row.key for row in listing.rows if row.error.endswith("error 1")]
        job = await work(jobs, dead, "retry", Filter(keys=[second], letters_only=True), limit=1)
        assert (job.state, job.done, job.left) == ("done", 1, 0)
        assert await depth(on, "t", "c") == 1
        assert second not in [row.key for row in listing.rows]
        assert listing.count == 3
        job = await work(jobs, dead, "drop", Filter(error="error 0", letters_only=True))
        assert (job.done, await depth(on, dead, "dead-letter")) == (1, 2)
        job = await work(jobs, dead, "drop")
        assert (job.done, await depth(on, dead, "dead-letter")) == (1, 1)  # the stray message stays
        assert await depth(on, "t", "c") == 1


async def test_a_letter_is_not_dropped_before_nsqd_has_confirmed_it() -> None:
    """The connection is lost while the FINs are on their way."""
    async with stage() as on, fault_proxy(on.nsqd.tcp_address) as proxy:
        dead = await die(on, "t", [b"one", b"two", b"three"])
        on.connection = ConnectionOptions(map_address={on.nsqd.tcp_address: proxy.address})
        jobs = on.jobs()
        await work(jobs, dead, "list", ALL)
        proxy.to_server.delay = 0.8
        job = jobs.start(dead, "dead-letter", "drop", LETTERS)
        while not job.done:  # noqa: ASYNC110 - it tells nobody
            await anyio.sleep(0.01)
        await proxy.refuse()
        proxy.cut()
        await ended(job)
        assert (job.done, job.unconfirmed, len(job.notes)) == (0, 3, 1)
        listing = jobs.listing(dead, "dead-letter")
        assert listing is not None
        assert len(listing.rows) == 3


async def test_one_job_runs_on_a_channel() -> None:
    async with stage(jobs=2) as on:
        for topic in ("a", "b", "c"):
            await on.topic(topic, "dead-letter")
        jobs = on.jobs()
        first = jobs.start("a", "dead-letter", "list", ALL)
        with pytest.raises(JobRefused, match="A job is running"):
            jobs.start("a", "dead-letter", "drop", LETTERS)
        second = jobs.start("b", "dead-letter", "list", ALL)
        with pytest.raises(JobRefused, match="2 jobs are running"):
            jobs.start("c", "dead-letter", "list", ALL)
        await ended(first)
        await ended(second)
        await work(jobs, "c", "list")
        with pytest.raises(JobRefused, match="ephemeral"):
            jobs.start("c", "x#ephemeral", "list", ALL)


async def test_a_job_creates_nothing_by_a_wrong_name() -> None:
    async with stage() as on:
        await on.topic("t", "archive")
        jobs = on.jobs()
        for topic, channel in (("t", "dead-letter"), ("none", "dead-letter")):
            job = jobs.start(topic, channel, "list", ALL)
            await ended(job)
            assert job.state == "failed", job.problem
        assert (await on.topics(), sorted(await on.channels("t"))) == (["t"], ["archive"])


@pytest.mark.parametrize("what", ["topic", "channel"])
async def test_it_says_that_it_has_made_a_channel_again(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is deleted between the answer of nsqd and SUB, which nothing can prevent."""
    async with stage() as on:
        dead = await die(on, "t", [b"one"])
        again = TopicNode.again
        answers = 0

        async def deleted_meanwhile(node: TopicNode, upstream: Upstream, limit: float) -> TopicNode | None:
            nonlocal answers
            answer = await again(node, upstream, limit)
            answers += 1
            if answers == 1:
                await (
                    on.http.delete_topic(dead)
                    if what == "topic"
                    else on.http.delete_channel(dead, "dead-letter")
                )
            return answer

        monkeypatch.setattr(TopicNode, "again", deleted_meanwhile)
        job = await work(on.jobs(), dead, "drop")
        assert (job.state, job.done) == ("done", 0)
        (note,) = job.notes
        assert "the channel was deleted right before this job subscribed to it, and is there again" in note
        assert await depth(on, dead, "dead-letter") == 0


async def test_the_first_channel_of_a_topic_gets_what_waits() -> None:
    async with stage() as on:
        await on.topic("t.dead")
        await on.http.publish("t.dead", b"waits")
        jobs = on.jobs()
        job = await work(jobs, "t.dead", "list", ALL)
        assert job.visited == 1
        assert await depth(on, "t.dead", "dead-letter") == 1


async def test_a_job_is_stopped() -> None:
    async with stage() as on:
        dead = await die(on, "t", [b"one"])
        jobs = on.jobs()
        job = jobs.start(dead, "dead-letter", "list", ALL)
        jobs.stop(dead, "dead-letter")
        states = [job.state]
        await ended(job)
        assert [*states, job.state] == ["stopping", "stopped"]
        assert await depth(on, dead, "dead-letter") == 1


@pytest.mark.parametrize("kind", ["list", "drop", "retry"])
async def test_cancelled_a_job_hands_back_what_it_holds(kind: str) -> None:
    async with stage() as on:
        dead = await die(on, "t", [b"%d" % number for number in range(300)])
        jobs = on.jobs()
        meant = ALL if kind == "list" else Filter(error="error 1", letters_only=True)
        job = jobs.start(dead, "dead-letter", kind, meant)  # type: ignore[arg-type]
        while not job.visited and job.is_running:  # noqa: ASYNC110 - it tells nobody
            await anyio.sleep(0.001)
        on.tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True), anyio.fail_after(10):
            while job.is_running:  # noqa: ASYNC110 - as above
                await anyio.sleep(0.01)
            left = (await on.channels(dead))["dead-letter"]
            while left.in_flight_count:
                left = (await on.channels(dead))["dead-letter"]
            assert left.depth + job.done >= 300
            if kind == "retry":
                assert (await on.channels("t"))["c"].depth >= job.done
