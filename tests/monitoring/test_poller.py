"""The poller: when it asks, whom, and what it keeps."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from nsq_anyio.errors import InvalidOption
from nsq_anyio.monitoring import Poller

from .. import virtual_time
from ..http.fake_cluster import HANG, FakeCluster, lookupd, nsqd, topic

pytestmark = pytest.mark.anyio

anyio_backend = virtual_time.anyio_backend

N1 = "http://n1:4151"
N2 = "http://n2:4151"
L1 = "http://l1:4161"


def running() -> FakeCluster:
    return FakeCluster(
        {
            "l1": lookupd("n1", "n2"),
            "n1": nsqd("n1", topic("t", message_count=5)),
            "n2": nsqd("n2", topic("t", message_count=5)),
        }
    )


@asynccontextmanager
async def polling(
    fake: FakeCluster, nsqds: tuple[str, ...] = (), timeout: float = 2.0, **options: Any
) -> AsyncGenerator[Poller]:
    async with fake.cluster(["l1"], nsqds, timeout=timeout) as cluster:
        async with Poller(cluster, **options) as poller:
            yield poller


async def test_it_asks_once_per_interval_however_many_wait() -> None:
    fake = running()
    async with polling(fake, interval=5.0) as poller:
        assert poller.last is None
        began = anyio.current_time()
        numbers: list[int] = []

        async def wait() -> None:
            poll = await poller.after(None)
            numbers.append((await poller.after(poll)).number)

        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(wait)
        assert numbers == [2] * 10
        assert 5.0 <= anyio.current_time() - began < 5.1
        assert poller.last is not None
        assert (await poller.after(None)) is poller.last
        assert fake.asked.count("GET l1/nodes") == 2


async def test_who_is_in_a_hurry_waits_for_a_second_at_most() -> None:
    fake = running()
    async with polling(fake, interval=60.0) as poller:
        view = await poller.after(None)
        began = anyio.current_time()
        for _ in range(3):
            poller.poll_soon()
            poller.poll_soon()
            view = await poller.after(view)
        assert view.number == 4
        assert 2.9 < anyio.current_time() - began < 3.1
        await poller.after(view)
        assert 62.9 < anyio.current_time() - began < 63.1


async def test_rates_come_with_the_second_poll() -> None:
    fake = running()
    async with polling(fake, interval=4.0) as poller:
        first = await poller.after(None)
        assert (first.number, first.figures.rates) == (1, {})
        fake.answers["n1"] = nsqd("n1", topic("t", message_count=25))
        second = await poller.after(first)
    assert second.figures.rates["t", ""].ingress == pytest.approx(5.0, rel=0.01)


async def test_a_silent_nsqd_delays_the_figures_of_others_once_and_only_for_a_moment() -> None:
    fake = running()
    async with polling(fake, timeout=9.0, interval=5.0) as poller:
        poll = await poller.after(None)
        began = anyio.current_time()
        fake.answers["n1"]["/stats"] = HANG
        ends: list[float] = []
        for number in range(1, 5):
            fake.answers["n2"] = nsqd("n2", topic("t", message_count=5 + 50 * number))
            poll = await poller.after(poll)
            ends.append(anyio.current_time() - began)
            assert poll.survey.errors.keys() == {N1}
            # Though the polls end after different times.
            assert poll.figures.rates["t", ""].ingress == pytest.approx(10.0, rel=0.01)
        assert ends == pytest.approx([7.0, 10.0, 15.5, 20.0], abs=0.1)


async def test_a_poll_says_since_when_each_server_has_failed() -> None:
    fake = running()
    async with polling(fake, interval=1.0) as poller:
        poll = await poller.after(None)
        assert poll.failing_since == {}
        kept = fake.answers.pop("n1")
        first = await poller.after(poll)
        fake.answers["n2"]["/stats"] = HANG
        second = await poller.after(first)
        third = await poller.after(second)
        assert third.failing_since == {N1: first.survey.time, N2: second.survey.time}
        fake.answers["n1"] = kept
        assert (await poller.after(third)).failing_since == {N2: second.survey.time}


async def test_it_has_a_poll_though_all_servers_are_silent() -> None:
    hosts = [f"s{number}" for number in range(130)]
    fake = FakeCluster({"l1": lookupd("n1", *hosts), **{host: {"/stats": HANG} for host in hosts}})
    fake.answers["n1"] = nsqd("n1", topic("t"))
    async with fake.cluster(["l1"], concurrency=256) as cluster, Poller(cluster, interval=5.0) as poller:
        began = anyio.current_time()
        poll = await poller.after(None)
        assert anyio.current_time() - began < 2.2
        assert [each.total.topic_name for each in poll.topics] == ["t"]
        assert len(poll.survey.errors) == 130


async def test_an_nsqd_that_crashed_is_down_and_one_that_lost_its_nsqlookupd_is_not() -> None:
    fake = running()
    async with polling(fake, interval=1.0) as poller:
        poll = await poller.after(None)
        fake.answers["l1"] = lookupd()
        del fake.answers["n2"]
        poll = await poller.after(poll)
    n1, n2 = poll.survey.nsqds
    assert (n1.node.url, n1.error, n1.node.nsqlookupds) == (N1, "", ())
    assert (n2.node.url, n2.error, n2.node.broadcast_address) == (N2, "refused", "n2")
    assert poll.survey.nsqlookupds[0].nodes == ()


async def test_an_nsqd_is_forgotten_that_neither_answers_nor_is_named() -> None:
    fake = running()
    # Between two polls: how long a poll itself takes decides at its edge.
    async with polling(fake, interval=1.0, forget_after=3.5) as poller:
        await poller.after(None)
        fake.answers["l1"] = lookupd()
        del fake.answers["n2"]
        found: list[list[str]] = []
        for _ in range(7):
            poll = await poller.after(poller.last)
            found.append([each.node.url for each in poll.survey.nsqds])
    assert found[:3] == [[N1, N2]] * 3
    assert found[-3:] == [[N1]] * 3


async def test_nsqds_that_were_given_are_never_forgotten() -> None:
    fake = FakeCluster({"l1": lookupd()})
    async with polling(fake, ("n1",), interval=1.0, forget_after=0.0) as poller:
        for _ in range(4):
            poll = await poller.after(poller.last)
            assert poll.survey.errors == {N1: "refused"}


async def test_it_remembers_only_so_many() -> None:
    fake = FakeCluster({"l1": lookupd()})
    async with polling(fake, interval=1.0, timeout=1000.0) as poller:
        for round_ in range(3):
            hosts = [f"r{round_}-{number}" for number in range(600)]
            fake.answers["l1"] = lookupd(*hosts)
            poll = await poller.after(poller.last)
            if round_:
                poll = await poller.after(poll)
            # Those that are named now, and at most a thousand others.
            assert len(poll.survey.nsqds) <= 1600


async def test_it_goes_on_when_no_server_answers() -> None:
    fake = FakeCluster({})
    async with polling(fake, interval=1.0) as poller:
        poll = await poller.after(None)
        assert poll.survey.errors == {L1: "refused"}
        fake.answers |= running().answers
        poll = await poller.after(poll)
        assert poll.survey.errors == {}


async def test_failures_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "nsq_anyio.monitoring")
    fake = running()
    kept = fake.answers.pop("n1")
    async with polling(fake, interval=1.0, forget_after=2.0) as poller:
        await poller.after(await poller.after(await poller.after(None)))
        fake.answers["n1"] = kept
        await poller.after(poller.last)
        fake.answers["l1"] = lookupd("n1")
        del fake.answers["n2"]
        for _ in range(6):
            await poller.after(poller.last)
    assert [record.getMessage() for record in caplog.records] == [
        f"{N1}: refused",
        f"{N1}: answers again",
        f"{N2}: refused",
        f"{N2}: gone, and no longer asked",
    ]


@pytest.mark.parametrize("options", [{"interval": 0}, {"interval": float("nan")}, {"forget_after": -1}])
async def test_options_out_of_range(options: dict[str, Any]) -> None:
    async with running().cluster(["l1"]) as cluster:
        with pytest.raises(InvalidOption, match=next(iter(options))):
            Poller(cluster, **options)


async def test_its_block_ends_at_once_in_the_middle_of_a_survey() -> None:
    fake = running()
    fake.answers["n1"]["/stats"] = HANG
    began = anyio.current_time()
    async with polling(fake, timeout=1000.0):
        await anyio.sleep(0.1)
    assert anyio.current_time() - began < 1.0
    assert fake.running == 0
