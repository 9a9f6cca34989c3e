"""How an interpreter was built is read from what it tells."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from .interpreter import Interpreter, MeasuredPython, Unusable, optimisations
from .samples import NEW


@pytest.mark.parametrize(
    ("config_args", "found"),
    [
        ("'--prefix=/opt/python' '--enable-optimizations' '--with-lto'", (True, True)),
        ("'--enable-optimizations' '--with-lto=full'", (True, True)),
        ("--enable-optimizations=yes --with-lto=no", (True, False)),
        ("'--enable-shared' 'CFLAGS=-O2 --with-lto'", (False, False)),
        ("--with-lto --with-lto=no", (False, False)),
        ("'--prefix=/usr' '--with-wheel-pkg-dir=/usr/share/python-wheels/'", (True, True)),
        ("", (False, False)),
        (None, (None, None)),
    ],
)
def test_optimisations(config_args: str | None, found: tuple[bool | None, bool | None]) -> None:
    assert optimisations(config_args) == found


def test_an_optimised_interpreter_is_named_by_its_release() -> None:
    assert (NEW.label, NEW.warning) == ("3.14", "")
    assert NEW.description == "CPython 3.14.2, with PGO, with LTO"


@pytest.mark.parametrize(
    ("interpreter", "description"),
    [
        (replace(NEW, lto=False), "CPython 3.14.2, with PGO, without LTO"),
        (replace(NEW, pgo=None, lto=None), "CPython 3.14.2, its build does not tell of optimisations"),
        (replace(NEW, debug=True), "CPython 3.14.2, with PGO, with LTO, a debug build"),
    ],
)
def test_any_other_is_warned_of(interpreter: Interpreter, description: str) -> None:
    assert interpreter.description == description
    assert interpreter.label == "3.14, not optimised"
    assert interpreter.warning.startswith(description)
    assert interpreter.rank < NEW.rank


def test_free_threaded_and_other_interpreters_have_labels_of_their_own() -> None:
    free = replace(NEW, free_threaded=True, gil=False)
    assert (free.label, free.description) == (
        "3.14t",
        "CPython 3.14.2, with PGO, with LTO, free-threaded, the GIL off",
    )
    assert replace(NEW, implementation="PyPy").label == "PyPy 3.14"


def test_releases_are_ranked_by_number() -> None:
    assert replace(NEW, version="3.9.20").rank < NEW.rank


def test_this_interpreter_tells_of_itself() -> None:
    found = MeasuredPython.ask(sys.executable)
    assert found.interpreter.version == ".".join(map(str, sys.version_info[:3]))
    assert {"nsq-anyio", "anyio", "trio"} <= found.packages.keys()


def test_what_is_no_python_is_refused() -> None:
    with pytest.raises(Unusable, match="does not run"):
        MeasuredPython.ask("/nowhere/python")
