"""Publishing from a form: what it reads, and what came of it."""

import anyio
import pytest

from nsq_anyio import InvalidOption, envelope
from nsq_anyio.admin.messages.publishing import Draft, Target, publish
from nsq_anyio.serving.http_messages import Handler, Request, Response
from nsq_anyio.serving.http_server import serve_http
from nsq_anyio.serving.listener import local_port, open_listener

from .stage import Stage, stage

NOBODY = Target("nobody", "http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        ({"body": "a\r\nb\r\n"}, b"a\nb\n"),
        ({"body": " é\x00 ", "format": "text"}, b" \xc3\xa9\x00 "),
        ({"body": ' {"a":\r\n 1e999} ', "format": "json"}, b'{"a":\n 1e999}'),
        ({"body": "00 ff\r\n0A", "format": "hex"}, b"\x00\xff\n"),
        ({"body": "AP8\r\nK", "format": "base64"}, b"\x00\xff\n"),
        (
            {"body": "x", "headers": "\r\n Trace : 00-1: x \r\nb:\r\n"},
            envelope.encode(b"x", {"trace": "00-1: x", "b": ""}),
        ),
    ],
)
def test_bodies(fields: dict[str, str], body: bytes) -> None:
    assert Draft.of_form(fields) == Draft(body)


@pytest.mark.parametrize(("text", "defer"), [("", None), ("0", None), (" 1.5 ", 1.5), ("3600", 3600.0)])
def test_delays(text: str, defer: float | None) -> None:
    assert Draft.of_form({"body": "x", "defer": text}).defer == defer


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "The body is empty"),
        ({"body": "  ", "format": "hex"}, "The body is empty"),
        ({"body": "{", "format": "json"}, "The body is not JSON"),
        ({"body": "NaN", "format": "json"}, "The body is not JSON"),
        ({"body": "[" * 100_000, "format": "json"}, "nested too deeply"),
        ({"body": "abc", "format": "hex"}, "The body is not hexadecimal"),
        ({"body": "x!", "format": "base64"}, "The body is not base64"),
        ({"body": "QQ", "format": "base64"}, "The body is not base64"),
        ({"body": "x", "format": "xml"}, "format='xml' is not valid"),
        ({"body": "\ud800"}, "half of a character"),
        ({"body": "x", "headers": "no colon"}, "Line 1 of the headers has no colon"),
        ({"body": "x", "headers": "a: 1\nA: 2"}, "Header 'a' is given twice"),
        ({"body": "x", "headers": "a b: 1"}, "header name 'a b' is not valid"),
        ({"body": "x", "defer": "-1"}, "The delay '-1' is not valid"),
        ({"body": "x", "defer": "nan"}, "The delay 'nan' is not valid"),
        ({"body": "x", "defer": "inf"}, "The delay 'inf' is not valid"),
        ({"body": "x", "defer": "soon"}, "The delay 'soon' is not valid"),
    ],
)
def test_what_is_wrong_is_said(fields: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidOption, match=reason.replace("(", r"\(")):
        Draft.of_form(fields)


async def outcome_of(on: Stage, draft: Draft, *targets: Target) -> tuple[str, str, str]:
    async with on.upstream.used("action") as servers:
        outcome = await publish(servers, "t", draft, targets)
    return outcome.state, outcome.node, outcome.reason


@pytest.mark.anyio
async def test_it_is_stored_by_the_first_that_can_be_reached() -> None:
    async with stage() as on:
        await on.topic("t", "c")
        own = Target("own", on.nsqd.http_url)
        assert await outcome_of(on, Draft(b"one"), NOBODY, own, NOBODY) == ("stored", "own", "")
        assert await outcome_of(on, Draft(b"two", 60.0), own) == ("stored", "own", "")
        found = (await on.channels("t"))["c"]
        assert (found.depth, found.deferred_count) == (1, 1)


@pytest.mark.anyio
async def test_it_is_rejected_by_nsqd() -> None:
    async with stage() as on:
        await on.topic("t", "c")
        own = Target("own", on.nsqd.http_url)
        assert await outcome_of(on, Draft(b"x" * (1024 * 1024 + 1)), own) == (
            "rejected",
            "own",
            "MSG_TOO_BIG",
        )
        assert await outcome_of(on, Draft(b"x", 4000.0), own) == ("rejected", "own", "INVALID_DEFER")


@pytest.mark.anyio
async def test_it_is_not_sent_where_nobody_listens() -> None:
    async with stage() as on:
        state, node, reason = await outcome_of(on, Draft(b"x"), NOBODY)
        assert (state, node) == ("not sent", "nobody")
        assert reason
        assert (await outcome_of(on, Draft(b"x")))[0] == "not sent"


async def fails(_: Request) -> Response:
    return Response(502, b"<html>bad gateway</html>")


async def answers_wrongly(_: Request) -> Response:
    return Response(200, b"<html>hello</html>")


@pytest.mark.anyio
@pytest.mark.parametrize("handler", [fails, answers_wrongly])
async def test_it_is_unknown_after_an_answer_that_is_not_nsqds(
    handler: Handler,
) -> None:
    async with (
        stage() as on,
        await open_listener("127.0.0.1", 0) as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(serve_http, listener, handler)
        odd = Target("odd", f"http://127.0.0.1:{local_port(listener)}")
        own = Target("own", on.nsqd.http_url)
        # Nobody else is asked: it may be stored.
        assert (await outcome_of(on, Draft(b"x"), odd, own))[:2] == ("unknown", "odd")
        tasks.cancel_scope.cancel()
