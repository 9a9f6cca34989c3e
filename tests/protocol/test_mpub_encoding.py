"""Encodes the body of MPUB: in Python, and compiled."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsq_anyio.protocol.codec import Codec, chosen
from nsq_anyio.protocol.command_decoder import Limits, decode_bodies

from ..decoders import needs_codec

LIMIT = 10

bodies = st.lists(st.binary(min_size=1, max_size=100), min_size=1, max_size=20)
anything = st.binary(max_size=LIMIT + 2) | st.text(max_size=2) | st.builds(bytearray, st.binary(max_size=2))


class Sub(bytes):
    """Its length may be anything, so it is not taken for plain."""

    def __len__(self) -> int:
        return 1


def test_the_format_is_the_specifications(codec: Codec) -> None:
    assert codec.encode_bodies([b"ab", b"c"]) == b"\0\0\0\x02\0\0\0\x02ab\0\0\0\x01c"
    assert codec.encode_bodies((b"x" * 0x010203,))[4:8] == b"\x00\x01\x02\x03"


def test_the_bodies_can_be_taken_apart_again(codec: Codec) -> None:
    @given(bodies)
    def check(many: list[bytes]) -> None:
        with pytest.raises(StopIteration) as done:
            next(decode_bodies(codec.encode_bodies(many), Limits()))
        assert done.value.value == many

    check()


@pytest.mark.parametrize(
    ("many", "size"),
    [
        ([b"a", b"bc"], 3),
        ([b"x" * LIMIT] * 3, 3 * LIMIT),
        ((b"a",), 1),
        ([], None),
        ([b"a", b""], None),
        ([b"x" * LIMIT, b"x" * (LIMIT + 1)], None),
        ([b"a", "b"], None),
        ([b"a", bytearray(b"b")], None),
        ([b"a", memoryview(b"b")], None),
        ([b"a", Sub(b"x" * 100)], None),
        ([b"a", None], None),
    ],
)
def test_plain_bodies_are_recognised(codec: Codec, many: list[Any], size: int | None) -> None:
    assert codec.plain_size(many, LIMIT) == size


def test_what_is_not_bytes_is_not_encoded(codec: Codec) -> None:
    with pytest.raises(TypeError):
        codec.encode_bodies([b"a", "b"])  # type: ignore[list-item]


def test_nothing_refers_to_the_bodies(codec: Codec) -> None:
    body = bytes(100)
    many = [body] * 10
    before = sys.getrefcount(body)
    codec.plain_size(many, 1000)
    codec.encode_bodies(many)
    assert sys.getrefcount(body) == before


@needs_codec
@given(st.lists(anything, max_size=8), st.integers(0, LIMIT) | st.sampled_from([2**31, 2**70]))
def test_both_do_the_same(many: list[bytes], limit: int) -> None:
    reference, compiled = chosen("python"), chosen("compiled")
    size = compiled.plain_size(many, limit)
    assert size == reference.plain_size(many, limit)
    if size is not None:
        assert compiled.encode_bodies(many) == reference.encode_bodies(many)
