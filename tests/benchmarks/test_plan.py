"""The tables of workloads and contenders fit together, and a run goes on where it was interrupted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest

from ..real_servers import RealServer
from .clients.task import Task
from .contenders import CONTENDERS, GO, OURS, PEERS, Contender
from .contenders import SHOWN as SHOWN_CLIENTS
from .driver import Plan, rounds_left
from .environments import Unavailable
from .interpreter import MeasuredPython
from .measure import task_for
from .nsqds import Nsqds
from .results import Failure, Run
from .samples import NEW, run_of, sample
from .surroundings import ONE_CORE, PINNINGS, SHARED, TWO_CORES
from .workloads import RATE, SHOWN, WORKLOADS, Workload

BY_NAME = {workload.name: workload for workload in WORKLOADS}
PYTHON = MeasuredPython("python", NEW, {"trio": "0.32"})
PUBLISH, RDY_1 = BY_NAME["publish-1"], BY_NAME["iterate-rdy-1"]
FIRST, SECOND = OURS[0], GO


def task(workload: Workload, contender: Contender) -> Task:
    class Server:
        tcp_address = "127.0.0.1:4150"

    servers = [cast("RealServer", Server())] * workload.nsqds
    return task_for(workload, contender, Nsqds(servers), "topic")


def test_names_are_unique() -> None:
    for names in ([*BY_NAME], [contender.name for contender in CONTENDERS]):
        assert len(set(names)) == len(names)
    assert len(BY_NAME) == len(WORKLOADS)


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
@pytest.mark.parametrize("quick", [False, True])
def test_messages_can_be_divided(workload: Workload, quick: bool) -> None:
    for contender in CONTENDERS:
        found = task(workload.quick() if quick else workload, contender)
        assert found.timed >= 1
        assert found.timed % found.batch == found.warm_up % found.batch == 0
        assert found.messages % workload.nsqds == 0


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_there_is_somebody_to_compare_with(workload: Workload) -> None:
    taking_part = [contender.name for contender in CONTENDERS if contender.takes_part(workload)]
    assert workload.reference in taking_part
    assert {OURS[0].name, OURS[-2].name} <= set(taking_part)


def test_the_codec_takes_part_in_what_is_main() -> None:
    taking_part = {
        workload.name
        for workload in WORKLOADS
        for contender in OURS
        if contender.codec and contender.takes_part(workload)
    }
    rdy = {f"iterate-rdy-{count}" for count in (2500, 200, 10, 1)}
    publish = {f"publish-{kind}" for kind in ("1", "100", "pipelined", "coalesced", "many")}
    others = {"run-10-rdy-10", "latency", "latency-rdy-1", "to-http", "start"}
    assert taking_part == rdy | publish | others


def test_what_the_page_shows_is_measured_by_rate_with_all_pinnings() -> None:
    assert set(SHOWN) <= set(BY_NAME)
    for workload in map(BY_NAME.__getitem__, SHOWN):
        assert workload.main
        assert workload.metrics[0] == RATE
        absent = {client.name for client in SHOWN_CLIENTS if not client.takes_part(workload)}
        assert absent == ({peer.name for peer in PEERS} if workload.coalesce else set())


def test_the_codec_is_switched_by_the_environment() -> None:
    assert {contender.environment["NSQ_ANYIO_CODEC"] for contender in OURS if contender.codec} == {"compiled"}
    assert {contender.environment["NSQ_ANYIO_CODEC"] for contender in OURS if not contender.codec} == {
        "python"
    }


def test_what_the_measured_python_lacks_is_unavailable() -> None:
    asyncio, asyncio_codec, uvloop, _, trio, _ = OURS
    for contender in (asyncio, trio):
        assert contender.prepare(PYTHON)[0] == "python"
    for contender in (asyncio_codec, uvloop):
        with pytest.raises(Unavailable, match="not installed"):
            contender.prepare(PYTHON)
    assert asyncio_codec.prepare(MeasuredPython("python", NEW, {}, has_codec=True))[0] == "python"


def plan(rounds: int = 3) -> Plan:
    return Plan(
        session="new",
        python=PYTHON,
        workloads=[PUBLISH, RDY_1],
        contenders=[FIRST, *PEERS, SECOND],
        pinnings=[ONE_CORE, TWO_CORES],
        rounds=rounds,
    )


def left(run: Run, contenders: Sequence[Contender] = (FIRST, SECOND)) -> list[int]:
    return rounds_left(run, plan(), RDY_1, ONE_CORE, contenders)


def test_only_main_workloads_have_all_pinnings() -> None:
    assert plan().pinnings_of(RDY_1) == [ONE_CORE, TWO_CORES]
    assert plan().pinnings_of(BY_NAME["tls"]) == [ONE_CORE]


def test_the_other_python_clients_are_measured_with_the_first_pinning_alone() -> None:
    assert [plan().takes_part(PEERS[0], RDY_1, pinning) for pinning in (ONE_CORE, TWO_CORES)] == [True, False]
    assert [plan().takes_part(GO, RDY_1, pinning) for pinning in (ONE_CORE, TWO_CORES)] == [True, True]


def test_complete_rounds_are_not_measured_again() -> None:
    run = run_of(
        sample(FIRST.name, 1, 0),
        sample(SECOND.name, 1, 0),
        sample(FIRST.name, 1, 1),
        sample(SECOND.name, 1, 1, pinning="two cores"),
        sample(SECOND.name, 1, 1, workload="publish-1"),
    )
    kept = [each for each in run.samples if each is not run.samples[2]]
    assert left(run) == [1, 2]
    assert run.samples == kept  # the half of a round would be compared with another time


def test_everything_is_left_at_first_and_nothing_at_the_end() -> None:
    assert left(run_of()) == [0, 1, 2]
    done = run_of(*(sample(name, 1, round_) for name in (FIRST.name, SECOND.name) for round_ in range(3)))
    assert left(done) == []
    assert len(done.samples) == 6
    assert rounds_left(done, plan(2), RDY_1, ONE_CORE, [FIRST]) == []
    assert len(done.samples) == 6  # of more rounds than asked for


def test_who_has_failed_is_not_waited_for() -> None:
    run = run_of(*(sample(FIRST.name, 1, round_) for round_ in range(3)))
    run.failures.append(
        Failure(
            session="new", pinning="one core", workload=RDY_1.name, contender=SECOND.name, reason="it ended"
        )
    )
    assert left(run) == []


def test_pinnings_have_names_and_cores() -> None:
    assert [pinning.name for pinning in PINNINGS] == ["two cores shared", "two cores", "one core"]
    assert set(ONE_CORE.client) == set(ONE_CORE.servers)
    assert not set(TWO_CORES.client) & set(TWO_CORES.servers)
    assert SHARED.client == SHARED.servers
