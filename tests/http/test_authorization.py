"""Tokens that expire: asked for before each request, sent, never shown, never sent on."""

import logging
from collections.abc import Callable
from typing import Any

import anyio
import anyio.abc
import httpx
import pytest

from nsq_anyio.errors import HTTPStatusError, HTTPUnavailable, InvalidOption
from nsq_anyio.http import Authorization, Nsqd

from .support import Answers, read_head, tcp_server

pytestmark = pytest.mark.anyio

URL = "http://nsqd.example:4151"


async def test_it_is_asked_for_before_each_request() -> None:
    answers = Answers(b"OK")
    tokens = iter(["Bearer one", "Bearer two"])

    async def authorization() -> str:
        return next(tokens)

    async with Nsqd(URL, authorization=authorization, transport=answers.transport) as nsqd:
        await nsqd.ping()
        await nsqd.ping()
    assert [request.headers["Authorization"] for request in answers.requests] == ["Bearer one", "Bearer two"]


async def test_a_plain_function_will_do_and_it_wins() -> None:
    answers = Answers(b"OK")
    headers = {"authorization": "Bearer fixed", "X-Team": "data"}
    async with Nsqd(
        "http://user:password@nsqd.example:4151",
        headers=headers,
        authorization=lambda: "Bearer fresh",
        transport=answers.transport,
    ) as nsqd:
        await nsqd.ping()
    (request,) = answers.requests
    assert request.headers.get_list("Authorization") == ["Bearer fresh"]
    assert request.headers["X-Team"] == "data"


def raises(error: Exception) -> Authorization:
    def authorization() -> str:
        raise error

    return authorization


def returns(value: Any) -> Callable[[], Any]:
    return lambda: value


@pytest.mark.parametrize(
    ("authorization", "reason"),
    [
        (raises(ValueError("secret")), "raised ValueError"),
        (raises(TimeoutError("secret")), "raised TimeoutError"),
        (raises(httpx.ConnectError("secret")), "raised ConnectError"),
        (raises(StopAsyncIteration("secret")), "raised StopAsyncIteration"),
        (returns("secret\r\nX: y"), "printable ASCII"),
        (returns("secretü"), "printable ASCII"),
        (returns(" secret"), "printable ASCII"),
        (returns(""), "printable ASCII"),
        (returns(b"secret"), "printable ASCII"),
        (returns(None), "printable ASCII"),
    ],
)
async def test_without_it_nothing_is_asked(authorization: Authorization, reason: str) -> None:
    answers = Answers(b"OK")
    async with Nsqd(URL, authorization=authorization, transport=answers.transport) as nsqd:
        with pytest.raises(HTTPUnavailable, match=f"not asked: .*{reason}") as caught:
            await nsqd.ping()
    assert "secret" not in str(caught.value) + repr(caught.value)
    assert caught.value.url == f"{URL}/ping"
    assert answers.requests == []


async def test_its_own_errors_of_http_stay_what_they_are() -> None:
    error = HTTPStatusError("http://tokens.example", 403, "")
    async with Nsqd(URL, authorization=raises(error), transport=Answers().transport) as nsqd:
        with pytest.raises(HTTPStatusError) as caught:
            await nsqd.ping()
    assert caught.value is error


async def test_waiting_for_it_counts_for_the_timeout() -> None:
    async def authorization() -> str:
        await anyio.sleep_forever()
        return "never"

    async with Nsqd(URL, timeout=0.02, authorization=authorization, transport=Answers().transport) as nsqd:
        with anyio.fail_after(5), pytest.raises(HTTPUnavailable, match="no answer within"):
            await nsqd.ping()


async def test_it_is_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def refuse(stream: anyio.abc.ByteStream) -> None:
        assert b"Authorization: Bearer secret\r\n" in await read_head(stream)
        await stream.send(b"HTTP/1.1 401 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    async with tcp_server(refuse) as address, Nsqd(address, authorization=lambda: "Bearer secret") as nsqd:
        with pytest.raises(HTTPStatusError, match="401") as caught:
            await nsqd.ping()
        assert "secret" not in repr(nsqd) + str(caught.value) + repr(caught.value) + caplog.text


async def test_a_redirect_does_not_get_it() -> None:
    elsewhere: list[bytes] = []

    async def note(stream: anyio.abc.ByteStream) -> None:
        elsewhere.append(await stream.receive())

    async with tcp_server(note) as other:

        async def redirect(stream: anyio.abc.ByteStream) -> None:
            await read_head(stream)
            await stream.send(
                f"HTTP/1.1 307 X\r\nLocation: http://{other}/ping\r\nContent-Length: 0\r\n"
                "Connection: close\r\n\r\n".encode()
            )

        async with tcp_server(redirect) as address, Nsqd(address, authorization=lambda: "Bearer s") as nsqd:
            with pytest.raises(HTTPStatusError, match="307"):
                await nsqd.ping()
    assert elsewhere == []


@pytest.mark.parametrize("value", ["Bearer secret", b"secret", 5])
def test_what_is_no_function_is_refused(value: Any) -> None:
    with pytest.raises(InvalidOption, match="authorization") as caught:
        Nsqd(URL, authorization=value)
    assert "secret" not in str(caught.value)
