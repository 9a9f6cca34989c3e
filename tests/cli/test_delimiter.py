"""``--delimiter``: any bytes, with escapes."""

from __future__ import annotations

import click
import pytest

from nsq_anyio.cli.flags.kinds import parse_delimiter


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("\n", b"\n"),
        (r"\n", b"\n"),
        (r"\r\n", b"\r\n"),
        (r"\t", b"\t"),
        (r"\0", b"\0"),
        (r"\x00\xfF", b"\x00\xff"),
        (r"\\n", b"\\n"),
        (r"\\", b"\\"),
        ("\\", b"\\"),
        (r"a\x2cb", b"a,b"),
        ("--", b"--"),
        ("→", "→".encode()),
    ],
)
def test_bytes(text: str, delimiter: bytes) -> None:
    assert parse_delimiter(text) == delimiter


def test_bytes_that_are_no_text() -> None:
    """As the shell's ``$'\\xff'`` gives them to a program."""
    assert parse_delimiter("\udcff") == b"\xff"


@pytest.mark.parametrize("text", [r"\q", r"\x0", r"\xzz", "a\\", r"\x"])
def test_an_unknown_escape(text: str) -> None:
    with pytest.raises(click.BadParameter, match="unknown escape") as caught:
        parse_delimiter(text)
    assert repr(text) in caught.value.message


def test_none() -> None:
    with pytest.raises(click.BadParameter, match="the delimiter is empty"):
        parse_delimiter("")
