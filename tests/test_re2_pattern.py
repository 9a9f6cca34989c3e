"""Patterns mean what they mean in Go, and end."""

from __future__ import annotations

import sys
import time
import warnings

import pytest

from nsq_anyio.errors import InvalidOption
from nsq_anyio.re2_pattern import Pattern

from .patterns import MATCHES, NAMES

NO_PATTERNS = [
    "[",
    "(",
    "a**",
    "a|*",
    r"\8",
    r"(a)\1",
    r"\C",
    "(?=a)",
    "(?<!a)",
    "[[:foo:]]",
    "a{1001}",
    "a{99999999999}",
    "a{1,99999999999}",
    "a{" + "9" * 5000 + "}",
    "a\udcff",
    "\\",
]


@pytest.mark.parametrize("text", MATCHES)
def test_what_matches(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pattern = Pattern(text)
    assert [name for name in NAMES if pattern.is_in(name)] == MATCHES[text]


@pytest.mark.parametrize("text", NO_PATTERNS, ids=lambda text: ascii(text)[:20])
def test_what_is_no_pattern(text: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidOption) as caught:
        Pattern(text)
    assert f"{text!r} is not a regular expression: " in str(caught.value)
    assert "b'" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("text", [r"^([a-z]+\.?)+$", "^(a|a)*b", "(x+x+)+y", "(.*.*.*.*)*#"])
def test_no_name_takes_long(text: str) -> None:
    pattern = Pattern(text)
    started = time.process_time()
    for letter in "ax":
        assert not pattern.is_in(letter * 60 + "-")
    assert time.process_time() - started < 0.5


def test_without_the_library_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    assert Pattern(".*").is_in("clicks")
    with pytest.raises(InvalidOption, match=r"google-re2.*pip install 'nsq-anyio\[re2\]'"):
        Pattern("clicks")
