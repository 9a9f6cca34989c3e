"""Streamed responses: their clients come, read slowly, and vanish."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from nsq_anyio.serving.asgi import StreamedResponse, Write, server_sent_event, stream_response

pytestmark = pytest.mark.anyio


async def staying() -> dict[str, Any]:
    await anyio.sleep_forever()
    raise AssertionError


async def test_pieces_are_sent_until_the_body_ends() -> None:
    sent: list[Any] = []

    async def send(event: Any) -> None:
        sent.append(event)

    async def body(write: Write) -> None:
        await write(b"one")
        await write(b"")
        await write(b"two")

    with anyio.fail_after(5):
        await stream_response(staying, send, StreamedResponse(200, body, (("Content-Type", "text/plain"),)))
    assert sent[0]["headers"] == [(b"content-type", b"text/plain")]
    assert [(event["body"], event["more_body"]) for event in sent[1:]] == [
        (b"one", True),
        (b"two", True),
        (b"", False),
    ]


async def test_a_client_that_leaves_ends_the_body() -> None:
    left = anyio.Event()
    cleaned = anyio.Event()

    async def receive() -> dict[str, Any]:
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(event: Any) -> None:
        if event.get("body"):
            left.set()

    async def body(write: Write) -> None:
        try:
            await write(b"one")
            await anyio.sleep_forever()
        finally:
            cleaned.set()

    with anyio.fail_after(5):
        await stream_response(receive, send, StreamedResponse(200, body))
    assert cleaned.is_set()


async def test_a_client_that_takes_nothing_is_given_up() -> None:
    sent: list[Any] = []

    async def send(event: Any) -> None:
        sent.append(event)
        if event.get("body"):
            await anyio.sleep_forever()

    async def body(write: Write) -> None:
        await write(b"one")
        raise AssertionError

    with anyio.fail_after(5):
        await stream_response(staying, send, StreamedResponse(200, body), patience=0.05)
    assert sent[-1]["more_body"]


async def test_a_body_that_fails_is_an_error() -> None:
    async def send(event: Any) -> None:
        pass

    async def body(write: Write) -> None:
        raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        await stream_response(staying, send, StreamedResponse(200, body))


def test_events_are_framed() -> None:
    assert server_sent_event("a") == b"data: a\n\n"
    assert server_sent_event("a\r\nb\rc", event="poll", number=7) == (
        b"event: poll\nid: 7\ndata: a\ndata: b\ndata: c\n\n"
    )
    with pytest.raises(ValueError, match="one line"):
        server_sent_event("a", event="x\ndata: y")
