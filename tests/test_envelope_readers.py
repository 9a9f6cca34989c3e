"""The readers in the documentation take what the package writes, and refuse what it cannot have written."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nsq_anyio.envelope import MAGIC, decode, encode
from nsq_anyio.errors import InvalidEnvelope

PAGE = (Path(__file__).parent.parent / "docs" / "envelope.md").read_text("utf-8")
MOST_LINES = 20

VALID = [
    b"",
    b"raw",
    MAGIC[:-1],
    encode(b"hi", {"a": "b"}),
    encode(b"", {}),
    encode(MAGIC + b"again", {}),
    encode(
        b"\x00\xff" * 100, {"traceparent": "00-0af7", "text": "é\n🎉", "empty": "", "n" * 255: "v" * 5000}
    ),
    encode(b"x", {str(number): "v" * 300 for number in range(128)}),
]
DAMAGED = [VALID[3][:end] for end in range(5, len(VALID[3]) - 2)] + [
    MAGIC + b"\x02\0\0",
    MAGIC + b"\x01\0\x01\xff",
    MAGIC + b"\x01\0\x04\x01a\0\x01b",
    MAGIC + b"\x01\0\x03\x01a\0\0\0",
    MAGIC + b"\x01\xff\xff" + b"\xff" * 65535,
]


def reader(language: str, name: str) -> str:
    """The source of the reader in this language."""
    (found,) = [
        match[1]
        for match in re.finditer(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
        if name in match[1]
    ]
    assert len(found.splitlines()) <= MOST_LINES
    return found


@pytest.fixture(scope="module")
def read() -> Callable[[bytes], tuple[dict[str, str], bytes]]:
    namespace: dict[str, Any] = {}
    exec(reader("python", "def read_envelope"), namespace)
    found: Callable[[bytes], tuple[dict[str, str], bytes]] = namespace["read_envelope"]
    return found


@pytest.mark.parametrize("body", VALID, ids=len)
def test_valid_bodies_in_python(read: Callable[[bytes], object], body: bytes) -> None:
    envelope = decode(body)
    assert read(body) == (dict(envelope.headers), envelope.payload)


@pytest.mark.parametrize("body", DAMAGED, ids=range(len(DAMAGED)))
def test_damaged_bodies_in_python(read: Callable[[bytes], object], body: bytes) -> None:
    with pytest.raises(InvalidEnvelope):
        decode(body)
    with pytest.raises(ValueError, match=r"malformed envelope|codec"):
        read(body)


def test_the_documented_example() -> None:
    (line,) = re.findall(r"^F7 DD DE FF 9D  01 .*$", PAGE, re.MULTILINE)
    assert bytes.fromhex(line) == encode(b"hi", {"a": "b"})


def test_the_go_reader_is_as_short() -> None:
    assert "func readEnvelope" in reader("go", "func readEnvelope")  # tests/interop compiles and runs it
