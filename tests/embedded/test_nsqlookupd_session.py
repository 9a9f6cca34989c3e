"""Protocol V1 of nsqlookupd, without I/O; the expected bytes are what nsqlookupd 1.3.0 answered."""

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsq_anyio.embedded.nsqlookupd.nsqlookupd_session import MAGIC_V1, LookupSession, frame
from nsq_anyio.embedded.nsqlookupd.registry import Registry

REMOTE = "127.0.0.1:5000"
IDENTITY = b'{"version":"1.3.0"}'
FIELDS = {"broadcast_address": "nsqd1", "tcp_port": 4150, "http_port": 4151, "version": "1.3.0"}
IDENTIFIED = frame(IDENTITY)
OK = frame(b"OK")


def identify(fields: object) -> bytes:
    body = fields if isinstance(fields, bytes) else json.dumps(fields).encode()
    return b"IDENTIFY\n" + frame(body)


def open_session() -> tuple[LookupSession, Registry]:
    registry = Registry(inactive_producer_timeout=300, tombstone_lifetime=45)
    return LookupSession(registry, REMOTE, IDENTITY), registry


def test_a_whole_life() -> None:
    session, registry = open_session()
    assert session.receive(MAGIC_V1 + b"PING\n", now=1.0) == OK
    assert session.receive(identify({**FIELDS, "hostname": "h", "more": []}), now=2.0) == IDENTIFIED
    assert session.receive(b"REGISTER t c\nREGISTER u\n", now=3.0) == OK + OK
    (peer,) = registry.producers("t", now=3.0)
    assert (peer.remote_address, peer.hostname, peer.broadcast_address) == (REMOTE, "h", "nsqd1")
    assert (peer.tcp_port, peer.http_port, peer.version, peer.last_update) == (4150, 4151, "1.3.0", 2.0)
    assert session.receive(b"PING\n", now=4.0) == OK
    assert peer.last_update == 4.0
    assert session.receive(b"UNREGISTER u\n", now=5.0) == OK
    assert registry.producers("u", now=5.0) == []
    assert not session.is_over
    assert session.receive_end() == b""
    session.close()
    assert registry.producers("t", now=5.0) == []


def test_byte_by_byte_is_the_same_as_whole() -> None:
    data = MAGIC_V1 + identify(FIELDS) + b"REGISTER t c\r\n  PING \nUNREGISTER t c\nREGISTER t  c\n"
    whole, whole_registry = open_session()
    pieces, pieces_registry = open_session()
    expected = whole.receive(data, now=0)
    assert expected == IDENTIFIED + OK * 4
    assert b"".join(pieces.receive(bytes([byte]), now=0) for byte in data) == expected
    assert [key for key, _ in whole_registry.items()] == [key for key, _ in pieces_registry.items()]


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"FOO bar\n", b"E_INVALID invalid command FOO"),
        (b"\n", b"E_INVALID invalid command "),
        (b"REGISTER t\n", b"E_INVALID client must IDENTIFY"),
        (b"UNREGISTER t\n", b"E_INVALID client must IDENTIFY"),
        (identify({}), b"E_BAD_BODY IDENTIFY missing fields"),
        (identify(None), b"E_BAD_BODY IDENTIFY missing fields"),
        (identify({**FIELDS, "tcp_port": 0}), b"E_BAD_BODY IDENTIFY missing fields"),
        (identify(b"xx"), b"E_BAD_BODY IDENTIFY failed to decode JSON body"),
        (identify([]), b"E_BAD_BODY IDENTIFY failed to decode JSON body"),
        (identify(b"[" * 100_000), b"E_BAD_BODY IDENTIFY failed to decode JSON body"),
        (identify({**FIELDS, "tcp_port": "1"}), b"E_BAD_BODY IDENTIFY failed to decode JSON body"),
        (identify({**FIELDS, "tcp_port": 1.5}), b"E_BAD_BODY IDENTIFY failed to decode JSON body"),
        (identify({**FIELDS, "tcp_port": True}), b"E_BAD_BODY IDENTIFY failed to decode JSON body"),
        (identify({**FIELDS, "tcp_port": 2**63}), b"E_BAD_BODY IDENTIFY failed to decode JSON body"),
        (identify({**FIELDS, "version": 1}), b"E_BAD_BODY IDENTIFY failed to decode JSON body"),
        (b"IDENTIFY\n" + struct.pack(">i", -1), b"E_BAD_BODY IDENTIFY failed to read body"),
        (b"IDENTIFY\n" + struct.pack(">i", 2**31 - 1), b"E_BAD_BODY IDENTIFY failed to read body"),
        (b"x" * 2**20, b"E_INVALID command is too long"),
    ],
)
def test_errors_before_identify_are_fatal(data: bytes, error: bytes) -> None:
    session, registry = open_session()
    assert session.receive(MAGIC_V1 + data, now=0) == frame(error)
    assert session.is_over
    assert list(registry.items()) == []


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (identify(FIELDS), b"E_INVALID cannot IDENTIFY again"),
        (b"REGISTER\n", b"E_INVALID REGISTER insufficient number of params"),
        (b"UNREGISTER\n", b"E_INVALID UNREGISTER insufficient number of params"),
        (b"REGISTER  a\n", b"E_BAD_TOPIC REGISTER topic name '' is not valid"),
        (b"REGISTER a!\n", b"E_BAD_TOPIC REGISTER topic name 'a!' is not valid"),
        (b"UNREGISTER \xff\n", b"E_BAD_TOPIC UNREGISTER topic name '\xff' is not valid"),
        (b"REGISTER a b!\n", b"E_BAD_CHANNEL REGISTER channel name 'b!' is not valid"),
    ],
)
def test_errors_after_identify_are_fatal(data: bytes, error: bytes) -> None:
    session, _ = open_session()
    assert session.receive(MAGIC_V1 + identify(FIELDS) + data, now=0) == IDENTIFIED + frame(error)
    assert session.is_over


def test_another_protocol_is_refused() -> None:
    session, _ = open_session()
    assert session.receive(b"  V2SUB t c\n", now=0) == frame(b"E_BAD_PROTOCOL")
    assert session.is_over


@pytest.mark.parametrize(
    ("data", "reply"),
    [
        (b"IDENTIFY\n", b"E_BAD_BODY IDENTIFY failed to read body size"),
        (b"IDENTIFY\n\0\0", b"E_BAD_BODY IDENTIFY failed to read body size"),
        (b"IDENTIFY\n\0\0\0\x05{", b"E_BAD_BODY IDENTIFY failed to read body"),
    ],
)
def test_an_end_within_identify_is_answered(data: bytes, reply: bytes) -> None:
    session, _ = open_session()
    assert session.receive(MAGIC_V1 + data, now=0) == b""
    assert session.receive_end() == frame(reply)


@given(st.lists(st.binary(max_size=40) | st.sampled_from([MAGIC_V1, b"REGISTER t c\n", identify(FIELDS)])))
def test_any_input_is_answered_or_ends_the_session(pieces: list[bytes]) -> None:
    session, registry = open_session()
    for piece in pieces:
        if session.is_over:
            break
        session.receive(piece, now=0)
    session.close()
    assert all(producers == [] for _, producers in registry.items())
