"""Surveys one after the other, which do not wait for silent servers, and use what comes late."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from nsq_anyio.http import Surveyor

from .. import virtual_time
from .fake_cluster import DOWN, HANG, FakeCluster, Late, lookupd, nsqd, topic

pytestmark = pytest.mark.anyio

anyio_backend = virtual_time.anyio_backend

N1, N2, N3 = (f"http://n{number}:4151" for number in (1, 2, 3))
STATS = "/stats?format=json&include_clients=false&include_mem=false"


def running(*others: str) -> FakeCluster:
    hosts = ["n1", "n2", "n3", *others]
    return FakeCluster({"l1": lookupd(*hosts), **{host: nsqd(host, topic()) for host in hosts}})


@asynccontextmanager
async def surveying(
    fake: FakeCluster, nsqlookupds: tuple[str, ...] = ("l1",), nsqds: tuple[str, ...] = (), **options: Any
) -> AsyncGenerator[Surveyor]:
    async with fake.cluster(nsqlookupds, nsqds, **options) as cluster, cluster.surveyor() as surveyor:
        yield surveyor


async def test_a_silent_nsqd_delays_nobody_for_long_and_is_asked_once_at_a_time() -> None:
    fake = running()
    fake.answers["n1"]["/stats"] = HANG
    async with surveying(fake, timeout=10.0) as surveyor:
        began = anyio.current_time()
        found: list[tuple[Any, str]] = []
        for number in range(6):
            await anyio.sleep_until(began + 4.0 * number)
            survey = await surveyor.survey()
            n1, n2, n3 = survey.nsqds
            found.append((pytest.approx(survey.seconds, abs=0.02), n1.error))
            assert (n1.stats.topics, n1.age) == ((), 0.0)
            assert [each.stats.topics[0].topic_name for each in (n2, n3)] == ["t", "t"]
            assert n2.age == pytest.approx(survey.seconds, abs=0.02)
        assert found == [
            (2.0, "silent for 2 s"),
            (0.0, "silent for 4 s"),  # its question is still open
            (0.0, "silent for 8 s"),
            (0.5, "silent for 13 s: no answer within 10 s"),  # that failed after 10 s, so it was asked again
            (0.0, "silent for 16 s: no answer within 10 s"),
            (0.0, "silent for 20 s: no answer within 10 s"),
        ]
        assert fake.asked.count(f"GET n1{STATS}") == 2
        assert fake.asked.count(f"GET n2{STATS}") == 6
        fake.answers["n1"] = nsqd("n1", topic())
        await anyio.sleep_until(began + 24.0)
        survey = await surveyor.survey()
        assert survey.errors == {}
        assert survey.seconds < 0.1
    assert fake.running == 0


async def test_an_answer_that_comes_late_is_a_part_of_the_next_survey() -> None:
    fake = running()
    answer = fake.answers["n1"]["/stats"]
    fake.answers["n1"]["/stats"] = Late(3.0, answer)
    async with surveying(fake) as surveyor:
        began = anyio.current_time()
        assert (await surveyor.survey()).errors == {N1: "silent for 2 s"}
        for number in (1, 2):
            await anyio.sleep_until(began + 5.0 * number)
            survey = await surveyor.survey()
            assert survey.errors == {}
            n1 = survey.nsqds[0]
            assert n1.seconds == pytest.approx(3.0, abs=0.02)
            assert n1.age == pytest.approx(2.0 + survey.seconds, abs=0.02)
            assert survey.seconds < 2.1
        assert fake.asked.count(f"GET n1{STATS}") == 3
        # It is in time again: the newer answer counts.
        fake.answers["n1"]["/stats"] = answer
        await anyio.sleep_until(began + 15.0)
        survey = await surveyor.survey()
        assert survey.nsqds[0].age < 0.1


async def test_answers_that_come_one_after_the_other_are_awaited() -> None:
    fake = running()
    for number in (1, 2, 3):
        fake.answers[f"n{number}"]["/stats"] = Late(1.5 * number, fake.answers[f"n{number}"]["/stats"])
    async with surveying(fake) as surveyor:
        survey = await surveyor.survey()
    assert survey.errors == {}
    assert survey.seconds == pytest.approx(4.5, abs=0.1)


async def test_a_silent_nsqlookupd_hides_nobody() -> None:
    fake = running()
    fake.answers["l2"] = lookupd("n3", "n4")
    fake.answers["n4"] = nsqd("n4", topic())
    async with surveying(fake, ("l1", "l2")) as surveyor:
        before = await surveyor.survey()
        assert len(before.nsqds) == 4
        fake.answers["l2"]["/nodes"] = HANG
        for seconds in (2.0, 0.0):
            survey = await surveyor.survey(also=[each.node for each in before.nsqds])
            assert [each.node.url for each in survey.nsqds] == [each.node.url for each in before.nsqds]
            assert survey.errors == {"http://l2:4161": "silent for 2 s"}
            assert survey.seconds == pytest.approx(seconds, abs=0.1)


async def test_nsqds_that_an_nsqlookupd_names_late_are_in_the_next_survey() -> None:
    fake = running()
    fake.answers["l1"]["/nodes"] = Late(3.0, fake.answers["l1"]["/nodes"])
    async with surveying(fake) as surveyor:
        assert (await surveyor.survey()).nsqds == ()
        await anyio.sleep(3.0)
        survey = await surveyor.survey()
        assert survey.errors == {}
        assert [each.node.nsqlookupds for each in survey.nsqds] == [("http://l1:4161",)] * 3


async def test_an_nsqlookupd_that_hangs_half_way_has_named_its_nsqds() -> None:
    fake = running()
    fake.answers["l1"]["/topics"] = HANG
    async with fake.cluster(["l1"]) as cluster, cluster.surveyor(include_topics=True) as surveyor:
        for seconds in (2, 6):
            survey = await surveyor.survey()
            assert survey.errors == {"http://l1:4161": f"silent for {seconds} s"}
            assert [each.node.url for each in survey.nsqds] == [N1, N2, N3]
            await anyio.sleep(4.0)


@pytest.mark.parametrize(("silent", "most"), [(130, 256), (1000, 256), (130, 16), (7, 1)])
async def test_many_silent_servers_leave_room_for_the_others(silent: int, most: int) -> None:
    hosts = [f"s{number}" for number in range(silent)]
    fake = FakeCluster({host: {"/stats": HANG} for host in hosts})
    fake.answers["n1"] = nsqd("n1", topic())
    async with surveying(fake, (), (*hosts, "n1"), concurrency=most) as surveyor:
        began = anyio.current_time()
        heard = math.inf
        for number in range(4 * (silent // most) + 10):
            await anyio.sleep_until(began + 5.0 * number)
            survey = await surveyor.survey()
            assert survey.seconds < 2.1
            assert len(survey.nsqds) == silent + 1
            await anyio.sleep(0.01)
            assert fake.running <= most // 2
            # Once it has answered, it is asked first.
            assert (N1 in survey.errors) == (number < heard) or heard == math.inf
            if N1 not in survey.errors:
                heard = min(heard, number)
        assert heard <= 2 * silent / most
        assert (await surveyor.survey()).seconds < 0.6
        assert fake.at_once <= most
        asked = [line for line in fake.asked if line.startswith("GET s")]
        assert set(asked) == {f"GET {host}{STATS}" for host in hosts}
    assert fake.running == 0


async def test_a_server_for_which_there_is_no_room_is_not_called_silent() -> None:
    fake = FakeCluster({host: {"/stats": HANG} for host in ("s1", "s2", "s3")})
    async with surveying(fake, (), ("s1", "s2", "s3"), concurrency=2) as surveyor:
        survey = await surveyor.survey()
    assert sorted(survey.errors.values()) == ["not asked: 2 servers are silent", *2 * ["silent for 2 s"]]


async def test_a_server_that_is_gone_is_no_longer_asked() -> None:
    fake = running()
    fake.answers["n1"]["/stats"] = HANG
    async with surveying(fake, timeout=1000.0) as surveyor:
        await surveyor.survey()
        assert fake.running == 1
        fake.answers["l1"] = lookupd("n2", "n3")
        await surveyor.survey()
        await surveyor.survey()
        await anyio.sleep(0.01)
        assert fake.running == 0


async def test_a_server_that_refuses_is_not_silent() -> None:
    fake = running()
    async with surveying(fake) as surveyor:
        for answer, error in ((HANG, "silent for 2 s"), (DOWN, "silent for 7 s"), (DOWN, "refused")):
            fake.answers["n1"]["/stats"] = answer
            assert (await surveyor.survey()).errors == {N1: error}
            await anyio.sleep(5.0 if answer is HANG else 10.0)


async def test_it_can_be_cancelled_and_goes_on() -> None:
    fake = running()
    fake.answers["n1"]["/stats"] = HANG
    async with surveying(fake) as surveyor:
        with anyio.move_on_after(0.5) as scope:
            await surveyor.survey()
        assert scope.cancelled_caught
        assert (await surveyor.survey()).errors == {N1: "silent for 1 s"}
    assert fake.running == 0


async def test_the_errors_of_the_block_are_not_wrapped() -> None:
    with pytest.raises(ZeroDivisionError):
        async with surveying(running()):
            raise ZeroDivisionError
