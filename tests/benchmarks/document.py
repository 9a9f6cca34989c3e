"""What the documentation says of speed, made of the published samples: ``docs/performance.json``.

``tests/test_claims.py`` fails when the text differs from it.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from . import tables
from .comparison import with_rates
from .contenders import GO, ours
from .results import Run
from .surroundings import ROOT
from .targets import check
from .workloads import RATE

__all__ = ["PAGE", "PLOT", "README", "SAMPLES", "publish", "speed_sentence", "with_sentence", "with_tables"]

SAMPLES = ROOT / "docs" / "performance.json"
PLOT = ROOT / "docs" / "performance.svg"
PAGE = ROOT / "docs" / "performance.md"
README = ROOT / "README.md"

_BEGIN = "<!-- tables: made by `nox -s bench -- --show FILE --publish`; do not edit -->\n"
_END = "<!-- end of tables -->\n"
_SENTENCE = re.compile(r"^- \*\*Speed\*\*: .*?\n(?=- \*\*)", re.MULTILINE | re.DOTALL)
_LINE_LENGTH = 120

_FULL = "iterate-rdy-2500"
_ROUND_TRIPS = ("iterate-rdy-1", "run-1-rdy-1", "publish-1")
_CLAIMED_FOR = (ours("asyncio"), ours("trio"))


def publish(run: Run) -> None:
    """Write the samples, the tables of the page, and the sentence and the rates of the README."""
    run.save(SAMPLES, [verdict.as_json() for verdict in check(run)])
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), run), encoding="utf-8")
    readme = with_rates(with_sentence(README.read_text(encoding="utf-8"), run), run)
    README.write_text(readme, encoding="utf-8")


def with_tables(page: str, run: Run) -> str:
    """Return the page with the tables of this run.

    :raises ValueError: it has no place for them
    """
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError("the page has no marks where the tables begin and end")
    parts = [
        _markdown(tables.sessions(run)),
        "### The targets\n\n" + _markdown(tables.targets(check(run), run.pinnings())),
        *(f"### {table.title}\n\n{_markdown(table)}" for table in tables.questions(run)),
    ]
    return before + begin + "\n" + "\n\n".join(parts) + "\n\n" + end + after


def with_sentence(readme: str, run: Run) -> str:
    """Return the README with the sentence of this run.

    :raises ValueError: it has no such sentence
    """
    item = textwrap.fill(
        f"- **Speed**: {speed_sentence(run)}",
        _LINE_LENGTH,
        subsequent_indent="  ",
        break_on_hyphens=False,
        break_long_words=False,
    )
    replaced, count = _SENTENCE.subn(lambda _: item + "\n", readme)
    if count != 1:
        raise ValueError(f"the README has {count} items that begin with Speed, not one")
    return replaced


def speed_sentence(run: Run) -> str:
    """Return what is claimed: the lowest of the event loops, the pinnings, the machines and the days.

    :raises ValueError: one of the workloads that it names was not measured
    """
    python = run.pythons()[0]
    full = min(_ratios(run, python, _FULL), default=None)
    round_trips = sorted(ratio for name in _ROUND_TRIPS for ratio in _ratios(run, python, name))
    if full is None or not round_trips:
        raise ValueError("the run lacks what the README claims")
    # Rounded down: nothing is claimed that was not measured.
    return (
        f"{int(full * 10) / 10:.1f} times go-nsq's rate when consuming with a full `max_in_flight`, and"
        f" {round_trips[0]:.2f} to {round_trips[-1]:.2f} of it when every message or publish is a round trip,"
        f" measured side by side (CPython {python}): see [performance](docs/performance.md)."
    )


def _ratios(run: Run, python: str, workload: str) -> Iterator[float]:
    for setting in run.settings(workload):
        for name in _CLAIMED_FOR if setting.python == python else ():
            ratio = run.ratios(workload, setting, RATE, name, GO.name)
            if ratio is not None:
                yield ratio.median


def _markdown(table: tables.Table) -> str:
    rules = ["---:" if place >= table.figures else "---" for place, _ in enumerate(table.header)]
    lines = [" | ".join(row) for row in (table.header, rules, *table.rows)]
    return "\n".join(f"| {line} |" for line in lines)
