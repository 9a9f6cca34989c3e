"""The embedded nsqd answers byte for byte what the real one answers."""

import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Literal

import anyio
import httpx
import pytest

from nsq_anyio import embedded
from tests.embedded.raw_client import MAGIC, RawClient, bodies, dpub, identify, mpub, pub, raw_client, sized
from tests.real_servers import real_nsqd

pytestmark = pytest.mark.anyio

Address = tuple[str, str]
Kind = Literal["real", "embedded"]

MAX_BODY = 2000
MAX_MESSAGE = 1000
FLAGS = [
    "--deflate=false",
    "--snappy=false",
    f"--max-body-size={MAX_BODY}",
    f"--max-msg-size={MAX_MESSAGE}",
    "--max-req-timeout=10s",
]
OPTIONS = embedded.NsqdOptions(
    deflate=False, snappy=False, max_body_size=MAX_BODY, max_msg_size=MAX_MESSAGE, max_req_timeout=10.0
)

ID = b"0123456789abcdef"
SUB = b"SUB s c\n"  # nothing is ever published to s
IDENTIFY_ALL = identify(
    '{"client_id":"me","hostname":"h","heartbeat_interval":2000,"output_buffer_size":64,'
    '"output_buffer_timeout":50,"feature_negotiation":true,"tls_v1":true,"deflate":true,"snappy":true,'
    '"sample_rate":10,"user_agent":"x","msg_timeout":1500,"deflate_level":3,"unknown":[1,{"a":1e999}]}'
)

# What a client sends, all at once, after which it closes its side; the magic stands before each.
SCRIPTS = {
    "nothing": b"",
    "nop": b"NOP\nNOP\r\n",
    "unknown command": b"HELLO world\n",
    "empty line": b"\n",
    "lower case": b"nop\n",
    "not utf-8": b"\xff\xfe\n",
    "line in progress": b"NOP\nPU",
    "line of 16384 bytes": b"A" * 16383 + b"\n",
    "line of 16385 bytes": b"NOP\n" + b"A" * 16384 + b"\n",
    "answers before the error": pub("t", b"x") + pub("t", b"y") + b"BAD\n" + pub("t", b"z"),
    # IDENTIFY
    "identify": identify("{}"),
    "identify null": identify("null"),
    "identify twice": identify("{}") + identify("{}"),
    "identify negotiates": identify('{"feature_negotiation":true}'),
    "identify everything": IDENTIFY_ALL,
    "identify keeps earlier values": IDENTIFY_ALL + identify('{"feature_negotiation":true}'),
    "identify in capitals": identify('{"FEATURE_NEGOTIATION":true,"Msg_Timeout":1000}'),
    "identify defaults by null": identify('{"feature_negotiation":true,"msg_timeout":null,"client_id":null}'),
    "identify minus one": identify(
        '{"feature_negotiation":true,"output_buffer_size":-1,"output_buffer_timeout":-1,"heartbeat_interval":-1}'
    ),
    "identify after sub": SUB + identify("{}"),
    "identify no json": identify("{"),
    "identify array": identify("[]"),
    "identify nested": identify('{"x":' + "[" * 2000 + "]" * 2000 + "}"),
    "identify nested as deep as Go goes": identify('{"x":' + "[" * 9999 + "]" * 9999 + "}"),
    "identify nested deeper": identify('{"x":' + "[" * 10_000 + "]" * 10_000 + "}"),
    "identify constant": identify('{"x":NaN}'),
    "identify wrong type": identify('{"client_id":1}'),
    "identify wrong type of ignored": identify('{"tls_v1":"yes"}'),
    "identify boolean number": identify('{"msg_timeout":true}'),
    "identify fraction": identify('{"msg_timeout":1000.5}'),
    "identify exponent": identify('{"msg_timeout":1e3}'),
    "identify huge": identify('{"msg_timeout":%s}' % ("9" * 5000))[:1500],
    "identify int64": identify('{"msg_timeout":9223372036854775808}'),
    "identify int32": identify('{"sample_rate":2147483648}'),
    "identify huge unknown": identify('{"x":%s}' % ("9" * 1000)),
    "identify heartbeat": identify('{"heartbeat_interval":999}'),
    "identify heartbeat high": identify('{"heartbeat_interval":60001}'),
    "identify heartbeat negative": identify('{"heartbeat_interval":-2}'),
    "identify buffer size": identify('{"output_buffer_size":63}'),
    "identify buffer size high": identify('{"output_buffer_size":65537}'),
    "identify buffer timeout": identify('{"output_buffer_timeout":24}'),
    "identify buffer timeout high": identify('{"output_buffer_timeout":30001}'),
    "identify sample rate": identify('{"sample_rate":100}'),
    "identify sample rate negative": identify('{"sample_rate":-1}'),
    "identify msg timeout": identify('{"msg_timeout":999}'),
    "identify msg timeout high": identify('{"msg_timeout":900001}'),
    "identify msg timeout negative": identify('{"msg_timeout":-1}'),
    "identify empty": b"IDENTIFY\n" + sized(b""),
    "identify negative size": b"IDENTIFY\n\xff\xff\xff\xff",
    "identify too big": b"IDENTIFY\n\x00\x00\x07\xd1",
    "identify without size": b"IDENTIFY\n\x00",
    "identify cut short": b"IDENTIFY\n\x00\x00\x00\x05{",
    # AUTH
    "auth": b"AUTH\n" + sized(b"secret"),
    "auth with parameter": b"AUTH me\n" + sized(b"secret"),
    "auth empty": b"AUTH\n" + sized(b""),
    "auth too big": b"AUTH\n\x00\x00\x07\xd1",
    "auth cut short": b"AUTH\n\x00\x00\x00\x05x",
    "auth without size": b"AUTH\n",
    "auth after sub": SUB + b"AUTH\n" + sized(b"secret"),
    # SUB
    "sub": SUB,
    "sub twice": SUB + SUB,
    "sub without channel": b"SUB t\n",
    "sub bad topic": b"SUB t$ c\n",
    "sub bad channel": b"SUB t c$\n",
    "sub long topic": b"SUB " + b"t" * 65 + b" c\n",
    "sub longest topic": b"SUB " + b"t" * 64 + b" c\n",
    "sub ephemeral": b"SUB s#ephemeral c#ephemeral\n",
    "sub quoted name": b'SUB t"\\\x01\x7f\xff\xc2\xa0\xc3\xa9\xf0\x9f\x98\x80\xe2\x80\x8b\t c\n',
    "sub without heartbeats": identify('{"heartbeat_interval":-1}') + SUB,
    # RDY
    "rdy before sub": b"RDY 1\n",
    "rdy": SUB + b"RDY 2500\nRDY 0\nRDY\nRDY \nRDY 1 2 3\n",
    "rdy too high": SUB + b"RDY 2501\n",
    "rdy negative": SUB + b"RDY -1\n",
    "rdy wraps around": SUB + b"RDY 18446744073709551615\n",
    "rdy wraps around long": SUB + b"RDY " + b"9" * 5000 + b"\n",
    "rdy no number": SUB + b"RDY x\xff\n",
    "rdy after cls": SUB + b"CLS\nRDY x\nRDY 99999\n",
    # FIN, REQ, TOUCH
    "fin before sub": b"FIN " + ID + b"\n",
    "fin without id": SUB + b"FIN\n",
    "fin short id": SUB + b"FIN abc\n",
    "fin two spaces": SUB + b"FIN  " + ID + b"\n",
    "fin id with space": SUB + b"FIN 01234567 9abcdef\n",
    "fin id with line feed": SUB + b"FIN 01234567\n9abcdef\n",
    "fin unknown": SUB + (b"FIN " + ID + b"\n") * 3,
    "fin unknown, odd bytes": SUB + b"FIN 01234567\xff9abcdef\nFIN " + ID + b" more\nFIN " + ID + b"\r\n",
    "fin after cls": SUB + b"CLS\nFIN " + ID + b"\n",
    "req before sub": b"REQ " + ID + b" 0\n",
    "req without delay": SUB + b"REQ " + ID + b"\n",
    "req short id": SUB + b"REQ abc 0\n",
    "req no number": SUB + b"REQ " + ID + b" -1\n",
    "req unknown": SUB + b"REQ " + ID + b" 0\nREQ " + ID + b" 99999999999\n",
    "touch before sub": b"TOUCH " + ID + b"\n",
    "touch without id": SUB + b"TOUCH\n",
    "touch short id": SUB + b"TOUCH abc\n",
    "touch unknown": SUB + b"TOUCH " + ID + b"\n",
    # CLS
    "cls before sub": b"CLS\n",
    "cls": SUB + b"CLS\n",
    "cls twice": SUB + b"CLS\nCLS\n",
    "cls with parameters": SUB + b"CLS now\n",
    "publish after cls": SUB + b"CLS\n" + pub("t", b"x"),
    # PUB
    "pub without topic": b"PUB\n",
    "pub bad topic": pub("a$b", b"x"),
    "pub topic and more": b"PUB t u v\n" + sized(b"x"),
    "pub empty": pub("t", b""),
    "pub negative": b"PUB t\n\xff\xff\xff\xff",
    "pub largest": pub("t", b"x" * MAX_MESSAGE),
    "pub too big": pub("t", b"x" * (MAX_MESSAGE + 1)),
    "pub without size": b"PUB t\n\x00\x00",
    "pub cut short": b"PUB t\n\x00\x00\x00\x05abc",
    # DPUB
    "dpub": dpub("t", 0, b"x") + dpub("t", 10_000, b"x"),
    "dpub without delay": b"DPUB t\n",
    "dpub bad topic": dpub("t$", 0, b"x"),
    "dpub no number": b"DPUB t 1.5\n",
    "dpub too long": dpub("t", 10_001, b"x"),
    "dpub wraps around": dpub("t", 2**64 - 1, b"x"),
    "dpub wraps around to valid": dpub("t", 2**64, b"x"),
    "dpub empty": dpub("t", 0, b""),
    "dpub too big": dpub("t", 0, b"x" * (MAX_MESSAGE + 1)),
    "dpub without size": b"DPUB t 0\n",
    "dpub cut short": b"DPUB t 0\n\x00\x00\x00\x05abc",
    # MPUB
    "mpub": mpub("t", b"a", b"b"),
    "mpub without topic": b"MPUB\n",
    "mpub bad topic": mpub("t$", b"a"),
    "mpub without size": b"MPUB t\n\x00",
    "mpub empty": b"MPUB t\n" + sized(b""),
    "mpub too big": b"MPUB t\n\x00\x00\x07\xd1",
    "mpub without count": b"MPUB t\n\x00\x00\x00\x05\x00",
    "mpub count zero": b"MPUB t\n" + sized(bodies()),
    "mpub count too high": b"MPUB t\n\x00\x00\x00\x05" + b"\x00\x00\x01\x90",
    "mpub count negative": b"MPUB t\n\x00\x00\x00\x05" + b"\xff\xff\xff\xff",
    "mpub empty message": mpub("t", b"a", b""),
    "mpub message too big": mpub("t", b"a", b"x" * (MAX_MESSAGE + 1)),
    "mpub without message size": b"MPUB t\n\x00\x00\x00\x05\x00\x00\x00\x02\x00\x00\x00\x01a\x00",
    "mpub message cut short": b"MPUB t\n\x00\x00\x00\x05\x00\x00\x00\x01\x00\x00\x00\x05abc",
    "mpub size is not compared": b"MPUB t\n\x00\x00\x00\x01" + bodies(b"aaa", b"bbb") + b"NOP\n",
}


@asynccontextmanager
async def servers() -> AsyncGenerator[dict[Kind, Address]]:
    async with real_nsqd(flags=FLAGS) as real, embedded.nsqd(options=OPTIONS) as own:
        yield {
            "real": (real.tcp_address, real.http_url),
            "embedded": (own.tcp_address, own.http_url),
        }


async def transcript(address: str, data: bytes, magic: bytes = MAGIC) -> list[tuple[int, bytes]]:
    """All frames that the server sends to a client that says ``data``."""
    frames: list[tuple[int, bytes]] = []
    async with raw_client(address, magic) as client:
        await client.send(data) if data else None
        # Trio and uvloop refuse it when the server has closed already.
        with contextlib.suppress(OSError, RuntimeError):
            await client.stream.send_eof()
        await read_all(client, frames)
    return frames


async def read_all(client: RawClient, frames: list[tuple[int, bytes]]) -> None:
    try:
        while True:
            frames.append(await client.frame())
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return


async def test_commands_are_answered_alike() -> None:
    async with servers() as both:
        for name, script in SCRIPTS.items():
            expected = await transcript(both["real"][0], script)
            actual = await transcript(both["embedded"][0], script)
            assert actual == expected, name


@pytest.mark.parametrize("magic", [b"  V1", b"GET ", b"\xff\xff\xff\xff", b"  V", b""])
async def test_another_magic_is_answered_alike(magic: bytes) -> None:
    async with servers() as both:
        if magic:
            expected = await transcript(both["real"][0], b"", magic)
            assert await transcript(both["embedded"][0], b"", magic) == expected
        else:
            async with await anyio.connect_tcp("127.0.0.1", int(both["embedded"][0].split(":")[1])) as stream:
                await stream.send_eof()
                with pytest.raises(anyio.EndOfStream):
                    await stream.receive()


async def test_topics_are_made_alike_by_what_is_refused() -> None:
    scripts = {
        "mpub": b"MPUB made-by-mpub\n\x00\x00\x00\x00",
        "mpub-cut": b"MPUB made-by-cut-mpub\n\x00\x00\x00\x09\x00",
        "pub": b"PUB made-by-pub\n\x00\x00\x00\x00",
        "dpub": b"DPUB made-by-dpub 0\n\x00\x00\x00\x00",
    }
    async with servers() as both, httpx.AsyncClient(trust_env=False) as http:
        topics: list[list[str]] = []
        for tcp_address, http_url in both.values():
            for script in scripts.values():
                frames = await transcript(tcp_address, script)
                assert [kind for kind, _ in frames] == [1]
            stats = (await http.get(f"{http_url}/stats?format=json")).json()
            topics.append([topic["topic_name"] for topic in stats["topics"]])
        assert topics == [["made-by-cut-mpub", "made-by-mpub"]] * 2
