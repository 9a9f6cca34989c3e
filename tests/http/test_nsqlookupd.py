"""Each endpoint of nsqlookupd: what is asked, what is understood, what is refused before it is sent."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from nsq_anyio.errors import HTTPStatusError, InvalidName, InvalidOption
from nsq_anyio.http import Lookup, Nsqlookupd, NsqlookupdInfo, Producer, Registration

from . import samples
from .support import Answers

pytestmark = pytest.mark.anyio

Call = Callable[[Nsqlookupd], Awaitable[Any]]

URL = "http://nsqlookupd.example:4161"


async def ask(answers: Answers, call: Call) -> Any:
    async with Nsqlookupd(URL, transport=answers.transport) as nsqlookupd:
        return await call(nsqlookupd)


COMMANDS: list[tuple[Call, str, dict[str, str]]] = [
    (lambda u: u.create_topic("t"), "/topic/create", {"topic": "t"}),
    (lambda u: u.delete_topic("t"), "/topic/delete", {"topic": "t"}),
    (lambda u: u.create_channel("t", "c"), "/channel/create", {"topic": "t", "channel": "c"}),
    (lambda u: u.delete_channel("t", "c"), "/channel/delete", {"topic": "t", "channel": "c"}),
    (
        lambda u: u.tombstone_topic("t", "::1:4151"),
        "/topic/tombstone",
        {"topic": "t", "node": "::1:4151"},
    ),
]


@pytest.mark.parametrize(
    ("call", "path", "parameters"),
    COMMANDS,
)
async def test_commands(call: Call, path: str, parameters: dict[str, str]) -> None:
    answers = Answers()
    assert await ask(answers, call) is None
    assert answers.asked() == ("POST", path, parameters, b"")


QUERIES: list[tuple[Call, str, dict[str, str], object, object]] = [
    (Nsqlookupd.info, "/info", {}, {"version": "1.3.0"}, NsqlookupdInfo("1.3.0")),
    (
        lambda u: u.lookup("t"),
        "/lookup",
        {"topic": "t"},
        samples.LOOKUP,
        Lookup(("archive", "metrics"), (Producer(**samples.PRODUCER),)),
    ),
    (Nsqlookupd.topics, "/topics", {}, {"topics": ["a", "b"]}, ("a", "b")),
    (Nsqlookupd.topics, "/topics", {}, {"topics": None}, ()),
    (lambda u: u.channels("t"), "/channels", {"topic": "t"}, {"channels": ["c"]}, ("c",)),
    (
        Nsqlookupd.nodes,
        "/nodes",
        {},
        samples.NODES,
        (Producer(**samples.PRODUCER, topics=("clicks", "views"), tombstones=(False, True)),),
    ),
    (
        Nsqlookupd.debug,
        "/debug",
        {},
        samples.DEBUG,
        {key: tuple(Registration(**one) for one in many) for key, many in samples.DEBUG.items()},
    ),
]


@pytest.mark.parametrize(
    ("call", "path", "parameters", "answer", "expected"),
    QUERIES,
)
async def test_queries(
    call: Call,
    path: str,
    parameters: dict[str, str],
    answer: object,
    expected: object,
) -> None:
    answers = Answers.json(answer)
    assert await ask(answers, call) == expected
    assert answers.asked() == ("GET", path, parameters, b"")


async def test_an_unknown_topic() -> None:
    with pytest.raises(HTTPStatusError) as caught:
        await ask(Answers.json({"message": "TOPIC_NOT_FOUND"}, 404), lambda u: u.lookup("t"))
    assert (caught.value.status, caught.value.code) == (404, "TOPIC_NOT_FOUND")
    assert str(caught.value) == f"{URL}/lookup?topic=t: 404 TOPIC_NOT_FOUND"


@pytest.mark.parametrize("base", ["", "/", "/lookup", "/lookup/"])
async def test_a_url_may_end_in_lookup(base: str) -> None:
    answers = Answers.json(samples.LOOKUP)
    async with Nsqlookupd(f"{URL}/proxy{base}?token=1", transport=answers.transport) as nsqlookupd:
        await nsqlookupd.lookup("t")
    assert answers.asked() == ("GET", "/proxy/lookup", {"token": "1", "topic": "t"}, b"")


async def test_pprof_index_has_no_slash() -> None:
    answers = Answers(b"<html>")
    assert await ask(answers, Nsqlookupd.pprof) == b"<html>"
    assert answers.asked() == ("GET", "/debug/pprof", {}, b"")


@pytest.mark.parametrize("name", ["", "*", "a b", "t\n", None])
async def test_bad_names_are_not_sent(name: Any) -> None:
    answers = Answers()
    async with Nsqlookupd(URL, transport=answers.transport) as nsqlookupd:
        calls: list[Awaitable[Any]] = [
            nsqlookupd.lookup(name),
            nsqlookupd.channels(name),
            nsqlookupd.create_topic(name),
            nsqlookupd.delete_topic(name),
            nsqlookupd.create_channel(name, "c"),
            nsqlookupd.create_channel("t", name),
            nsqlookupd.delete_channel(name, "c"),
            nsqlookupd.delete_channel("t", name),
            nsqlookupd.tombstone_topic(name, "a:1"),
        ]
        for call in calls:
            with pytest.raises(InvalidName):
                await call
    assert answers.requests == []


@pytest.mark.parametrize("node", ["", "host", ":4151", "host:", "host:x", "host:\n", None, 4151])
async def test_a_bad_node_is_not_sent(node: Any) -> None:
    answers = Answers()
    with pytest.raises(InvalidOption, match="broadcast_address:http_port"):
        await ask(answers, lambda u: u.tombstone_topic("t", node))
    assert answers.requests == []
