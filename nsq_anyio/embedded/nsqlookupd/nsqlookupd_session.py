"""nsqlookupd's side of protocol V1, for one connection of an nsqd: bytes in, bytes out, no I/O.

The peer sends ``"  V1"`` and then lines: ``IDENTIFY`` (followed by a size and JSON), ``REGISTER topic
[channel]``, ``UNREGISTER topic [channel]``, ``PING``. Each reply is a size and a text, without the frame type
of protocol V2. Every error ends the connection. The texts are those of nsqlookupd 1.3.0.
"""

from __future__ import annotations

import struct
from typing import Any

from ...names import is_valid_name
from ..go_struct import read_struct
from .registry import Peer, Registry

MAGIC_V1 = b"  V1"

_SIZE = struct.Struct(">i")

# The real nsqlookupd has no limits. nsqd's longest line has 141 bytes, its IDENTIFY a few hundred.
_MAX_LINE = 1024 * 1024
_MAX_BODY = 1024 * 1024
_ZEROS: dict[str, Any] = {
    "remote_address": "",
    "hostname": "",
    "broadcast_address": "",
    "tcp_port": 0,
    "http_port": 0,
    "version": "",
}


def frame(body: bytes) -> bytes:
    """Return ``body`` with its size in front, as V1 sends replies and the body of IDENTIFY."""
    return _SIZE.pack(len(body)) + body


class _Fatal(Exception):
    """Ends the connection after a last reply."""


class LookupSession:
    """Applies the commands of one connection to the registry.

    :param remote_address: the peer's ``host:port``, which identifies its registrations
    :param identity: the JSON that answers IDENTIFY
    """

    def __init__(self, registry: Registry, remote_address: str, identity: bytes) -> None:
        self._registry = registry
        self._remote_address = remote_address
        self._identity = identity
        self._buffer = bytearray()
        self._searched = 0  # bytes of the buffer without a line end
        self._magic_seen = False
        self._identifying = False
        self._peer: Peer | None = None
        self.is_over: bool = False

    def receive(self, data: bytes, now: float) -> bytes:
        """Take bytes from the peer and return the replies; set ``is_over`` if the connection has to end."""
        self._buffer += data
        replies = bytearray()
        try:
            while (reply := self._step(now)) is not None:
                replies += reply
        except _Fatal as error:
            self.is_over = True
            replies += frame(error.args[0])
        return bytes(replies)

    def receive_end(self) -> bytes:
        """Note that the peer has sent its last byte, and return the last reply, if any."""
        self.is_over = True
        if not self._identifying:
            return b""
        part = b"body" if len(self._buffer) >= _SIZE.size else b"body size"
        return frame(b"E_BAD_BODY IDENTIFY failed to read " + part)

    def close(self) -> None:
        """Drop the peer's registrations: its connection has ended."""
        if self._peer is not None:
            self._registry.disconnect(self._peer)

    def _step(self, now: float) -> bytes | None:
        """Execute the next complete command; return None if more bytes are needed."""
        if not self._magic_seen:
            return self._read_magic()
        if self._identifying:
            body = self._read_body()
            return None if body is None else self._identify(body, now)
        line = self._read_line()
        return None if line is None else self._execute(line, now)

    def _read_magic(self) -> bytes | None:
        if len(self._buffer) < len(MAGIC_V1):
            return None
        if not self._buffer.startswith(MAGIC_V1):
            raise _Fatal(b"E_BAD_PROTOCOL")
        del self._buffer[: len(MAGIC_V1)]
        self._magic_seen = True
        return b""

    def _read_line(self) -> bytes | None:
        end = self._buffer.find(b"\n", self._searched, _MAX_LINE)
        if end < 0:
            if len(self._buffer) >= _MAX_LINE:
                raise _Fatal(b"E_INVALID command is too long")
            self._searched = len(self._buffer)
            return None
        self._searched = 0
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line.strip()

    def _read_body(self) -> bytes | None:
        if len(self._buffer) < _SIZE.size:
            return None
        (size,) = _SIZE.unpack_from(self._buffer)
        if not 0 <= size <= _MAX_BODY:
            raise _Fatal(b"E_BAD_BODY IDENTIFY failed to read body")
        end = _SIZE.size + size
        if len(self._buffer) < end:
            return None
        body = bytes(self._buffer[_SIZE.size : end])
        del self._buffer[:end]
        return body

    def _execute(self, line: bytes, now: float) -> bytes:
        command, *arguments = line.split(b" ")
        match command:
            case b"PING":
                if self._peer is not None:  # PING may come before IDENTIFY
                    self._registry.ping(self._peer, now)
                return frame(b"OK")
            case b"IDENTIFY":
                if self._peer is not None:
                    raise _Fatal(b"E_INVALID cannot IDENTIFY again")
                self._identifying = True
                return b""
            case b"REGISTER":
                self._registry.register(self._identified(), *_names(command, arguments))
                return frame(b"OK")
            case b"UNREGISTER":
                self._registry.unregister(self._identified(), *_names(command, arguments))
                return frame(b"OK")
            case _:
                raise _Fatal(b"E_INVALID invalid command " + command)

    def _identified(self) -> Peer:
        if self._peer is None:
            raise _Fatal(b"E_INVALID client must IDENTIFY")
        return self._peer

    def _identify(self, body: bytes, now: float) -> bytes:
        self._identifying = False
        self._peer = _peer(body, self._remote_address, now)
        self._registry.identify(self._peer)
        return frame(self._identity)


def _names(command: bytes, arguments: list[bytes]) -> tuple[str, str]:
    if not arguments:
        raise _Fatal(b"E_INVALID %b insufficient number of params" % command)
    topic = arguments[0]
    channel = arguments[1] if len(arguments) > 1 else b""
    if not _is_valid(topic):
        raise _Fatal(b"E_BAD_TOPIC %b topic name '%b' is not valid" % (command, topic))
    if channel and not _is_valid(channel):
        raise _Fatal(b"E_BAD_CHANNEL %b channel name '%b' is not valid" % (command, channel))
    return topic.decode("ascii"), channel.decode("ascii")


def _is_valid(name: bytes) -> bool:
    return is_valid_name(name.decode("latin-1"))


def _peer(body: bytes, remote_address: str, now: float) -> Peer:
    try:
        fields = {**_ZEROS, **read_struct(body, _ZEROS)}
    except ValueError:
        raise _Fatal(b"E_BAD_BODY IDENTIFY failed to decode JSON body") from None
    if not (fields["broadcast_address"] and fields["tcp_port"] and fields["http_port"] and fields["version"]):
        raise _Fatal(b"E_BAD_BODY IDENTIFY missing fields")
    fields["remote_address"] = remote_address  # even if the peer has sent another one
    return Peer(id=remote_address, last_update=now, **fields)
