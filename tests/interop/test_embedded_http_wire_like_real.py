"""HTTP as Go's server and nsqd's router speak it, down to what only clients by hand send."""

from __future__ import annotations

import anyio
import pytest

from nsq_anyio import embedded
from tests.real_servers import real_nsqd, real_nsqlookupd

from .http_wire import ask, chunked, request

pytestmark = pytest.mark.anyio

FLAGS = ["--max-body-size=200", "--max-msg-size=100"]
OPTIONS = embedded.NsqdOptions(max_body_size=200, max_msg_size=100)

EXPECT = b"Expect: 100-continue"
KEEP = b"Connection: keep-alive"
CHUNKED = b"Transfer-Encoding: chunked"


def of_length(length: int) -> bytes:
    return b"Content-Length: %d" % length


VERSIONS = {
    "1.0": request("GET /ping HTTP/1.0"),
    "1.0 without Host": request("GET /ping HTTP/1.0", host=b""),
    "1.0 keep-alive": request("GET /ping HTTP/1.0", None, KEEP),
    "1.0 Keep-Alive": request("GET /ping HTTP/1.0", None, b"Connection: Keep-Alive"),
    "1.0 keep-alive without Host": request("GET /ping HTTP/1.0", None, KEEP, host=b""),
    "1.0 keep-alive with a body": request("POST /pub?topic=t HTTP/1.0", b"x", KEEP),
    "1.0 keep-alive, unknown": request("GET /nope HTTP/1.0", None, KEEP),
    "1.0 keep-alive, HEAD": request("HEAD /ping HTTP/1.0", None, KEEP),
    "1.0 keep-alive, too large": request("POST /mpub?topic=t HTTP/1.0", b"x" * 201, KEEP),
    "1.0 without a length": request("POST /pub?topic=t HTTP/1.0"),
    "1.0 expect": request("POST /pub?topic=t HTTP/1.0", b"x", EXPECT),
    "1.1 close": request("GET /ping HTTP/1.1", None, b"Connection: close"),
    "1.1 keep-alive": request("GET /ping HTTP/1.1", None, KEEP),
    "1.1 empty Host": request("GET /ping HTTP/1.1", host=b"Host:"),
    "1.2": request("GET /ping HTTP/1.2"),
    "bare line feeds": b"GET /ping HTTP/1.1\nHost: x\n\n",
    "an upgrade": request("GET /ping HTTP/1.1", None, b"Connection: Upgrade", b"Upgrade: websocket"),
}

# Not CONNECT: from its release 1.27 on, Go closes the connection after it.
METHODS = {
    (method, path): request(f"{method} {path} HTTP/1.1")
    for path in ("/ping", "/pub", "/config/x", "/nope", "/ping/", "*")
    for method in ("GET", "HEAD", "PUT", "DELETE", "OPTIONS", "get", "FOO")
}

EXPECTATIONS = {
    "pub": request("POST /pub?topic=t HTTP/1.1", b"x", EXPECT),
    "pub, upper case": request("POST /pub?topic=t HTTP/1.1", b"x", b"Expect: 100-CONTINUE"),
    "one of two": request("POST /pub?topic=t HTTP/1.1", b"x", b"Expect: foo, 100-continue"),
    "pub too large": request("POST /pub?topic=t HTTP/1.1", None, EXPECT, of_length(101)),
    "mpub too large": request("POST /mpub?topic=t HTTP/1.1", None, EXPECT, of_length(201)),
    "mpub to no topic": request("POST /mpub?topic=a$ HTTP/1.1", None, EXPECT, of_length(1)),
    "pub to no topic": request("POST /pub?topic=a$ HTTP/1.1", b"x", EXPECT),
    "unknown path": request("POST /nope HTTP/1.1", None, EXPECT, of_length(1)),
    "unknown method": request("GET /pub HTTP/1.1", None, EXPECT, of_length(1)),
    "a body that is never read": request("GET /ping HTTP/1.1", None, EXPECT, of_length(1)),
    "no body for create": request("POST /topic/create?topic=t HTTP/1.1", None, EXPECT, of_length(1)),
    "a body for pause": request("POST /topic/pause?topic=no HTTP/1.1", b"x", EXPECT),
    "no length": request("POST /pub?topic=t HTTP/1.1", None, EXPECT),
    "length 0": request("POST /pub?topic=t HTTP/1.1", b"", EXPECT),
    "unknown": request("GET /ping HTTP/1.1", None, b"Expect: 200-ok"),
    "unknown with a body": request("POST /pub?topic=t HTTP/1.1", b"x", b"Expect: foo"),
    "empty": request("GET /ping HTTP/1.1", None, b"Expect:"),
}

BODIES = {
    "413 pub": request("POST /pub?topic=t HTTP/1.1", b"x" * 101),
    "413 pub of 200 kB": request("POST /pub?topic=t HTTP/1.1", b"x" * 200_000),
    "413 pub of 300 kB": request("POST /pub?topic=t HTTP/1.1", b"x" * 300_000),
    "413 pub announced": request("POST /pub?topic=t HTTP/1.1", None, of_length(300_000)),
    "413 mpub": request("POST /mpub?topic=t HTTP/1.1", b"x" * 201),
    "413 config": request("PUT /config/log_level HTTP/1.1", b"x" * 201),
    "chunks": request("POST /pub?topic=t HTTP/1.1", None, CHUNKED) + chunked(b"abc", b"def"),
    "chunks of 101": request("POST /pub?topic=t HTTP/1.1", None, CHUNKED) + chunked(b"x" * 101),
    "chunks of 101 parts": request("POST /pub?topic=t HTTP/1.1", None, CHUNKED) + chunked(*[b"x"] * 101),
    "lines in chunks": request("POST /mpub?topic=t HTTP/1.1", None, CHUNKED) + chunked(b"x\n" * 150),
    "a trailer": request("POST /pub?topic=t HTTP/1.1", None, CHUNKED) + b"1\r\nx\r\n0\r\nA: b\r\n\r\n",
    "bad chunks, pub": request("POST /pub?topic=t HTTP/1.1", None, CHUNKED) + b"zz\r\nabc\r\n",
    "bad chunks, mpub": request("POST /mpub?topic=t HTTP/1.1", None, CHUNKED) + b"zz\r\nabc\r\n",
    "bad chunks, config": request("PUT /config/log_level HTTP/1.1", None, CHUNKED) + b"zz\r\nabc\r\n",
    "bad chunks, pause": request("POST /topic/pause?topic=t HTTP/1.1", None, CHUNKED) + b"zz\r\nabc\r\n",
    "bad chunks, ping": request("GET /ping HTTP/1.1", None, CHUNKED) + b"zz\r\nabc\r\n",
    "both framings": request("POST /pub?topic=t HTTP/1.1", None, CHUNKED, of_length(5)) + chunked(b"x"),
    "the same length twice": request("POST /pub?topic=t HTTP/1.1", b"x", of_length(1)),
    "a huge body that is never read": request("GET /ping HTTP/1.1", None, of_length(10**12)),
    "a body for ping": request("GET /ping HTTP/1.1", b"x" * 1000),
    "300 kB for ping": request("GET /ping HTTP/1.1", b"x" * 300_000),
    "a body for pause": request("POST /topic/pause?topic=no HTTP/1.1", b"x" * 1000),
}

PATHS = {
    path: request(b"%b %b HTTP/1.1" % (method, path), b"" if method == b"POST" else None)
    for method, path in [
        *[
            (b"GET", path)
            for path in (
                *(b"/ping/", b"//ping", b"/ping//", b"/a/../ping", b"/./ping/.", b"/../ping", b"/PING"),
                *(b"/Ping/", b"/ping/?a=b&c=%zz;d", b"/pub/", b"/", b"//", b"/topic", b"/ping?", b"/ping;a"),
                *(b"/config", b"/config/", b"/config/log_level/", b"/CONFIG/log_level", b"/config/LOG_LEVEL"),
                *(b"/CONFIG/a%20b!c%2Fd", b"/CONFIG/a%20b!c/", b"/config/a/b", b"/config/log%5flevel"),
                *(b"/config%2Flog_level", b"/CONFIG/\xff", b"/CONFIG/%ff", b"/ping\xff", b"/ping%ff"),
                *("/pïng".encode(), b"/ping#a", b"/%22%3Cping%3E/", b"http://h/ping", b"https://h/ping"),
                *(b"http://h:1/ping/?x", b"http://h", b"h:1"),
            )
        ],
        *[
            (b"POST", path)
            for path in (b"/pub/?topic=t", b"/PUB?topic=t", b"/topic/", b"/Topic//Create?topic=t")
        ],
    ]
}

QUERIES = {
    (method, target): request(b"%b %b HTTP/1.1" % (method, target), body)
    for method, target, body in (
        *[(b"GET", b"/ping?" + query, None) for query in (b"%zz", b"a;b", b"\xff", b"%ff", b"%01")],
        *[(b"POST", b"/pub?topic=t&a=%zz", body) for body in (b"x", b"", b"x" * 101)],
        *[(b"POST", b"/mpub?topic=" + query, b"x") for query in (b"t;a", b"%ff", b"\xff", "ü".encode())],
        *[(b"GET", b"/stats?" + query, None) for query in (b"%zz", b"format=json;topic=t", b"topic=%")],
        *[
            (b"POST", path + b"?topic=%zz", b"")
            for path in (b"/topic/create", b"/topic/pause", b"/topic/empty")
        ],
        *[(b"POST", path + b"?topic=t;a", b"") for path in (b"/channel/create", b"/channel/delete")],
        *[
            (b"POST", b"/topic/pause?" + query, b"")
            for query in (b"topic=no&topic=t", b"&&topic=no&", b"topic")
        ],
        *[(b"GET", path + b"?%zz", None) for path in (b"/config/log_level", b"/nope", b"/pub")],
        (b"POST", b"/topic/create?topic=a+b", b""),
    )
}

REFUSED = {
    "1.1 without Host": request("GET /ping HTTP/1.1", host=b""),
    "two Hosts": request("GET /ping HTTP/1.1", None, b"Host: y"),
    **{f"HTTP/{version}": request(f"GET /ping HTTP/{version}") for version in ("2.0", "0.9", "3.0")},
    **{f"HTTP/{version}": request(f"GET /ping HTTP/{version}") for version in ("1.", "11.1", "1.10", "x")},
    "no version": b"GET /ping\r\n\r\n",
    "no request": b"garbage\r\n\r\n",
    "an empty line before": b"\r\n" + request("GET /ping HTTP/1.1"),
    "a bad method": request("G(T /ping HTTP/1.1"),
    "a method that is not ASCII": request(b"G\xffT /ping HTTP/1.1"),
    "gzip": request("POST /pub?topic=t HTTP/1.1", None, b"Transfer-Encoding: gzip"),
    "two lengths": request("POST /pub?topic=t HTTP/1.1", b"xx", of_length(1)),
    **{
        f"length {length!r}": request("POST /pub?topic=t HTTP/1.1", None, b"Content-Length: " + length)
        for length in (b"x", b"-1", b"9" * 23)
    },
    "a bad header": request("GET /ping HTTP/1.1", None, b"A b: c"),
    "no colon": request("GET /ping HTTP/1.1", None, b"abc"),
    "a space before the colon": request("GET /ping HTTP/1.1", None, b"A : c"),
    "a folded header": request("GET /ping HTTP/1.1", None, b"A: c", b"  d"),
    "a header that is not ASCII": request("GET /ping HTTP/1.1", None, b"A: \xff\xfe"),
    "a header of 60 kB": request("GET /ping HTTP/1.1", None, b"A: " + b"x" * 60_000),
    "a header of 1.2 MB": request("GET /ping HTTP/1.1", None, b"A: " + b"x" * 1_200_000),
    "a target of 60 kB": request("GET /ping?" + "x" * 60_000 + " HTTP/1.1"),
    **{
        repr(target): request(b"GET %b HTTP/1.1" % target)
        for target in (
            b"/ping%zz",
            b"/ping%",
            b"/ping\x01",
            b"/ping\x7f",
            b"http://[h/ping",
            b"ping",
            b"/a b",
        )
    },
}


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


@pytest.mark.parametrize(
    "requests",
    [VERSIONS, METHODS, EXPECTATIONS, BODIES, PATHS, QUERIES],
    ids=["versions", "methods", "expectations", "bodies", "paths", "queries"],
)
async def test_nsqd_answers_alike(requests: dict[object, bytes]) -> None:
    async with real_nsqd(flags=FLAGS) as real, embedded.nsqd(options=OPTIONS) as own:
        for name, data in requests.items():
            expected = await ask(port_of(real.http_url), data)
            assert await ask(port_of(own.http_url), data) == expected, name


async def test_what_is_no_request_is_refused_alike() -> None:
    async with real_nsqd(flags=FLAGS) as real, embedded.nsqd(options=OPTIONS) as own:
        for name, data in REFUSED.items():
            expected = await ask(port_of(real.http_url), data)
            assert (await ask(port_of(own.http_url), data)).outline == expected.outline, name


LOOKUPS = {
    (method, path): request(f"{method} {path} HTTP/1.1")
    for method, path in [
        *[
            ("GET", path)
            for path in ("/ping", "/ping/", "/PING", "//info", "*", "/lookup", "/lookup/?topic=t")
        ],
        *[
            ("GET", f"/{name}?topic={value}")
            for name in ("lookup", "channels")
            for value in ("%zz", "t;a", "%ff")
        ],
        *[("GET", f"/{name}?%zz") for name in ("topics", "nodes", "ping", "info", "debug", "nope")],
        *[("POST", f"/{kind}/create?topic=%zz") for kind in ("topic", "channel")],
        *[("POST", path) for path in ("/topic/delete?%", "/topic/tombstone?topic=t;n", "/channel/delete?;")],
        *[("POST", path) for path in ("/topic/create/?topic=t", "/Topic/Delete?topic=t")],
        *[("OPTIONS", path) for path in ("/ping", "*", "/topic/create", "/nope")],
    ]
}


async def test_nsqlookupd_answers_alike() -> None:
    async with real_nsqlookupd() as real, embedded.nsqlookupd() as own:
        for name, data in LOOKUPS.items():
            expected = await ask(port_of(real.http_url), data)
            assert await ask(port_of(own.http_url), data) == expected, name


async def test_chunked_binary_mpub_stays_within_max_body_size() -> None:
    """The one body that nsqd takes, and the embedded one does not: nothing bounds it."""
    messages = b"".join(b"\x00\x00\x00\x64" + b"x" * 100 for _ in range(3))
    body = b"\x00\x00\x00\x03" + messages
    data = request("POST /mpub?topic=t&binary=true HTTP/1.1", None, CHUNKED) + chunked(body)
    async with real_nsqd(flags=FLAGS) as real, embedded.nsqd(options=OPTIONS) as own:
        assert (await ask(port_of(real.http_url), data)).status == 200
        refused = await ask(port_of(own.http_url), data)
        assert (refused.status, refused.body, refused.goes_on) == (413, b'{"message":"BODY_TOO_BIG"}', True)
        assert own.topics["t"].depth == 0


async def test_no_100_continue_before_the_body_is_wanted() -> None:
    data = request("POST /pub?topic=t HTTP/1.1", None, EXPECT, of_length(1))
    async with embedded.nsqd(options=OPTIONS) as own:
        async with await anyio.connect_tcp("127.0.0.1", port_of(own.http_url)) as stream:
            await stream.send(data)
            with anyio.fail_after(5):
                assert (await stream.receive()).startswith(b"HTTP/1.1 100 Continue\r\n")
            await stream.send(b"x")
            with anyio.fail_after(5):
                assert (await stream.receive()).startswith(b"HTTP/1.1 200 ")
