"""Text and numbers as Go has them."""

import pytest

from nsq_anyio.protocol.command_decoder import int64, parse_uint64, quote


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        (b"", '""'),
        ("grün 好".encode(), '"grün 好"'),
        (b'a"b\\c', r'"a\"b\\c"'),
        (b"\a\b\f\n\r\t\v", r'"\a\b\f\n\r\t\v"'),
        (b"\0\x1f\x7f", r'"\x00\x1f\x7f"'),
        (b"\xff\xfe", r'"\xff\xfe"'),
        ("\u200b\U000e0001".encode(), r'"\u200b\U000e0001"'),
    ],
)
def test_text_is_quoted(text: bytes, quoted: str) -> None:
    assert quote(text) == quoted


@pytest.mark.parametrize(
    ("digits", "number"),
    [
        (b"", 0),
        (b"007", 7),
        (b"18446744073709551615", 2**64 - 1),
        (b"18446744073709551616", 0),
        (b"9" * 5000, (10**5000 - 1) % 2**64),
        (b"-1", None),
        (b"1.5", None),
        (b"\xb2", None),
    ],
)
def test_a_number_wraps_around(digits: bytes, number: int | None) -> None:
    assert parse_uint64(digits) == number


@pytest.mark.parametrize(("value", "wrapped"), [(2**63 - 1, 2**63 - 1), (2**63, -(2**63)), (2**64 - 1, -1)])
def test_an_integer_is_signed(value: int, wrapped: int) -> None:
    assert int64(value) == wrapped
