"""The parser of HTTP/1 answers, on plain bytes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nsq_anyio.cli.to_http.http1_parser import (
    MAX_BODY,
    MAX_FIELDS,
    MAX_HEAD,
    MAX_INTERIM,
    MAX_LINE,
    AnswerParser,
    BadAnswer,
)

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@dataclass(frozen=True)
class Outcome:
    """What the parser makes of bytes.

    :ivar error: what it refused them for
    """

    status: int | None
    headers: dict[bytes, bytes]
    is_complete: bool
    is_reusable: bool
    error: str | None


def parsed(parts: Iterable[bytes], *, ends: bool = False) -> Outcome:
    answer = AnswerParser()
    error: str | None = None
    try:
        for part in parts:
            answer.feed(part)
        if ends:
            answer.feed_end()
    except BadAnswer as refused:
        error = str(refused)
        assert error
    return Outcome(answer.status, answer.headers, answer.is_complete, answer.leaves_reusable, error)


def with_headers(*lines: str, status: str = "200 OK", version: str = "1.1") -> bytes:
    return "".join(f"{line}\r\n" for line in (f"HTTP/{version} {status}", *lines, "")).encode("latin-1")


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200),
        (b"HTTP/1.1 200\r\ncontent-length:2 \t\r\n\r\nok", 200),
        (b"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", 200),
        (b"HTTP/1.1 404 nicht da \xe4\r\nContent-Length: 00\r\n\r\n", 404),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", 304),
        (b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nok", 200),
        (
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: <x>\r\n\r\nHTTP/1.1 204 \r\n\r\n",
            204,
        ),
        (CHUNKED + b"0\r\n\r\n", 200),
        (CHUNKED + b"2\r\nok\r\n00A;x=y\r\n0123456789\r\n1  \r\n.\r\n0\r\nChecksum: x\r\n\r\n", 200),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n", 200),
    ],
)
def test_a_whole_answer_leaves_the_connection_reusable(data: bytes, status: int) -> None:
    outcome = parsed([data])
    assert (outcome.status, outcome.is_complete, outcome.is_reusable, outcome.error) == (
        status,
        True,
        True,
        None,
    )
    behind = parsed([data + b"H"])
    assert (behind.is_complete, behind.is_reusable) == (True, False)
    part = parsed([data[:-1]])
    assert not part.is_complete
    assert parsed([data[:-1]], ends=True).error


@pytest.mark.parametrize(
    "data",
    [
        with_headers("Connection: close", "Content-Length: 0"),
        with_headers("Connection: x, Close", "Content-Length: 0"),
        with_headers("Connection: x", "Connection: close", "Content-Length: 0"),
        with_headers("Content-Length: 0", version="1.0"),
        with_headers("Connection: keep-alive, close", "Content-Length: 0", version="1.0"),
    ],
)
def test_a_connection_that_will_be_closed_is_not_reusable(data: bytes) -> None:
    outcome = parsed([data])
    assert (outcome.is_complete, outcome.is_reusable) == (True, False)


@pytest.mark.parametrize(
    "head",
    [
        with_headers(),
        with_headers(version="1.0"),
        with_headers("Transfer-Encoding: chunked", version="1.0"),
        with_headers("Connection: keep-alive", version="1.0"),
    ],
)
def test_a_body_can_end_with_the_connection(head: bytes) -> None:
    assert not parsed([head, b"2\r\nok"]).is_complete
    outcome = parsed([head, b"2\r\nok"], ends=True)
    assert (outcome.status, outcome.is_complete, outcome.is_reusable, outcome.error) == (
        200,
        True,
        False,
        None,
    )


def test_headers_have_lower_case_names_and_are_joined() -> None:
    data = with_headers("X-A:\t1", "x-a: 2, 3 ", "B:", "C: \x9b", "Content-Length: 0")
    assert parsed([data]).headers == {b"x-a": b"1, 2, 3", b"b": b"", b"c": b"\x9b", b"content-length": b"0"}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"220 mail.example.com ESMTP\r\n", "no valid status line: b'220 mail.example.com ESMTP"),
        (b"\r\n", "no valid status line"),
        (b"HTTP/2.0 200 OK\r\n\r\n", "no valid status line"),
        (b"HTTP/1.1  200 OK\r\n\r\n", "no valid status line"),
        (b"HTTP/1.1 20 OK\r\n\r\n", "no valid status line"),
        (b"HTTP/1.1 2000 OK\r\n\r\n", "no valid status line"),
        (b"HTTP/1.1 099 OK\r\n\r\n", "no valid status line"),
        (b"HTTP/1.1 200 a\x00b\r\n\r\n", "no valid status line"),
        (b"HTTP/1.1 200 OK\n\n", "a line that does not end with CR LF"),
        (b"HTTP/1.1 200 OK\r\nA: b\nB: c\r\n\r\n", "a line that is not a header"),
        (b"HTTP/1.1 200 OK\r\nA: b\rB: c\r\n\r\n", "a line that is not a header"),
        (
            with_headers("A: b", " folded", "Content-Length: 0"),
            r"a line that is not a header: b' folded\r\n'",
        ),
        (with_headers("Content-Length : 0"), "a line that is not a header"),
        (with_headers(": x"), "a line that is not a header"),
        (with_headers("no colon"), "a line that is not a header"),
        (with_headers("A: \x00"), "a line that is not a header"),
        (with_headers("Ä: x"), "a line that is not a header"),
        (with_headers("Content-Length: 2", "Content-Length: 2"), "no valid Content-Length: b'2, 2'"),
        (with_headers("Content-Length: 2", "Content-Length: 3"), "no valid Content-Length"),
        *[
            (with_headers(f"Content-Length: {value}"), "no valid Content-Length")
            for value in ("", "-1", "+1", "1 1", "0x1", "1_0", "1.0", "²", "9" * 16, "1,1")
        ],
        (
            with_headers("Content-Length: 2", "Transfer-Encoding: chunked"),
            "both Transfer-Encoding and Content-",
        ),
        (with_headers("Transfer-Encoding: gzip, chunked"), "a Transfer-Encoding other than chunked"),
        (with_headers("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"), "other than chunked"),
        (with_headers(status="101 Switching Protocols"), "switched protocols"),
        (with_headers(status="103 Early Hints") * (MAX_INTERIM + 1), "more than 100 interim answers"),
        (with_headers(*["A: b"] * (MAX_FIELDS + 1)), "more than 1000 headers"),
        (b"HTTP/1.1 200 OK\r\nA: " + b"a" * MAX_HEAD, "the head of the answer is longer"),
        (
            with_headers("A: " + "a" * (MAX_HEAD // 5), status="103 Hints") * 5,
            "the head of the answer is longer",
        ),
    ],
)
def test_a_bad_head_is_refused(data: bytes, reason: str) -> None:
    outcome = parsed([data])
    assert outcome.status is None
    assert reason in (outcome.error or "")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"zz\r\n", r"no valid size of a chunk: b'zz\r\n'"),
        (b"\r\n", "no valid size"),
        (b"-1\r\n", "no valid size"),
        (b"0x1\r\n", "no valid size"),
        (b"1\n", "no valid size"),
        (b"1;\x00\r\n", "no valid size"),
        (b"f" * 16 + b"\r\n", "no valid size"),
        (b"1" + b" " * MAX_LINE, "a chunk's size of the answer is longer"),
        (b"2\r\nokay\r\n", "longer than its size"),
        (b"f" * 15 + b"\r\n", "a body of more than"),
        (
            b"1;" + b"x" * 4000 + b"\r\n.\r\n" + (b"1;" + b"x" * 4000 + b"\r\n.\r\n") * 300,
            "a body of more than",
        ),
        (b"0\r\nno header\r\n", "not a header"),
        (b"0\r\nA: b\n\r\n", "not a header"),
        (b"0\r\n" + b"A: b\r\n" * (MAX_HEAD // 6), "the trailer section of the answer is longer"),
    ],
)
def test_a_bad_body_is_refused_and_the_status_stays(body: bytes, reason: str) -> None:
    outcome = parsed([CHUNKED + body])
    assert (outcome.status, outcome.is_complete, outcome.is_reusable) == (200, False, False)
    assert reason in (outcome.error or "")


def test_a_long_body_is_refused_where_it_is_announced() -> None:
    assert parsed([with_headers(f"Content-Length: {MAX_BODY}"), bytes(MAX_BODY)]).is_reusable
    outcome = parsed([with_headers(f"Content-Length: {MAX_BODY + 1}")])
    assert (outcome.status, outcome.error) == (200, f"the answer has a body of more than {MAX_BODY} bytes")
    assert parsed([with_headers(), bytes(MAX_BODY)]).error is None
    assert parsed([with_headers(), bytes(MAX_BODY + 1)]).error


def test_the_longest_head_is_accepted() -> None:
    empty = with_headers("A: ", "Content-Length: 0")
    longest = with_headers("A: " + "a" * (MAX_HEAD - len(empty)), "Content-Length: 0")
    assert parsed([longest]).is_reusable
    assert parsed([longest[:-1]]).error is None
    assert parsed([longest.replace(b"a\r\n", b"aa\r\n")]).error


def test_an_end_without_an_answer() -> None:
    for data in (b"", b"HTTP/1.1 2", b"HTTP/1.1 100 Continue\r\n\r\n"):
        assert parsed([data], ends=True).error == "the server closed the connection without an answer"


def test_an_end_within_the_body() -> None:
    outcome = parsed([with_headers("Content-Length: 3"), b"ok"], ends=True)
    assert outcome.status == 200
    assert outcome.error == "the server closed the connection before the end of its answer"


# However bytes are divided, the outcome is the same.

tokens = st.sampled_from(
    [
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.0 200 OK\r\n",
        b"HTTP/1.1 103 Early Hints\r\n\r\n",
        b"HTTP/1.1 204 \r\n",
        b"Content-Length: 3\r\n",
        b"Content-Length: 0\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Connection: close\r\n",
        b"Connection: keep-alive\r\n",
        b"X: y\r\n",
        b" folded\r\n",
        b"\r\n",
        b"\n",
        b"\r",
        b"3\r\nabc\r\n",
        b"0\r\n\r\n",
        b"0\r\nT: x\r\n\r\n",
        b"abc",
    ]
)
likely = st.lists(tokens | st.binary(max_size=4), max_size=12).map(b"".join)
valid = st.tuples(
    st.just(b"HTTP/1.1 200 OK\r\n"),
    st.sampled_from([b"", b"X: y\r\n", b"Connection: close\r\n"]),
    st.sampled_from(
        [
            b"Content-Length: 3\r\n\r\nabc",
            b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            b"\r\nabc",
        ]
    ),
).map(b"".join)


def divided(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


def decided(outcome: Outcome) -> tuple[object, ...]:
    """The outcome without the words: of several faults, the one that arrives first is named."""
    return outcome.status, outcome.headers, outcome.is_complete, outcome.is_reusable, outcome.error is None


@given(data=valid | likely | st.binary(max_size=200), cuts=st.lists(st.integers(0, 200)), ends=st.booleans())
@example(data=CHUNKED + b"1\r\n.\r\n0\r\n\r\n", cuts=[60, 62], ends=False)
@example(data=b"HTTP/1.1 200 OK\nX: y\r\n\r\n", cuts=[17], ends=False)
def test_any_division_has_the_same_outcome(data: bytes, cuts: list[int], ends: bool) -> None:
    whole = parsed([data], ends=ends)
    assert decided(parsed(divided(data, cuts), ends=ends)) == decided(whole)
    assert decided(parsed([bytes([byte]) for byte in data], ends=ends)) == decided(whole)


@given(likely | st.binary())
def test_no_bytes_break_the_parser(data: bytes) -> None:
    """It raises nothing but `BadAnswer`, and the end of the connection ends or refuses every answer."""
    outcome = parsed([data], ends=True)
    assert outcome.is_complete or outcome.error
    assert outcome.status is not None or outcome.error
    assert not (outcome.is_reusable and not outcome.is_complete)


def test_a_long_head_in_single_bytes_takes_linear_time() -> None:
    """Each byte would otherwise be searched again for the end of the head: 5e11 steps."""
    data = with_headers("A: " + "a" * 300_000, "Content-Length: 0")
    assert parsed(bytes([byte]) for byte in data).is_reusable
