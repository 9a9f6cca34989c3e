"""What the README and the documentation say of speed, made of the samples in ``docs/performance.json``.

``tests/test_claims.py`` fails when the text differs from it.
"""

from __future__ import annotations

import math
import re
import textwrap

from . import plot, tables
from .comparison import with_rates
from .contenders import GO, ours
from .results import Run, Setting
from .surroundings import ROOT, SHARED
from .targets import ROUND_TRIPS
from .workloads import RATE, SHOWN

SAMPLES = ROOT / "docs" / "performance.json"
PLOT = ROOT / "docs" / "performance.svg"
PAGE = ROOT / "docs" / "performance.md"
TABLES = ROOT / "docs" / "benchmarks.md"
README = ROOT / "README.md"

_BEGIN = "<!-- tables: made by `nox -s bench -- --show FILE --publish`; do not edit -->\n"
_END = "<!-- end of tables -->\n"
_SENTENCE = re.compile(r"^- \*\*Speed\*\*: .*?\n(?=- \*\*)", re.MULTILINE | re.DOTALL)
_LINE_LENGTH = 120

_FULL = "iterate-rdy-2500"
_CLAIMED_FOR = (ours("asyncio"), ours("trio"))


def publish(run: Run) -> None:
    """Write the samples, the plot, the tables of both pages, and the sentence and the rates of the README."""
    texts = {
        PAGE: with_shown(PAGE.read_text(encoding="utf-8"), run),
        TABLES: with_tables(TABLES.read_text(encoding="utf-8"), run),
        README: with_rates(with_sentence(README.read_text(encoding="utf-8"), run), run),
    }
    run.save(SAMPLES)
    plot.draw(run, PLOT)
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")


def with_shown(page: str, run: Run) -> str:
    """Return the page for users with the table of this run.

    :raises ValueError: it has no place for it, or a workload was not measured
    """
    python = run.pythons()[0]
    used = {sample.session for sample in run.samples if sample.workload in SHOWN}
    interpreters = [
        f"{session.interpreter.description}, {session.about['date']}"
        for name, session in run.sessions.items()
        if name in used and session.interpreter.label == python
    ]
    caption = (
        "Messages a second, and the CPU time that the client takes for one, on two cores"
        f" ({' and '.join(interpreters)}):"
    )
    made = f"{textwrap.fill(caption, _LINE_LENGTH)}\n\n{_markdown(tables.shown(run))}"
    return _between_marks(page, made)


def with_tables(page: str, run: Run) -> str:
    """Return the page for maintainers with the tables of this run.

    :raises ValueError: it has no place for them
    """
    parts = [
        _markdown(tables.sessions(run)),
        "### The targets\n\n" + _markdown(tables.targets(run)),
        *(f"### {table.title}\n\n{_markdown(table)}" for table in tables.questions(run)),
    ]
    return _between_marks(page, "\n\n".join(parts))


def _between_marks(page: str, made: str) -> str:
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError("the page has no marks where the tables begin and end")
    return before + begin + "\n" + made + "\n\n" + end + after


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
    """Return what is claimed: the lower of the event loops, without the codec, with two cores shared.

    :raises ValueError: a workload was not measured
    """
    setting = Setting(run.pythons()[0], SHARED.name)
    ratios = {workload: _lowest(run, workload, setting) for workload in SHOWN}
    round_trips = [ratios[workload] for workload in ROUND_TRIPS]
    behind = [
        f"{SHOWN[workload]} ({_down(ratio)} of its rate)"
        for workload, ratio in ratios.items()
        if ratio < 1 and workload not in ROUND_TRIPS
    ]
    return (
        f"{_down(ratios[_FULL], 1)} times go-nsq's rate when consuming with a full `max_in_flight`, and"
        f" {_down(min(round_trips))} to {_down(max(round_trips))} times where each message or publish is a"
        f" round trip, measured side by side on two cores (CPython {setting.python})."
        + (
            f" go-nsq is ahead at {len(behind)} of {len(SHOWN)} workloads: {', '.join(behind)}."
            if behind
            else ""
        )
        + " See [performance](docs/performance.md)."
    )


def _lowest(run: Run, workload: str, setting: Setting) -> float:
    found = [run.ratios(workload, setting, RATE, name, GO.name) for name in _CLAIMED_FOR]
    if None in found:
        raise ValueError(f"the run lacks what the README claims of {workload}")
    return min(ratio.median for ratio in found if ratio is not None)


def _down(ratio: float, digits: int = 2) -> str:
    # Nothing is claimed that was not measured.
    return f"{math.floor(ratio * 10**digits) / 10**digits:.{digits}f}"


def _markdown(table: tables.Table) -> str:
    rules = ["---:" if place >= table.figures else "---" for place, _ in enumerate(table.header)]
    lines = [" | ".join(row) for row in (table.header, rules, *table.rows)]
    return "\n".join(f"| {line} |" for line in lines)
