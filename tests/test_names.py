from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsq_anyio.errors import InvalidName
from nsq_anyio.names import (
    EPHEMERAL_SUFFIX,
    MAX_NAME_LENGTH,
    check_channel,
    check_topic,
    is_ephemeral,
    is_valid_name,
)

CHECKS = pytest.mark.parametrize(("check", "kind"), [(check_topic, "topic"), (check_channel, "channel")])

ALLOWED = ".abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

VALID = [
    "a",
    ".",
    "-",
    "_",
    "0",
    ALLOWED[:MAX_NAME_LENGTH],
    ALLOWED[-MAX_NAME_LENGTH:],
    "x" * 64,
    "a#ephemeral",
    "x" * 54 + "#ephemeral",
]

INVALID = [
    "",
    "x" * 65,
    "x" * 55 + "#ephemeral",
    "#ephemeral",
    "a#ephemeral#ephemeral",
    "a#ephemeralx",
    "a#Ephemeral",
    "a#",
    "#",
    "a#tmp",
    "a\n",
    "a#ephemeral\n",
    "\na",
    "a\nFIN 0123456789abcdef",
    "a\r",
    "a b",
    " a",
    "a ",
    "a\t",
    "a\x00",
    "a/b",
    "a:b",
    "a*",
    "é",
    "\uff41",  # a full-width letter
    "٣",  # an Arabic digit, which \d and str.isdigit() take
    "²",
    "\u212a",  # the Kelvin sign, which matches [a-z] when case is ignored
]


def test_the_limits_are_those_of_nsqd() -> None:
    assert (MAX_NAME_LENGTH, EPHEMERAL_SUFFIX) == (64, "#ephemeral")


@CHECKS
@pytest.mark.parametrize("name", VALID)
def test_valid(check: Callable[[str], str], kind: str, name: str) -> None:
    assert is_valid_name(name)
    assert check(name) is name


@CHECKS
@pytest.mark.parametrize("name", INVALID)
def test_invalid(check: Callable[[str], str], kind: str, name: str) -> None:
    assert not is_valid_name(name)
    with pytest.raises(InvalidName) as caught:
        check(name)
    assert str(caught.value) == (
        f"{kind} {name!r} is not valid: use 1 to 64 characters of [.a-zA-Z0-9_-], "
        "optionally ending in '#ephemeral'"
    )


@CHECKS
@pytest.mark.parametrize("name", [None, 1, True, b"clicks", ["clicks"], 1.5])
def test_not_a_string(check: Callable[[Any], str], kind: str, name: object) -> None:
    with pytest.raises(InvalidName, match=f"^{kind} .* is not valid"):
        check(name)


@pytest.mark.parametrize(
    ("name", "ephemeral"),
    [("a", False), ("a#ephemeral", True), ("ephemeral", False), ("a#ephemeral.", False)],
)
def test_ephemeral(name: str, ephemeral: bool) -> None:
    assert is_ephemeral(name) is ephemeral


@given(st.one_of(st.text(), st.text(ALLOWED + "#\n", max_size=70)))
def test_what_is_valid_is_a_single_word_on_the_wire(name: str) -> None:
    stem = name.removesuffix(EPHEMERAL_SUFFIX)
    assert is_valid_name(name) == (len(stem) > 0 and len(name) <= 64 and set(stem) <= set(ALLOWED))
