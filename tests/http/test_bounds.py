"""What a hostile answer may cost: how many values it has, and what goes on while it is read."""

import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import TypeVar, cast

import pytest

from nsq_anyio.errors import HTTPInvalidReply
from nsq_anyio.http import Lookup, Nsqd, Stats
from nsq_anyio.http.models import read_registrations
from nsq_anyio.http.reply import MAX_TEXT, Reply
from nsq_anyio.http.rereading import StatsReader

from .support import Answers

pytestmark = pytest.mark.anyio

T = TypeVar("T")

URL = "http://nsqd:4151"


@pytest.mark.parametrize("value", [b"{}", b"[]", b"1", b"[[[[]]]]", b'{"a":1,"b":2}'])
async def test_an_answer_has_a_bounded_number_of_values(value: bytes) -> None:
    body = b'{"topics":[' + b",".join([value] * 4100) + b"]}"
    async with Nsqd(URL, max_reply_size=64_000, transport=Answers(body).transport) as nsqd:
        with pytest.raises(HTTPInvalidReply, match="more than 4000 values"):
            await nsqd.stats()


async def test_the_answer_of_a_large_nsqd_is_read() -> None:
    client = b'{"client_id":"consumer-1","hostname":"host-1","in_flight_count":1000,"ready_count":2500}'
    channel = b'{"channel_name":"archive","depth":12345,"clients":[%s]}' % b",".join([client] * 20)
    body = b'{"topics":[{"topic_name":"clicks","channels":[%s]}]}' % b",".join([channel] * 10)
    async with Nsqd(URL, max_reply_size=len(body), transport=Answers(body).transport) as nsqd:
        assert len((await nsqd.stats()).topics[0].channels) == 10


async def test_a_large_answer_is_read_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    readers: list[threading.Thread] = []
    read = Stats.read

    def noted(value: object) -> Stats:
        readers.append(threading.current_thread())
        return read(value)

    monkeypatch.setattr(Stats, "read", noted)
    for size in (1000, 2_000_000):
        body = b'{"topics":[],"health":"OK"%s}' % (b" " * size)
        async with Nsqd(URL, transport=Answers(body).transport) as nsqd:
            assert (await nsqd.stats()).health == "OK"
    assert readers[0] is threading.current_thread()
    assert readers[1] is not threading.current_thread()


LONG = ["x" * 257, "ä" * 257, "x" * 3_000_000, "\ud800" * 300_000, "\U0001f600" * 100_000]


@pytest.mark.parametrize("text", LONG, ids=["ASCII", "Latin", "megabytes", "surrogates", "wide"])
async def test_texts_are_bounded(text: str) -> None:
    names = ("client_id", "hostname", "version", "remote_address", "user_agent", "auth_identity")
    client = {**dict.fromkeys(names, text), "pub_counts": [{"topic": text, "count": 1}]}
    channel = {"channel_name": text, "clients": [client]}
    stats = {"version": text, "health": text, "topics": [{"topic_name": text, "channels": [channel]}]}
    found: list[object] = [await read(stats, lambda nsqd: nsqd.stats())]
    for _ in range(2):
        found.append(await read(stats, lambda nsqd: nsqd.stats_again(StatsReader())))
    found.append(await read({"version": text, "hostname": text}, lambda nsqd: nsqd.info()))
    producer = {**dict.fromkeys(("hostname", "broadcast_address", "version"), text), "topics": ["t", text]}
    reply = Reply(URL, 200, "", json.dumps({"producers": [producer], "channels": [text]}).encode())
    found += [reply.read(Lookup.read), read_registrations({text: [producer]})]
    for each in found:
        assert all(len(part) <= MAX_TEXT for part in texts_in(each)), each
        assert any(part.endswith("…") for part in texts_in(each))


async def test_texts_up_to_the_bound_are_kept() -> None:
    for text in ("x" * MAX_TEXT, "ä" * MAX_TEXT):
        body = {"topics": [{"topic_name": text}], "health": text}
        for stats in (
            await read(body, lambda nsqd: nsqd.stats()),
            await read(body, lambda nsqd: nsqd.stats_again(StatsReader())),
        ):
            assert (stats.health, stats.topics[0].topic_name) == (text, text)


async def read(body: object, ask: Callable[[Nsqd], Awaitable[T]]) -> T:
    text = json.dumps(body, separators=(",", ":")).encode()
    async with Nsqd(URL, transport=Answers(text).transport) as nsqd:
        return await ask(nsqd)


def texts_in(value: object) -> Iterator[str]:
    """Yield all texts in dataclasses, tuples and dictionaries."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for pair in cast("dict[object, object]", value).items():
            yield from texts_in(pair)
    elif isinstance(value, tuple):
        for each in cast("tuple[object, ...]", value):
            yield from texts_in(each)
    elif is_dataclass(value):
        for field in fields(value):
            yield from texts_in(getattr(value, field.name))
