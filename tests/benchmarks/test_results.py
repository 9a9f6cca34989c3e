"""What is computed from samples: medians, ratios, the worst of several sessions, and what is kept of them."""

from __future__ import annotations

import json
from pathlib import Path

from .contenders import GO, ours
from .results import Failure, Run, Setting, Spread
from .samples import ONE_CORE, TWO_CORES, run_of, sample
from .targets import check
from .workloads import P99, RATE

OURS = ours("asyncio")


def test_ratios_are_taken_within_a_round() -> None:
    # The machine was twice as fast in the second round, and go-nsq took no part in the third.
    run = run_of(
        sample(OURS, 300, 0),
        sample(GO.name, 100, 0),
        sample(GO.name, 200, 1),
        sample(OURS, 400, 1),
        sample(OURS, 9000, 2),
    )
    assert run.ratios("iterate-rdy-1", ONE_CORE, RATE, OURS, GO.name) == Spread(2.5, 2, 3, 2)
    assert run.spread("iterate-rdy-1", ONE_CORE, OURS, RATE) == Spread(400, 300, 9000, 3)


def test_pinnings_are_kept_apart() -> None:
    run = run_of(
        sample(OURS, 300), sample(GO.name, 100), sample(OURS, 100, pinning="two cores"), sample("other", 1)
    )
    assert run.spread("iterate-rdy-1", TWO_CORES, OURS, RATE) == Spread(100, 100, 100, 1)
    assert run.ratios("iterate-rdy-1", TWO_CORES, RATE, OURS, GO.name) is None
    assert run.pinnings("iterate-rdy-1") == ["one core", "two cores"]
    assert run.contenders("iterate-rdy-1", TWO_CORES) == [OURS]


def test_of_several_sessions_the_worst_counts() -> None:
    run = run_of(
        sample(OURS, 300),
        sample(GO.name, 100),
        sample(OURS, 250, session="new again"),
        sample(GO.name, 50, session="new again"),
    )
    assert run.spread("iterate-rdy-1", ONE_CORE, OURS, RATE) == Spread(250, 250, 250, 1)
    assert run.ratios("iterate-rdy-1", ONE_CORE, RATE, OURS, GO.name) == Spread(3, 3, 3, 1)


def test_the_worst_latency_is_the_longest() -> None:
    run = run_of(
        sample(OURS, 0.3, workload="latency"), sample(OURS, 0.4, workload="latency", session="new again")
    )
    assert run.spread("latency", ONE_CORE, OURS, P99) == Spread(0.4, 0.4, 0.4, 1)


def test_interpreters_are_kept_apart_and_the_newest_is_first() -> None:
    run = run_of(sample(OURS, 100, session="old"), sample(OURS, 300))
    assert run.pythons() == ["3.14", "3.11"]
    assert run.settings() == [ONE_CORE, Setting("3.11", "one core")]
    assert run.spread("iterate-rdy-1", Setting("3.11", "one core"), OURS, RATE) == Spread(100, 100, 100, 1)


def test_what_was_saved_can_be_loaded(tmp_path: Path) -> None:
    run = run_of(sample(OURS, 300), sample(OURS, 200, session="old"))
    run.sessions["new"].unavailable["pynsq"] = "why"
    run.failures.append(
        Failure(session="new", pinning="one core", workload="tls", contender="ansq", reason="cannot")
    )
    path = tmp_path / "results" / "run.json"
    run.save(path, [verdict.as_json() for verdict in check(run)])
    assert Run.load(path) == run
    assert json.loads(path.read_text(encoding="utf-8"))["targets"][0]["holds"] is None


def test_an_empty_run_can_be_saved(tmp_path: Path) -> None:
    Run().save(tmp_path / "run.json", [])
    assert Run.load(tmp_path / "run.json") == Run()


def test_of_what_a_session_has_measured_twice_the_last_counts() -> None:
    first = run_of(sample(OURS, 1), sample(OURS, 5, workload="tls"), sample(OURS, 7, pinning="two cores"))
    first.failures.append(
        Failure(session="new", pinning="one core", workload="iterate-rdy-1", contender="ansq", reason="")
    )
    second = run_of(sample(OURS, 2), sample(GO.name, 3), sample(OURS, 4, session="old"))
    whole = Run.merged([first, second])
    assert whole.samples == [*first.samples[1:], *second.samples]
    assert whole.failures == []
    assert list(whole.sessions) == ["new", "old"]
