"""docs/spark.md says what the code does: its options with their defaults, and the texts of errors."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import MISSING, fields

import pytest

from nsq_anyio.spark.option_texts import TextOption
from nsq_anyio.spark.options import READ_OPTIONS, SHARED_OPTIONS, WRITE_OPTIONS, ReadOptions, WriteOptions

from ..package_source import MODULES
from .nsqds import ROOT

PAGE = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")
_UNITS = {"KiB": 1024, "MiB": 1024 * 1024}

Row = tuple[str, ...]


def rows(heading: str) -> list[Row]:
    """The cells of the first table below a heading."""
    section = re.split(r"^#+ ", PAGE.partition(f"{heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    assert len(lines) > 2, heading
    return [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines[2:]]


def documented(heading: str) -> dict[str, str]:
    """Defaults by the names of options; a row may have several, with a default for each or one for all."""
    found: dict[str, str] = {}
    for names, default, _ in rows(heading):
        names_of_row = re.findall(r"`(\w+)`", names)
        defaults = default.split(", ")
        if len(defaults) != len(names_of_row):
            defaults = [default] * len(names_of_row)
        found.update(zip(names_of_row, defaults, strict=True))
    return found


def _own(options: tuple[TextOption, ...]) -> tuple[TextOption, ...]:
    """Those of reading or writing alone; what is passed on stands in the reference of the options."""
    return tuple(option for option in options if option not in SHARED_OPTIONS and not option.part)


SECTIONS: dict[str, tuple[tuple[TextOption, ...], type[ReadOptions | WriteOptions]]] = {
    "### Servers, for reading and writing": (SHARED_OPTIONS, ReadOptions),
    "### Reading": (_own(READ_OPTIONS), ReadOptions),
    "### Writing": (_own(WRITE_OPTIONS), WriteOptions),
}


@pytest.mark.parametrize("heading", SECTIONS)
def test_the_options_are_those_that_there_are(heading: str) -> None:
    options, _ = SECTIONS[heading]
    assert sorted(documented(heading)) == sorted(option.name for option in options)


@pytest.mark.parametrize("heading", SECTIONS)
def test_the_defaults_are_those_of_the_code(heading: str) -> None:
    options, kind = SECTIONS[heading]
    defaults = {field.name: field.default for field in fields(kind)}
    texts = documented(heading)
    for option in options:
        default = defaults[option.field]
        if default is MISSING or default is None or default == ():
            # What it is then depends on the server or the machine, and is said in words.
            assert not re.fullmatch(r"[\d.]+( \w+)?|true|false", texts[option.name]), option.name
        elif isinstance(default, bool):
            assert texts[option.name] == str(default).lower(), option.name
        elif isinstance(default, int | float):
            number, _, unit = texts[option.name].partition(" ")
            assert float(number) * _UNITS.get(unit, 1) == default, option.name
        else:
            assert texts[option.name] == default, option.name


def texts_of_code() -> Iterator[str]:
    """All texts of the package, with … for what is filled in."""
    for module in MODULES:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value.replace("%s", "…")
            elif isinstance(node, ast.JoinedStr):
                yield "".join(
                    part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else "…"
                    for part in node.values
                )


def test_the_texts_of_errors_are_those_of_the_code() -> None:
    texts = list(texts_of_code())
    said = [
        text
        for _, cell, _ in rows("## What goes wrong, and what it says")
        for text in re.findall("`([^`]+)`", cell)
    ]
    assert len(said) > 10
    for text in said:
        assert any(text in known for known in texts), text
