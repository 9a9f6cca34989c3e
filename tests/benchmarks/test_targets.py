"""The targets are about what is measured, and hold only if they hold everywhere."""

from __future__ import annotations

import pytest

from .contenders import CONTENDERS, GO, PEERS, ours
from .results import Failure
from .samples import run_of, sample
from .targets import TARGETS, Target, check
from .workloads import GROWTH, P99, WORKLOADS

OURS = ours("asyncio")
TWICE = Target(workload="iterate-rdy-1", loop="asyncio", bound=2)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: f"{target.workload} {target} {target.loop}")
def test_targets_are_about_what_is_measured(target: Target) -> None:
    (workload,) = [workload for workload in WORKLOADS if workload.name == target.workload]
    assert target.metric in workload.metrics
    taking_part = {contender.name for contender in CONTENDERS if contender.takes_part(workload)}
    assert {*target.beside, ours(target.loop, codec=target.codec)} <= taking_part


def test_a_target_is_held_against_the_best_of_the_others() -> None:
    first, second = PEERS[0].name, PEERS[1].name
    target = Target(workload="iterate-rdy-1", loop="asyncio", beside=(first, second), bound=4)
    run = run_of(sample(OURS, 1000), sample(first, 100), sample(second, 260))
    (verdict,) = check(run, [target])
    assert verdict.found["one core"].median == pytest.approx(1000 / 260)
    assert verdict.holds is False

    without_the_best = run_of(sample(OURS, 1000), sample(first, 100))
    assert check(without_the_best, [target])[0].holds is None
    without_the_best.sessions["new"].unavailable[second] = "it does not install"
    assert check(without_the_best, [target])[0].holds is True


def test_who_failed_elsewhere_is_missed_here() -> None:
    run = run_of(sample(OURS, 300))
    where = {"session": "new", "workload": "iterate-rdy-1", "contender": GO.name, "reason": "it ended"}
    run.failures.append(Failure(**where, pinning="two cores"))
    assert check(run, [TWICE])[0].found == {}


@pytest.mark.parametrize(("on_two_cores", "holds"), [(250, True), (190, False)])
def test_a_target_holds_if_it_does_with_each_pinning(on_two_cores: float, holds: bool) -> None:
    run = run_of(
        sample(OURS, 300),
        sample(GO.name, 100),
        sample(OURS, on_two_cores, pinning="two cores"),
        sample(GO.name, 100, pinning="two cores"),
    )
    (verdict,) = check(run, [TWICE])
    assert {name: spread.median for name, spread in verdict.found.items()} == {
        "one core": 3,
        "two cores": on_two_cores / 100,
    }
    assert verdict.holds is holds


def test_each_interpreter_is_judged() -> None:
    run = run_of(
        sample(OURS, 150, session="old"),
        sample(GO.name, 100, session="old"),
        sample(OURS, 300),
        sample(GO.name, 100),
    )
    assert [(verdict.python, verdict.holds) for verdict in check(run, [TWICE])] == [
        ("3.14", True),
        ("3.11", False),
    ]


def test_the_codec_is_judged_where_it_was_measured_and_alone_where_the_target_asks_for_it() -> None:
    with_codec = Target(workload="iterate-rdy-1", loop="asyncio", bound=2, codec=True)
    run = run_of(sample(OURS, 150), sample(GO.name, 100))
    assert [(verdict.contender, verdict.holds) for verdict in check(run, [TWICE, with_codec])] == [
        (OURS, False),
        (ours("asyncio", codec=True), None),
    ]
    run.samples.append(sample(ours("asyncio", codec=True), 250))
    assert [(verdict.contender, verdict.holds) for verdict in check(run, [TWICE, with_codec])] == [
        (OURS, False),
        (ours("asyncio", codec=True), True),
        (ours("asyncio", codec=True), True),
    ]


@pytest.mark.parametrize(("figure", "holds"), [(1.0, True), (1.3, False)])
def test_a_latency_is_bounded_from_above(figure: float, holds: bool) -> None:
    target = Target(workload="latency", loop="asyncio", bound=1.1, metric=P99)
    run = run_of(sample(OURS, figure, workload="latency"), sample(GO.name, 1, workload="latency"))
    assert check(run, [target])[0].holds is holds


@pytest.mark.parametrize(("figure", "holds"), [(9.9, True), (10.1, False)])
def test_a_target_without_others_bounds_the_figure(figure: float, holds: bool) -> None:
    run = run_of(sample(OURS, 0, workload="memory"))
    run.samples[0].values[GROWTH.key] = figure
    (target, _) = [target for target in TARGETS if target.workload == "memory"]
    assert check(run, [target])[0].holds is holds
