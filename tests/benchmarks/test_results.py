"""The tables of the benchmarks fit together, and their figures are computed right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest

from ..real_servers import RealServer
from .clients.task import Task
from .contenders import CONTENDERS, GO, PEERS, Contender
from .markdown import write_markdown
from .measure import task_for
from .nsqds import Nsqds
from .results import Failure, Run, Sample, Spread
from .targets import ON, TARGETS, Target, check
from .workloads import WORKLOADS, Workload

OURS = ON[0]


def sample(number: int, contender: str, rate: float) -> Sample:
    return Sample("iterate-rdy-1", contender, number, {"rate": rate})


def task(workload: Workload, contender: Contender) -> Task:
    class Server:
        tcp_address = "127.0.0.1:4150"

    servers = [cast("RealServer", Server())] * workload.nsqds
    return task_for(workload, contender, Nsqds(servers), "topic")


def test_names_are_unique() -> None:
    for names in ([work.name for work in WORKLOADS], [contender.name for contender in CONTENDERS]):
        assert len(set(names)) == len(names)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: f"{target.workload} {target}")
def test_targets_are_about_what_is_measured(target: Target) -> None:
    (workload,) = [workload for workload in WORKLOADS if workload.name == target.workload]
    assert target.metric in {metric.key for metric in workload.metrics}
    assert (target.at_least is None) != (target.at_most is None)
    taking_part = {contender.name for contender in CONTENDERS if contender.takes_part(workload)}
    assert set(target.beside) <= taking_part


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
@pytest.mark.parametrize("quick", [False, True])
def test_messages_can_be_divided(workload: Workload, quick: bool) -> None:
    for contender in CONTENDERS:
        found = task(workload.quick() if quick else workload, contender)
        assert found.timed >= 1
        assert found.timed % found.batch == found.warm_up % found.batch == 0
        assert found.messages % workload.nsqds == 0


def test_ratios_are_taken_within_a_round() -> None:
    # The machine was twice as fast in the second round, and go-nsq took no part in the third.
    run = Run(
        samples=[
            sample(0, OURS, 300),
            sample(0, GO.name, 100),
            sample(1, GO.name, 200),
            sample(1, OURS, 400),
            sample(2, OURS, 9000),
        ]
    )
    assert run.ratios("iterate-rdy-1", "rate", OURS, GO.name) == Spread(2.5, 2, 3, 2)
    assert run.spread("iterate-rdy-1", OURS, "rate") == Spread(400, 300, 9000, 3)


def test_a_target_is_held_against_the_best_of_the_others() -> None:
    target = Target(workload="iterate-rdy-1", beside=(PEERS[0].name, PEERS[1].name), at_least=4)
    rates = {OURS: 1000, PEERS[0].name: 100, PEERS[1].name: 260}
    run = Run(samples=[sample(0, name, rate) for name, rate in rates.items()])
    verdict, other = check(run, [target])
    assert verdict.contender == OURS
    assert verdict.found is not None
    assert verdict.found.median == pytest.approx(1000 / 260)
    assert verdict.holds is False
    assert other.holds is None

    without_the_best = Run(samples=[found for found in run.samples if found.contender != PEERS[1].name])
    assert check(without_the_best, [target])[0].holds is None
    without_the_best.unavailable[PEERS[1].name] = "it does not install"
    assert check(without_the_best, [target])[0].holds is True


@pytest.mark.parametrize(("figure", "holds"), [(9.9, True), (10.1, False)])
def test_a_target_without_others_bounds_the_figure(figure: float, holds: bool) -> None:
    run = Run(samples=[Sample("memory", OURS, 0, {"rss_growth": figure})])
    (target,) = [target for target in TARGETS if target.workload == "memory"]
    assert check(run, [target])[0].holds is holds


def test_what_was_saved_can_be_loaded(tmp_path: Path) -> None:
    run = Run(about={"rounds": "1"}, samples=[sample(0, OURS, 300)], unavailable={"pynsq": "why"})
    path = tmp_path / "results" / "run.json"
    run.save(path, [verdict.as_json() for verdict in check(run)])
    assert Run.load(path) == run
    assert json.loads(path.read_text())["targets"][0]["holds"] is None


def test_of_a_workload_in_several_runs_the_last_counts() -> None:
    first = Run(
        about={"cores": "2"},
        samples=[sample(0, OURS, 1.0), Sample("tls", OURS, 0, {"rate": 5.0})],
        failures=[Failure("tls", "ansq", "cannot")],
    )
    second = Run(samples=[sample(0, OURS, 2.0), sample(0, GO.name, 3.0)], unavailable={"gnsq": "no wheel"})
    whole = Run.merged([first, second])
    assert whole.samples == [first.samples[1], *second.samples]
    assert (whole.about, whole.failures, whole.unavailable) == (
        first.about,
        first.failures,
        second.unavailable,
    )


def test_the_tables_of_the_docs_show_medians_ratios_and_misses(tmp_path: Path) -> None:
    run = Run(samples=[sample(0, ON[0], 50.0), sample(0, ON[1], 90.0), sample(0, GO.name, 100.0)])
    write_markdown(run, check(run), tmp_path / "tables.md")
    text = (tmp_path / "tables.md").read_text(encoding="utf-8")
    assert (
        "| iterate and finish, RDY 1, msg/s | 50 | 90 | 100 | 0.50 (0.50 to 0.50) | 0.90 (0.90 to 0.90) |"
        in text
    )
    assert "| iterate-rdy-1 | rate | >= 0.8 x go-nsq | asyncio | 0.5 | **no** |" in text
    assert "| iterate-rdy-1 | rate | >= 0.8 x go-nsq | trio | 0.9 | yes |" in text
