"""What the HTTP server's handlers get, and what those of nsqd make of it."""

import pytest

from nsq_anyio.serving.http_messages import BodyTooLarge, Request, RequestError, Target
from nsq_anyio.serving.nsq_api import (
    Refusal,
    arguments,
    error_response,
    json_response,
    text_response,
)

pytestmark = pytest.mark.anyio


def test_targets() -> None:
    assert Target.parse("/a%20b?x=1&y;%") == Target("/a b", "x=1&y;%")
    assert Target.parse("//double?x") == Target("//double", "x")
    assert Target.parse("http://h:1/a?b") == Target("/a", "b", "http://h:1")
    assert Target.parse("*") == Target("*")
    assert Target.parse("h:80") == Target("")
    assert Target.parse("/%ff").path == "/\udcff"
    for bad in ("/%", "/%4", "http://[x", "ping"):
        with pytest.raises(RequestError, match="400"):
            Target.parse(bad)


def query(text: str) -> Request:
    return Request("GET", Target("/", text))


def test_arguments() -> None:
    found = arguments(query("x=1&y&x=2"))
    assert (found.get("x"), found.get("y"), found.optional("z", "none")) == ("1", "", "none")
    with pytest.raises(Refusal, match="400 MISSING_ARG_Z"):
        found.get("z")
    for bad in ("%", "a=%4", "a;b"):
        with pytest.raises(Refusal, match="400 INVALID_REQUEST"):
            arguments(query(bad))


async def test_a_body_is_read_no_further_than_its_limit() -> None:
    pieces = [b"ab", b"cd", b"ef"]

    async def next_piece() -> bytes:
        return pieces.pop(0) if pieces else b""

    request = Request("PUT", Target("/"), content_length=None, next_piece=next_piece)
    with pytest.raises(BodyTooLarge):
        await request.read(3)
    assert pieces == [b"ef"]


def test_responses() -> None:
    assert error_response(400, "X").body == b'{"message":"X"}'
    assert json_response({"a": ["\u00e9", 1]}).body == '{"a":["\u00e9",1]}'.encode()
    assert text_response().headers == (("X-NSQ-Content-Type", "nsq; version=1.0"),)
