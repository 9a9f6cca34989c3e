"""What is computed from samples: medians and ratios, and what is kept of them."""

from __future__ import annotations

from pathlib import Path

from .contenders import GO, ours
from .results import Failure, Run, Setting, Spread
from .samples import ONE_CORE, TWO_CORES, run_of, sample
from .workloads import RATE

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
    assert run.pinnings("iterate-rdy-1") == ["two cores", "one core"]
    assert run.contenders("iterate-rdy-1", TWO_CORES) == [OURS]


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
    run.save(path)
    assert Run.load(path) == run


def test_an_empty_run_can_be_saved(tmp_path: Path) -> None:
    Run().save(tmp_path / "run.json")
    assert Run.load(tmp_path / "run.json") == Run()


def test_of_what_several_runs_have_measured_the_last_counts() -> None:
    first = run_of(sample(OURS, 1), sample(OURS, 5, workload="tls"), sample(OURS, 7, pinning="two cores"))
    first.failures.append(
        Failure(session="new", pinning="one core", workload="iterate-rdy-1", contender="ansq", reason="")
    )
    second = run_of(sample(OURS, 2, session="new again"), sample(GO.name, 3, session="new again"))
    whole = Run.merged([first, second, run_of(sample(OURS, 4, session="old"))])
    assert [each.values["rate"] for each in whole.samples] == [5, 7, 2, 3, 4]
    assert whole.failures == []
    assert list(whole.sessions) == ["new", "new again", "old"]


def test_a_session_that_was_measured_again_as_a_whole_is_forgotten() -> None:
    whole = Run.merged([run_of(sample(OURS, 1)), run_of(sample(OURS, 2, session="new again"))])
    assert list(whole.sessions) == ["new again"]
