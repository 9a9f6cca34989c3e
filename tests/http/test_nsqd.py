"""Each endpoint of nsqd: what is asked, what is understood, what is refused before it is sent."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from nsq_anyio.errors import (
    HTTPInvalidReply,
    HTTPStatusError,
    InvalidAddress,
    InvalidBody,
    InvalidName,
    InvalidOption,
)
from nsq_anyio.http import Nsqd, NsqdInfo, Stats

from . import samples
from .support import Answers

pytestmark = pytest.mark.anyio

Call = Callable[[Nsqd], Awaitable[Any]]
AnyCall = Callable[[Any], Awaitable[Any]]

URL = "http://nsqd.example:4151"


async def ask(answers: Answers, call: Call) -> Any:
    async with Nsqd(URL, transport=answers.transport) as nsqd:
        return await call(nsqd)


COMMANDS: list[tuple[Call, str, str, dict[str, str]]] = [
    (lambda n: n.create_topic("t"), "POST", "/topic/create", {"topic": "t"}),
    (lambda n: n.delete_topic("t"), "POST", "/topic/delete", {"topic": "t"}),
    (lambda n: n.empty_topic("t"), "POST", "/topic/empty", {"topic": "t"}),
    (lambda n: n.pause_topic("t"), "POST", "/topic/pause", {"topic": "t"}),
    (lambda n: n.unpause_topic("t"), "POST", "/topic/unpause", {"topic": "t"}),
    (lambda n: n.create_channel("t", "c"), "POST", "/channel/create", {"topic": "t", "channel": "c"}),
    (lambda n: n.delete_channel("t", "c"), "POST", "/channel/delete", {"topic": "t", "channel": "c"}),
    (lambda n: n.empty_channel("t", "c"), "POST", "/channel/empty", {"topic": "t", "channel": "c"}),
    (lambda n: n.pause_channel("t", "c"), "POST", "/channel/pause", {"topic": "t", "channel": "c"}),
    (lambda n: n.unpause_channel("t", "c"), "POST", "/channel/unpause", {"topic": "t", "channel": "c"}),
    (
        lambda n: n.create_channel("t#ephemeral", "c#ephemeral"),
        "POST",
        "/channel/create",
        {"topic": "t#ephemeral", "channel": "c#ephemeral"},
    ),
    (lambda n: n.set_block_rate(5), "PUT", "/debug/setblockrate", {"rate": "5"}),
    (lambda n: n.free_memory(), "POST", "/debug/freememory", {}),
]


@pytest.mark.parametrize(
    ("call", "method", "path", "parameters"),
    COMMANDS,
)
async def test_commands(call: Call, method: str, path: str, parameters: dict[str, str]) -> None:
    answers = Answers()
    assert await ask(answers, call) is None
    assert answers.asked() == (method, path, parameters, b"")


async def test_ping() -> None:
    answers = Answers(b"OK")
    await ask(answers, Nsqd.ping)
    assert answers.asked() == ("GET", "/ping", {}, b"")


async def test_ping_of_an_unhealthy_nsqd_says_why() -> None:
    with pytest.raises(HTTPStatusError) as caught:
        await ask(Answers(b"NOK - no space left on device", 500), Nsqd.ping)
    assert (caught.value.status, caught.value.code) == (500, "NOK - no space left on device")


async def test_ping_of_something_else() -> None:
    with pytest.raises(HTTPInvalidReply, match="another server's port"):
        await ask(Answers(b"<html>welcome"), Nsqd.ping)


async def test_info() -> None:
    answers = Answers.json(samples.INFO)
    assert await ask(answers, Nsqd.info) == NsqdInfo.read(samples.INFO)
    assert answers.asked() == ("GET", "/info", {}, b"")


async def test_stats() -> None:
    answers = Answers.json(samples.STATS)
    assert await ask(answers, Nsqd.stats) == Stats.read(samples.STATS)
    parameters = {"format": "json", "include_clients": "true", "include_mem": "true"}
    assert answers.asked() == ("GET", "/stats", parameters, b"")


async def test_stats_of_one_channel() -> None:
    answers = Answers.json(samples.STATS)
    await ask(answers, lambda n: n.stats(topic="t", channel="c", include_clients=False, include_mem=False))
    assert answers.asked()[2] == {
        "format": "json",
        "topic": "t",
        "channel": "c",
        "include_clients": "false",
        "include_mem": "false",
    }


async def test_stats_as_text() -> None:
    answers = Answers("nsqd v1.3.0\nHealth: OK é\n".encode())
    assert await ask(answers, lambda n: n.stats_text(topic="t")) == "nsqd v1.3.0\nHealth: OK é\n"
    assert answers.asked()[2]["format"] == "text"
    assert answers.asked()[2]["topic"] == "t"


@pytest.mark.parametrize("body", [b"x", bytearray(b"x"), memoryview(b"x")])
async def test_publish(body: bytes) -> None:
    answers = Answers(b"OK")
    await ask(answers, lambda n: n.publish("t", body))
    assert answers.asked() == ("POST", "/pub", {"topic": "t"}, b"x")


@pytest.mark.parametrize(
    ("defer", "milliseconds"), [(0, "0"), (1.5, "1500"), (3600, "3600000"), (0.0016, "2")]
)
async def test_publish_deferred(defer: float, milliseconds: str) -> None:
    answers = Answers(b"OK")
    await ask(answers, lambda n: n.publish("t", b"\x00\xff\n", defer=defer))
    assert answers.asked() == ("POST", "/pub", {"topic": "t", "defer": milliseconds}, b"\x00\xff\n")


async def test_publish_many_is_binary() -> None:
    answers = Answers(b"OK")
    await ask(answers, lambda n: n.publish_many("t", [b"a\n", bytearray(b"bcd")]))
    body = b"\x00\x00\x00\x02" + b"\x00\x00\x00\x02a\n" + b"\x00\x00\x00\x03bcd"
    assert answers.asked() == ("POST", "/mpub", {"topic": "t", "binary": "true"}, body)


PUBLISHES: list[Call] = [lambda n: n.publish("t", b"x"), lambda n: n.publish_many("t", [b"x"])]


@pytest.mark.parametrize("call", PUBLISHES)
async def test_a_publish_needs_an_ok(call: Call) -> None:
    with pytest.raises(HTTPInvalidReply, match="not OK"):
        await ask(Answers(b""), call)


async def test_a_refused_publish() -> None:
    with pytest.raises(HTTPStatusError) as caught:
        await ask(Answers.json({"message": "MSG_TOO_BIG"}, 413), lambda n: n.publish("t", b"x"))
    assert (caught.value.status, caught.value.code) == (413, "MSG_TOO_BIG")
    assert caught.value.url == f"{URL}/pub?topic=t"


@pytest.mark.parametrize(
    ("value", "content_type", "expected"),
    [
        (b"2500", "application/json; charset=utf-8", 2500),
        (b'["a:1"]', "application/json", ["a:1"]),
        (b"null", "Application/JSON", None),
        (b"[nsqd] ", "text/plain; charset=utf-8", "[nsqd] "),
        (b"", "", ""),
    ],
)
async def test_config(value: bytes, content_type: str, expected: object) -> None:
    answers = Answers(value, content_type=content_type)
    assert await ask(answers, lambda n: n.config("max_rdy_count")) == expected
    assert answers.asked() == ("GET", "/config/max_rdy_count", {}, b"")


@pytest.mark.parametrize(
    ("value", "body"), [("debug", b"debug"), (["a:1", "b:2"], b'["a:1", "b:2"]'), ((), b"[]")]
)
async def test_set_config(value: Any, body: bytes) -> None:
    answers = Answers.json(["a:1"])
    assert await ask(answers, lambda n: n.set_config("some_option", value)) == ["a:1"]
    assert answers.asked() == ("PUT", "/config/some_option", {}, body)


async def test_nsqlookupd_tcp_addresses() -> None:
    answers = Answers.json(["127.0.0.1:4160"])
    assert await ask(answers, Nsqd.nsqlookupd_tcp_addresses) == ("127.0.0.1:4160",)
    assert answers.asked() == ("GET", "/config/nsqlookupd_tcp_addresses", {}, b"")
    assert await ask(Answers.json(None), Nsqd.nsqlookupd_tcp_addresses) == ()


@pytest.mark.parametrize(
    ("value", "body"), [(["a:1", "[::1]:2"], b'["a:1", "[::1]:2"]'), ([], b"[]"), ("a:1", b'["a:1"]')]
)
async def test_set_nsqlookupd_tcp_addresses(value: Any, body: bytes) -> None:
    answers = Answers.json([])
    await ask(answers, lambda n: n.set_nsqlookupd_tcp_addresses(value))
    assert answers.asked() == ("PUT", "/config/nsqlookupd_tcp_addresses", {}, body)


async def test_log_level() -> None:
    answers = Answers.json(2)
    assert await ask(answers, Nsqd.log_level) == "info"
    assert answers.asked() == ("GET", "/config/log_level", {}, b"")


async def test_set_log_level() -> None:
    answers = Answers.json(1)
    await ask(answers, lambda n: n.set_log_level("debug"))
    assert answers.asked() == ("PUT", "/config/log_level", {}, b"debug")


@pytest.mark.parametrize("value", [0, 6, True, "info", None, 2.0, [2]])
async def test_a_log_level_that_is_none(value: object) -> None:
    with pytest.raises(HTTPInvalidReply, match="log_level"):
        await ask(Answers.json(value), Nsqd.log_level)


DEBUG_COMMANDS: list[Call] = [lambda n: n.set_block_rate(1), Nsqd.free_memory]


@pytest.mark.parametrize("call", DEBUG_COMMANDS)
async def test_the_panic_after_a_debug_command_is_its_success(
    call: Call,
) -> None:
    await ask(Answers.json({"message": "INTERNAL_ERROR"}, 500), call)
    for status, code in [(500, "OTHER"), (400, "INTERNAL_ERROR"), (404, "NOT_FOUND")]:
        with pytest.raises(HTTPStatusError, match=code):
            await ask(Answers.json({"message": code}, status), call)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("index", "/debug/pprof/"),
        ("cmdline", "/debug/pprof/cmdline"),
        ("symbol", "/debug/pprof/symbol"),
        ("heap", "/debug/pprof/heap"),
        ("goroutine", "/debug/pprof/goroutine"),
        ("block", "/debug/pprof/block"),
        ("threadcreate", "/debug/pprof/threadcreate"),
    ],
)
async def test_pprof(name: Any, path: str) -> None:
    answers = Answers(b"\x1f\x8b\x00")
    assert await ask(answers, lambda n: n.pprof(name)) == b"\x1f\x8b\x00"
    assert answers.asked() == ("GET", path, {}, b"")


async def test_pprof_parameters() -> None:
    answers = Answers(b"text")
    await ask(answers, lambda n: n.pprof("goroutine", seconds=2, debug=1))
    assert answers.asked()[2] == {"seconds": "2", "debug": "1"}


async def test_pprof_of_the_cpu_is_told_how_long() -> None:
    answers = Answers(b"x")
    await ask(answers, lambda n: n.pprof("profile"))
    assert answers.asked() == ("GET", "/debug/pprof/profile", {"seconds": "30"}, b"")


async def test_pprof_symbols() -> None:
    answers = Answers(b"num_symbols: 1\n0x10 main\n")
    assert await ask(answers, lambda n: n.pprof_symbols(16, 255)) == b"num_symbols: 1\n0x10 main\n"
    assert answers.asked() == ("POST", "/debug/pprof/symbol", {}, b"0x10+0xff")


BAD_NAMES: list[Any] = ["", "a b", "a" * 65, "t\n", "ü", "a/../b", "#ephemeral", None, 5, b"t"]


@pytest.mark.parametrize("name", BAD_NAMES)
async def test_bad_names_are_not_sent(name: Any) -> None:
    answers = Answers(b"OK")
    async with Nsqd(URL, transport=answers.transport) as nsqd:
        calls: list[Awaitable[Any]] = [nsqd.publish(name, b"x"), nsqd.publish_many(name, [b"x"])]
        for operation in ("create", "delete", "empty", "pause", "unpause"):
            topic: Callable[[str], Awaitable[None]] = getattr(nsqd, f"{operation}_topic")
            channel: Callable[[str, str], Awaitable[None]] = getattr(nsqd, f"{operation}_channel")
            calls += [topic(name), channel(name, "c"), channel("t", name)]
        if name is not None:  # which is no filter
            calls += [nsqd.stats(topic=name), nsqd.stats_text(channel=name)]
        for call in calls:
            with pytest.raises(InvalidName):
                await call
    assert answers.requests == []


BAD_VALUES: list[tuple[AnyCall, type[Exception]]] = [
    (lambda n: n.publish("t", b""), InvalidBody),
    (lambda n: n.publish("t", "text"), InvalidBody),
    (lambda n: n.publish("t", None), InvalidBody),
    (lambda n: n.publish_many("t", []), InvalidBody),
    (lambda n: n.publish_many("t", [b"a", b""]), InvalidBody),
    (lambda n: n.publish_many("t", ["a"]), InvalidBody),
    (lambda n: n.publish_many("t", b"abc"), InvalidBody),
    (lambda n: n.publish_many("t", "abc"), InvalidBody),
    (lambda n: n.publish("t", b"x", defer=-0.001), InvalidOption),
    (lambda n: n.publish("t", b"x", defer=float("nan")), InvalidOption),
    (lambda n: n.publish("t", b"x", defer=float("inf")), InvalidOption),
    (lambda n: n.publish("t", b"x", defer=2**63), InvalidOption),
    (lambda n: n.publish("t", b"x", defer=True), InvalidOption),
    (lambda n: n.publish("t", b"x", defer="5"), InvalidOption),
    (lambda n: n.config(""), InvalidOption),
    (lambda n: n.config("../topic/delete"), InvalidOption),
    (lambda n: n.config("a\n"), InvalidOption),
    (lambda n: n.config(None), InvalidOption),
    (lambda n: n.set_config("log_level", b"debug"), InvalidOption),
    (lambda n: n.set_config("log_level", 5), InvalidOption),
    (lambda n: n.set_config("log_level", [5]), InvalidOption),
    (lambda n: n.set_log_level("loud"), InvalidOption),
    (lambda n: n.set_nsqlookupd_tcp_addresses(["http://a:1"]), InvalidAddress),
    (lambda n: n.set_nsqlookupd_tcp_addresses(["a"]), InvalidAddress),
    (lambda n: n.set_block_rate(-1), InvalidOption),
    (lambda n: n.set_block_rate(2**63), InvalidOption),
    (lambda n: n.set_block_rate(True), InvalidOption),
    (lambda n: n.pprof("trace"), InvalidOption),
    (lambda n: n.pprof("../pprof/heap"), InvalidOption),
    (lambda n: n.pprof("heap", seconds=0), InvalidOption),
    (lambda n: n.pprof("heap", seconds=3601), InvalidOption),
    (lambda n: n.pprof("heap", debug=3), InvalidOption),
    (lambda n: n.pprof_symbols(-1), InvalidOption),
    (lambda n: n.pprof_symbols(2**64), InvalidOption),
]


@pytest.mark.parametrize(
    ("call", "error"),
    BAD_VALUES,
)
async def test_bad_values_are_not_sent(call: AnyCall, error: type[Exception]) -> None:
    answers = Answers(b"OK")
    with pytest.raises(error):
        await ask(answers, call)
    assert answers.requests == []
