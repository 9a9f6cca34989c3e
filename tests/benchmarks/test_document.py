"""The tables of the documentation, and the sentence of the README."""

from __future__ import annotations

import pytest

from . import tables
from .contenders import BARE, GO, ours
from .document import speed_sentence, with_sentence, with_tables
from .results import Run
from .samples import run_of, sample
from .workloads import WORKLOADS, Workload

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
        *("msg/s, one core", "CPU µs, one core", "x go-nsq, one core"),
        *("msg/s, two cores", "CPU µs, two cores", "x go-nsq, two cores"),
    ]
    assert table.rows == [
        ["asyncio", "150", "4.25", "1.50", "80", "", "0.80"],
        ["asyncio with the codec", "200", "", "2.00", "", "", ""],
        ["go-nsq", "100", "", "", "100", "", ""],
        ["bare socket", "120", "", "1.20", "", "", ""],
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
    assert "| iterate-rdy-1 | >= 0.85 x go-nsq | asyncio | 0.90 | yes |" in page
    assert "| iterate-rdy-1 | >= 0.75 x go-nsq | Trio | 0.50 | **no** |" in page
    assert "### iterate and finish, RDY 1\n\n| client | msg/s, one core |" in page
    assert with_tables(page, run) == page


def test_a_page_without_a_place_for_tables_is_an_error() -> None:
    with pytest.raises(ValueError, match="no marks"):
        with_tables("before\n", run_of(sample(ASYNCIO, 90)))


def claims() -> Run:
    rates = {("iterate-rdy-2500", ASYNCIO): 3.69, ("iterate-rdy-2500", TRIO): 3.39}
    rates |= {("iterate-rdy-1", ASYNCIO): 0.9, ("publish-1", TRIO): 0.62, ("run-1-rdy-1", TRIO): 0.7}
    samples = [sample(name, rate, workload=work) for (work, name), rate in rates.items()]
    samples += [sample(GO.name, 1, workload=work) for work in dict.fromkeys(work for work, _ in rates)]
    return run_of(*samples)


def test_the_lowest_of_all_is_claimed() -> None:
    sentence = speed_sentence(claims())
    assert sentence.startswith("3.3 times go-nsq's rate when consuming with a full `max_in_flight`")
    assert "0.62 to 0.90 of it" in sentence
    assert "(CPython 3.14)" in sentence

    on_two_cores = claims()
    on_two_cores.samples += [
        sample(name, rate, workload="iterate-rdy-2500", pinning="two cores")
        for name, rate in ((ASYNCIO, 2.5), (GO.name, 1))
    ]
    assert speed_sentence(on_two_cores).startswith("2.5 times")


def test_nothing_is_claimed_without_a_measurement() -> None:
    with pytest.raises(ValueError, match="lacks"):
        speed_sentence(run_of(sample(ASYNCIO, 90), sample(GO.name, 100)))


def test_the_sentence_takes_the_place_of_the_former_one() -> None:
    readme = "- **Types**: all\n- **Speed**: fast\n  indeed\n- **Servers**: some\n"
    found = with_sentence(readme, claims())
    assert found.startswith("- **Types**: all\n- **Speed**: 3.3 times")
    assert found.endswith("\n- **Servers**: some\n")
    assert "indeed" not in found
    assert with_sentence(found, claims()) == found
    with pytest.raises(ValueError, match="has 0 items"):
        with_sentence("- **Types**: all\n", claims())
