"""The TCP side of the embedded nsqlookupd answers what the real one answers."""

from __future__ import annotations

import json
import struct
from typing import Any

import anyio
import pytest

from nsq_anyio import embedded
from tests.real_servers import real_nsqlookupd

pytestmark = pytest.mark.anyio

LIMIT = 20.0
FIELDS: dict[str, Any] = {
    "broadcast_address": "h",
    "tcp_port": 1,
    "http_port": 2,
    "version": "v",
    "hostname": "n",
}


def framed(body: bytes) -> bytes:
    return b"IDENTIFY\n" + struct.pack(">i", len(body)) + body


def identify(**fields: Any) -> bytes:
    return framed(json.dumps(FIELDS | fields).encode())


OK = json.dumps(FIELDS).encode()


def with_port(port: bytes) -> bytes:
    return framed(OK.replace(b'"tcp_port": 1', b'"tcp_port": ' + port))


def also(pair: bytes) -> bytes:
    return framed(OK[:-1] + b"," + pair + b"}")


SESSIONS = {
    "identify": identify(),
    "upper case": framed(json.dumps({key.upper(): value for key, value in FIELDS.items()}).encode()),
    "mixed case": framed(OK.replace(b"broadcast_address", b"Broadcast_Address").replace(b"tcp", b"TCP")),
    "a long s": framed(OK.replace(b"broadcast", "broadca\u017ft".encode())),
    "upper case empties it": also(b'"BROADCAST_ADDRESS":""'),
    "upper case null changes nothing": also(b'"BROADCAST_ADDRESS":null'),
    "upper case of another type": also(b'"BROADCAST_ADDRESS":1'),
    "lower case wins behind upper case": framed(b'{"BROADCAST_ADDRESS":"",' + OK[1:]),
    "remote_address of another type": also(b'"Remote_Address":{}'),
    "remote_address": also(b'"remote_address":"elsewhere"'),
    **{
        f"port {port.decode()}": with_port(port)
        for port in (b"1.0", b"1e3", b"9223372036854775808", b'"1"', b"true", b"-1", b"01", b"-0", b"null")
    },
    "a huge number elsewhere": also(b'"x":' + b"9" * 5000),
    "NaN elsewhere": also(b'"x":NaN'),
    "trailing text": framed(OK + b" x"),
    "trailing space": framed(OK + b"\n "),
    "null": framed(b"null"),
    "a list": framed(b"[]"),
    "nothing": framed(b""),
    "UTF-16": framed(OK.decode().encode("utf-16")),
    "a byte order mark": framed(b"\xef\xbb\xbf" + OK),
    "not UTF-8": framed(OK.replace(b'"h"', b'"\xff"')),
    "a control character": framed(OK.replace(b'"h"', b'"\x01"')),
    "no host name": framed(OK.replace(b'"hostname"', b'"x"')),
    "no version": framed(OK.replace(b'"version"', b'"x"')),
    "a long command": b"X" * 5000 + b"\n",
    "a very long command": b"X" * 70_000 + b"\n",
    "a long topic": identify() + b"REGISTER " + b"x" * 5000 + b"\n",
    "a long channel": identify() + b"REGISTER t " + b"x" * 5000 + b"\n",
    "a long PING": b"PING" + b" " * 5000 + b"\nPING " + b"x" * 5000 + b"\n",
    "an empty line": b"\n",
}


async def converse(address: str, data: bytes) -> tuple[bytes, bool]:
    """What comes back, and whether the connection goes on; its last answer is one to PING then."""
    host, _, port = address.rpartition(":")
    received = b""
    with anyio.fail_after(LIMIT):
        async with await anyio.connect_tcp(host, int(port)) as stream:
            await stream.send(b"  V1" + data + b"PING\n")
            await stream.send_eof()
            try:
                while True:
                    received += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                pass
    pong = b"\x00\x00\x00\x02OK"
    return received.removesuffix(pong), received.endswith(pong)


def normalized(reply: bytes) -> bytes | dict[str, str]:
    """An answer to IDENTIFY without the values that differ from server to server."""
    size = int.from_bytes(reply[:4], "big")
    if reply[4:5] != b"{":
        return reply
    fields = json.loads(reply[4 : 4 + size])
    return {key: type(value).__name__ for key, value in fields.items()} | {"": repr(reply[4 + size :])}


async def test_sessions_are_alike() -> None:
    async with real_nsqlookupd() as real, embedded.nsqlookupd() as own:
        for name, data in SESSIONS.items():
            expected, goes_on = await converse(real.tcp_address, data)
            reply, also_goes_on = await converse(own.tcp_address, data)
            assert (normalized(reply), also_goes_on) == (normalized(expected), goes_on), name


async def test_a_line_without_an_end_is_bounded() -> None:
    """nsqlookupd would go on reading; the embedded one reads a mebibyte."""
    async with embedded.nsqlookupd() as own:
        reply, goes_on = await converse(own.tcp_address, b"X" * 2**21)
        assert (reply[4:], goes_on) == (b"E_INVALID command is too long", False)
