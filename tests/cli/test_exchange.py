"""How ``to-http`` writes a request, and what it refuses to write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsq_anyio.cli.to_http.endpoint import get_endpoint
from nsq_anyio.cli.to_http.exchange import Exchange, Headers

HEADERS = Headers([(b"Host", b"h:1"), (b"X-A", b"b c")])


def test_a_post() -> None:
    exchange = Exchange("POST", b"/in?x=1", HEADERS, b"body")
    assert exchange.as_http1() == (
        b"POST /in?x=1 HTTP/1.1\r\nHost: h:1\r\nX-A: b c\r\nContent-Length: 4\r\n\r\nbody"
    )
    assert b"\r\nContent-Length: 0\r\n\r\n" in Exchange("POST", b"/", HEADERS, b"").as_http1()


def test_a_get() -> None:
    exchange = Exchange("GET", b"/in?x=1", HEADERS, None)
    assert exchange.as_http1() == b"GET /in?x=1 HTTP/1.1\r\nHost: h:1\r\nX-A: b c\r\n\r\n"


@pytest.mark.parametrize("value", [b"", b" a", b"a ", b"a\r\nB: c", b"a\nB: c", b"a\rB", b"a\x00b", b"\x7f"])
def test_a_value_of_more_than_one_line_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match=r"^a header is not valid$"):
        Headers([(b"Authorization", value)])


@pytest.mark.parametrize("name", [b"", b"A B", b"A:", b"A\r\nB", b"\xc4"])
def test_a_name_that_is_none_is_refused(name: bytes) -> None:
    with pytest.raises(ValueError, match="a header is not valid"):
        Headers([(name, b"x")])


@pytest.mark.parametrize("target", [b"", b"/a b", b"/a\r\nB: c", b"/a\n", b"/\x00", b"/\xe4"])
def test_a_target_of_more_than_one_word_is_refused(target: bytes) -> None:
    with pytest.raises(ValueError, match="the target of a request is not valid"):
        Exchange("GET", target, HEADERS, None).as_http1()


@given(st.binary())
def test_no_message_gets_out_of_its_target(body: bytes) -> None:
    endpoint = get_endpoint("http://h:1/in?m=%s")
    request = Exchange("GET", endpoint.target(body), HEADERS, None).as_http1()
    line, _, rest = request.partition(b"\r\n")
    assert line.count(b" ") == 2
    assert rest == HEADERS.lines + b"\r\n"
