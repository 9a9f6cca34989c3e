"""What the README and docs/ say of speed is what `docs/performance.json` has, and nothing else is said."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .benchmarks.comparison import with_rates
from .benchmarks.document import PAGE, README, SAMPLES, TABLES, with_sentence, with_shown, with_tables
from .benchmarks.results import Run
from .benchmarks.surroundings import ROOT

PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]

_GO = re.compile(r"\bgo-nsq\b", re.IGNORECASE)
_GO_COMMAND = re.compile(r"\bnsq_to_http\b")
_TABLES = re.compile(r"<!-- tables: .*?<!-- end of tables -->", re.DOTALL)
_SPEED = re.compile(r"^- \*\*Speed\*\*: .*?\n(?=- \*\*)", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
# Versions, options as `key,value`, and how many tests passed are no speed.
_NO_FIGURE = re.compile(r"\b\d+\.\d+\.\d+\b|`[^`]*`|\b\d+ of \d+\b")
_RATIOS = r"twice|thrice|half|halves|third|thirds|quarter|double|triple|times|percent|faster|slower"
_FIGURE = re.compile(rf"\d|%|\b({_RATIOS})\b", re.IGNORECASE)
# Of the command more is said than how fast it is: there a figure is one with a unit.
_SPEED_FIGURE = re.compile(rf"\d\s*(x\b|%|µs|ms\b|\S*/s\b)|\b({_RATIOS})\b", re.IGNORECASE)


@pytest.fixture(scope="module")
def run() -> Run:
    return Run.load(SAMPLES)


def test_the_tables_are_made_of_the_samples(run: Run) -> None:
    page, tables = PAGE.read_text(encoding="utf-8"), TABLES.read_text(encoding="utf-8")
    assert with_shown(page, run) == page
    assert with_tables(tables, run) == tables


def test_the_readme_claims_what_was_measured(run: Run) -> None:
    readme = README.read_text(encoding="utf-8")
    assert with_sentence(readme, run) == readme
    assert with_rates(readme, run) == readme


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_other_figure_stands_beside_go_nsq(page: Path) -> None:
    assert figures_beside_go(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "text",
    [
        "It has 1.3 times the rate of go-nsq.",
        "A read takes 207,000 rows/s. That is twice the rate of\na go-nsq consumer.",
        "- one thing\n- go-nsq needs\n  100 µs\n",
        "| go-nsq 1.1.0 | 24k |",
        "as fast as nsq_to_http, +/- 5 %",
        "a third of what go-nsq takes",
    ],
)
def test_a_figure_is_found(text: str) -> None:
    assert figures_beside_go(text) != []


@pytest.mark.parametrize(
    "text",
    [
        "It passed with go-nsq 1.1.0. There were 24 tests.",
        "| go-nsq 1.1.0 | 24 of 24 | 24 of 24 |",
        "go-nsq takes a lock\n\n100 µs",
        "- go-nsq has one of that name\n- it takes 100 µs\n",
        "go-nsq's name, as in `max_attempts,0`",
    ],
)
def test_what_is_no_figure_of_speed_is_left_alone(text: str) -> None:
    assert figures_beside_go(text) == []


def figures_beside_go(text: str) -> list[str]:
    """Return the sentences, items and rows with a figure and go-nsq, of what is not made of the samples."""
    for made in (_TABLES, _SPEED, _BLOCK):
        text = made.sub("\n\n", text)
    parts = re.split(r"\n\s*\n|\n(?=\s*(?:[-*|:]|\d+\.)\s?)|(?<=[.:;!?])\s+", text)
    return [
        part
        for part in parts
        for name, figure in ((_GO, _FIGURE), (_GO_COMMAND, _SPEED_FIGURE))
        if name.search(part) and figure.search(_NO_FIGURE.sub("", part))
    ]
