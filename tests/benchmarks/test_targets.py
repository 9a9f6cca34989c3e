"""The targets are about what is measured, and hold only if they hold everywhere."""

from __future__ import annotations

import pytest

from .contenders import CONTENDERS, GO, ours
from .samples import run_of, sample
from .surroundings import PINNINGS
from .targets import JUDGED, LEAST, ROUND_TRIPS, check
from .workloads import SHOWN

OURS = ours("asyncio")


def test_targets_are_about_what_is_measured() -> None:
    assert set(ROUND_TRIPS) <= set(SHOWN)
    assert set(LEAST) == {pinning.name for pinning in PINNINGS}
    assert set(JUDGED) <= {contender.name for contender in CONTENDERS}


def test_nobody_is_judged_by_what_was_not_measured() -> None:
    assert check(run_of(sample(OURS, 300))) == []
    assert check(run_of(sample(OURS, 300, workload="tls"), sample(GO.name, 100, workload="tls"))) == []


@pytest.mark.parametrize(
    ("one_core", "two_cores", "holds"), [(90, 100, True), (89, 100, False), (90, 99, False)]
)
def test_a_target_holds_if_it_does_with_each_pinning(one_core: float, two_cores: float, holds: bool) -> None:
    run = run_of(
        sample(OURS, one_core),
        sample(GO.name, 100),
        sample(OURS, two_cores, pinning="two cores"),
        sample(GO.name, 100, pinning="two cores"),
    )
    (verdict,) = check(run)
    assert {name: spread.median for name, spread in verdict.found.items()} == {
        "one core": one_core / 100,
        "two cores": two_cores / 100,
    }
    assert verdict.holds is holds


def test_each_interpreter_and_the_codec_are_judged() -> None:
    run = run_of(
        sample(OURS, 80, session="old"),
        sample(GO.name, 100, session="old"),
        sample(OURS, 300),
        sample(ours("asyncio", codec=True), 89),
        sample(GO.name, 100),
    )
    assert [(verdict.python, verdict.contender, verdict.holds) for verdict in check(run)] == [
        ("3.14", OURS, True),
        ("3.14", ours("asyncio", codec=True), False),
        ("3.11", OURS, False),
    ]
