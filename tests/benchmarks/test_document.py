"""The tables of the documentation, and what the README says."""

from __future__ import annotations

import pytest

from . import tables
from .comparison import with_rates
from .contenders import BARE, GO, PEERS, ours
from .document import speed_sentence, with_sentence, with_shown, with_tables
from .results import Run
from .samples import run_of, sample
from .workloads import SHOWN, WORKLOADS, Workload

ASYNCIO, TRIO = ours("asyncio"), ours("trio")
PAGE = """before
<!-- tables: made by `nox -s bench -- --show FILE --publish`; do not edit -->
stale
<!-- end of tables -->
after
"""


def workload(name: str) -> Workload:
    (found,) = [workload for workload in WORKLOADS if workload.name == name]
    return found


def test_a_question_has_columns_for_each_pinning() -> None:
    run = run_of(
        sample(BARE.name, 120),
        sample(GO.name, 100),
        sample(ASYNCIO, 150),
        sample(ours("asyncio", codec=True), 200),
        sample(ASYNCIO, 80, pinning="two cores"),
        sample(GO.name, 100, pinning="two cores"),
    )
    run.samples[2].values["cpu_us"] = 4.25
    table = tables.question(run, workload("iterate-rdy-1"))
    assert table.title == "iterate and finish, RDY 1"
    assert list(table.header) == [
        "client",
        *("msg/s, two cores", "CPU µs, two cores", "x go-nsq, two cores"),
        *("msg/s, one core", "CPU µs, one core", "x go-nsq, one core"),
    ]
    assert table.rows == [
        ["asyncio", "80", "", "0.80", "150", "4.25", "1.50"],
        ["asyncio with the codec", "", "", "", "200", "", "2.00"],
        ["go-nsq", "100", "", "", "100", "", ""],
        ["bare socket", "", "", "", "120", "", "1.20"],
    ]


def test_interpreters_stand_beside_each_other() -> None:
    run = run_of(sample(ASYNCIO, 100, session="old"), sample(ASYNCIO, 150), sample(GO.name, 90))
    table = tables.question(run, workload("iterate-rdy-1"))
    assert [row[:3] for row in table.rows] == [
        ["asyncio", "3.14", "150"],
        ["go-nsq", "3.14", "90"],
        ["asyncio", "3.11", "100"],
    ]


def test_the_range_of_the_ratios_is_in_brackets() -> None:
    run = run_of(sample(ASYNCIO, 100), sample(GO.name, 100), sample(ASYNCIO, 300, 1), sample(GO.name, 200, 1))
    (row, _) = tables.question(run, workload("iterate-rdy-1")).rows
    assert row[-1] == "1.25 (1.00 to 1.50)"


def test_the_page_has_the_sessions_the_targets_and_the_questions() -> None:
    run = run_of(sample(ASYNCIO, 90), sample(TRIO, 50), sample(GO.name, 100))
    page = with_tables(PAGE, run)
    assert page.startswith("before\n<!-- tables")
    assert page.endswith("<!-- end of tables -->\nafter\n")
    assert "stale" not in page
    assert "| new | CPython 3.14.2, with PGO, with LTO |" in page
    assert "| workload | client | x go-nsq, two cores shared (>= 1.0) |" in page
    assert "| iterate-rdy-1 | asyncio |  |  | 0.90 | yes |" in page
    assert "| iterate-rdy-1 | Trio |  |  | 0.50 | **no** |" in page
    assert "### iterate and finish, RDY 1\n\n| client | msg/s, one core |" in page
    assert with_tables(page, run) == page


def test_a_page_without_a_place_for_tables_is_an_error() -> None:
    with pytest.raises(ValueError, match="no marks"):
        with_tables("before\n", run_of(sample(ASYNCIO, 90)))


def claims(**rates: float) -> Run:
    """Return a run in which each client is twice as fast as go-nsq, but for Trio at what is named."""
    run = run_of(
        *(
            sample(name, 2 * rate, workload=workload, pinning="two cores shared")
            for workload in SHOWN
            for name, rate in ((ASYNCIO, 1000), (TRIO, rates.get(workload, 1000)), (GO.name, 500))
        )
    )
    for each in run.samples:
        each.values["cpu_us"] = 4.25
    return run


def slow_trio() -> Run:
    rates = {"iterate-rdy-2500": 1.78, "iterate-rdy-1": 1.017, "publish-1": 1.5, "publish-many": 0.87}
    return claims(**{workload: 500 * rate for workload, rate in rates.items()})


def test_the_page_for_users_shows_rates_and_cpu_with_two_cores_shared() -> None:
    run = claims()
    run.samples.append(sample(GO.name, 1, workload="iterate-rdy-1"))
    page = with_shown(PAGE, run)
    assert "stale" not in page
    assert "2026-11-27):\n\n| workload | asyncio | Trio | go-nsq |" in page
    assert (
        "| publish by one task | 2,000<br>4.25&nbsp;µs | 2,000<br>4.25&nbsp;µs | 1,000<br>4.25&nbsp;µs |"
        in page
    )
    assert page.count("\n| ") == 2 + len(SHOWN)
    run.samples = [each for each in run.samples if each.workload != "publish-1"]
    with pytest.raises(ValueError, match="publish-1 was not measured"):
        with_shown(PAGE, run)


def test_the_lowest_is_claimed_and_where_go_is_ahead() -> None:
    sentence = speed_sentence(slow_trio())
    assert sentence.startswith("1.7 times go-nsq's rate when consuming with a full `max_in_flight`")
    assert "1.01 to 2.00 times where" in sentence
    assert "(CPython 3.14)" in sentence
    assert " go-nsq is ahead at 1 of 8 workloads: `publish_many` of 100 (0.87 of its rate)." in sentence
    assert "ahead" not in speed_sentence(claims())


def test_nothing_is_claimed_without_a_measurement() -> None:
    with pytest.raises(ValueError, match="lacks"):
        speed_sentence(run_of(sample(ASYNCIO, 90), sample(GO.name, 100)))


def test_the_rates_of_the_readme_are_rounded_down() -> None:
    run = slow_trio()
    run.samples += [
        sample(peer.name, 5999, workload=workload, pinning="two cores shared")
        for peer in PEERS
        for workload in ("iterate-rdy-2500", "publish-many")
    ]
    readme = "| messages/s consumed | 1 |\n| messages/s published | 2 |\n| other | 3 |\n"
    assert with_rates(readme, run) == (
        "| messages/s consumed | 1,000 | 5,000 | 5,000 | 5,000 | 5,000 | 1,000 |\n"
        "| messages/s published | 0 | 5,000 | 5,000 | 5,000 | 5,000 | 1,000 |\n"
        "| other | 3 |\n"
    )
    with pytest.raises(ValueError, match="pynsq was not measured"):
        with_rates(readme, claims())


def test_the_sentence_takes_the_place_of_the_former_one() -> None:
    readme = "- **Types**: all\n- **Speed**: fast\n  indeed\n- **Servers**: some\n"
    found = with_sentence(readme, slow_trio())
    assert found.startswith("- **Types**: all\n- **Speed**: 1.7 times")
    assert found.endswith("\n- **Servers**: some\n")
    assert "indeed" not in found
    assert with_sentence(found, slow_trio()) == found
    with pytest.raises(ValueError, match="has 0 items"):
        with_sentence("- **Types**: all\n", claims())
