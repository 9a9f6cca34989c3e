"""nsqd's side of nsqlookupd: tell every nsqlookupd which topics and channels there are.

For each configured nsqlookupd one task keeps a connection: it introduces nsqd, registers all that
exists, then reports each change as it happens and sends a PING now and then. A lost connection is opened
again, and everything registered again.
"""

from __future__ import annotations

import json
import logging
import struct
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import anyio
from anyio.abc import ByteStream

from ..address import Address, addresses
from ..errors import FrameTooLarge, ProtocolError
from ..protocol.deep_json import GO_MAX_DEPTH, DeepDecoder
from ..serving.listener import PEER_GONE
from .lookup_protocol import MAGIC_V1, frame

__all__ = ["HasTopics", "LookupPeers", "LookupTimes"]

_logger = logging.getLogger(__name__)

_MAX_REPLY = 1024 * 1024
_DECODER = DeepDecoder(max_depth=GO_MAX_DEPTH)
_SIZE = struct.Struct(">i")
_LOST = (*PEER_GONE, anyio.EndOfStream, ProtocolError)

_Change = tuple[str, str | None, bool]


class _HasChannels(Protocol):
    @property
    def channels(self) -> Mapping[str, object]: ...


class HasTopics(Protocol):
    """What is registered: nsqd, seen from here."""

    @property
    def topics(self) -> Mapping[str, _HasChannels]:
        """The topics by name, each with its channels by name."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupTimes:
    """Durations in seconds.

    :param ping_interval: between PINGs; nsqlookupd forgets an nsqd that is silent for 300 s; default 15
    :param reconnect_delay: after a lost connection or a failed attempt; default 1
    :param timeout: for a connection to open, and for each reply; default 5
    """

    ping_interval: float = 15.0
    reconnect_delay: float = 1.0
    timeout: float = 5.0


class LookupPeers:
    """The nsqlookupds of one nsqd.

    :param nsqd: whose topics and channels are registered
    :param identity: what nsqd says about itself: ``broadcast_address``, ``hostname``, ``http_port``,
        ``tcp_port``, ``version``; asked at each connection
    :param nsqlookupds: their TCP addresses, ``host:port``
    :raises InvalidAddress: if one is not valid
    """

    def __init__(
        self,
        nsqd: HasTopics,
        identity: Callable[[], Mapping[str, object]],
        nsqlookupds: Sequence[str] = (),
        times: LookupTimes | None = None,
    ) -> None:
        self._nsqd = nsqd
        self._identity = identity
        self._times = times or LookupTimes()
        self._peers: dict[Address, _Peer] = {}
        self._wanted: tuple[Address, ...] = ()
        self._wanted_changed = anyio.Event()
        self.set_addresses(nsqlookupds)

    @property
    def http_addresses(self) -> list[str]:
        """``host:port`` of the HTTP side of each nsqlookupd that has introduced itself."""
        return [peer.http_address for peer in self._peers.values() if peer.http_address]

    def set_addresses(self, nsqlookupds: Sequence[str]) -> None:
        """Register with these from now on, and with no others; the connections to the others are closed.

        :raises InvalidAddress: if one is not valid; then nothing changes
        """
        self._wanted = addresses(nsqlookupds) if nsqlookupds else ()
        self._wanted_changed.set()

    def notify(self, topic: str, channel: str | None, exists: bool) -> None:
        """A topic, or a channel of it, was created or is gone."""
        for peer in self._peers.values():
            peer.notify((topic, channel, exists))

    async def run(self) -> None:
        """Keep all registrations until cancelled; the connections are closed then."""
        async with anyio.create_task_group() as tasks:
            while True:
                self._wanted_changed = anyio.Event()
                for address in self._peers.keys() - set(self._wanted):
                    self._peers.pop(address).stop()
                for address in self._wanted:
                    if address not in self._peers:
                        peer = _Peer(address, self._nsqd, self._identity, self._times)
                        self._peers[address] = peer
                        tasks.start_soon(peer.run)
                await self._wanted_changed.wait()


class _Peer:
    """One nsqlookupd."""

    def __init__(
        self,
        address: Address,
        nsqd: HasTopics,
        identity: Callable[[], Mapping[str, object]],
        times: LookupTimes,
    ) -> None:
        self.http_address = ""
        self._address = address
        self._nsqd = nsqd
        self._identity = identity
        self._times = times
        self._scope = anyio.CancelScope()
        self._changes: deque[_Change] | None = None  # None while there is nobody to tell
        self._idle: anyio.CancelScope | None = None
        self._outage_reported = False

    def stop(self) -> None:
        """Close the connection, whereupon nsqlookupd forgets this nsqd, and end `run`."""
        self._scope.cancel()

    def notify(self, change: _Change) -> None:
        """Report a change, unless the connection has yet to be opened: then all is registered anyway."""
        if self._changes is not None:
            self._changes.append(change)
            if self._idle is not None:
                self._idle.cancel()

    async def run(self) -> None:
        with self._scope:
            while True:
                try:
                    async with await self._connect() as stream:
                        await self._keep_registered(_Connection(stream, self._times.timeout))
                except _LOST as error:
                    if not self._outage_reported:
                        self._outage_reported = True
                        _logger.warning("nsqlookupd %s: %s; trying again", self._address, _reason(error))
                finally:
                    self._changes = None
                await anyio.sleep(self._times.reconnect_delay)

    async def _connect(self) -> ByteStream:
        with anyio.fail_after(self._times.timeout):
            return await anyio.connect_tcp(self._address.host, self._address.port)

    async def _keep_registered(self, nsqlookupd: _Connection) -> None:
        reply = await nsqlookupd.ask(
            MAGIC_V1 + b"IDENTIFY\n" + frame(json.dumps(dict(self._identity())).encode())
        )
        self.http_address = _http_address(reply)
        self._outage_reported = False
        # The snapshot and the start of the changes are one step: nothing falls between them.
        self._changes = deque(
            (topic, channel, True)
            for topic in self._nsqd.topics
            for channel in (None, *self._nsqd.topics[topic].channels)
        )
        next_ping = anyio.current_time() + self._times.ping_interval
        while True:
            if anyio.current_time() >= next_ping:
                await nsqlookupd.ask_ok(b"PING\n")
                next_ping = anyio.current_time() + self._times.ping_interval
            elif self._changes:
                await nsqlookupd.ask_ok(_command(*self._changes.popleft()))
            else:
                await self._wait(nsqlookupd, until=next_ping)

    async def _wait(self, nsqlookupd: _Connection, until: float) -> None:
        """Wait for a change or the time, and notice at once when the connection ends meanwhile."""
        try:
            with anyio.CancelScope(deadline=until) as self._idle:
                await nsqlookupd.watch()
        finally:
            self._idle = None


class _Connection:
    """Commands to nsqlookupd and its replies, one after the other."""

    def __init__(self, stream: ByteStream, timeout: float) -> None:
        self._stream = stream
        self._timeout = timeout
        self._buffer = bytearray()

    async def ask(self, command: bytes) -> bytes:
        """Send a command and return the reply."""
        with anyio.fail_after(self._timeout):
            await self._stream.send(command)
            (size,) = _SIZE.unpack(await self._receive(_SIZE.size))
            if not 0 <= size <= _MAX_REPLY:
                raise FrameTooLarge(
                    size, _MAX_REPLY, hint="nsqlookupd's replies are short: is it nsqlookupd?"
                )
            return await self._receive(size)

    async def ask_ok(self, command: bytes) -> None:
        """Send a command that is answered with OK."""
        reply = await self.ask(command)
        if reply != b"OK":
            raise ProtocolError(f"{command!r} was answered with {reply[:200]!r}")

    async def watch(self) -> None:
        """Return never: raise when the connection ends, or when nsqlookupd speaks unasked."""
        data = bytes(self._buffer) or await self._stream.receive()
        raise ProtocolError(f"unexpected bytes {data[:200]!r}")

    async def _receive(self, count: int) -> bytes:
        while len(self._buffer) < count:
            self._buffer += await self._stream.receive()
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        return data


def _command(topic: str, channel: str | None, exists: bool) -> bytes:
    words = ["REGISTER" if exists else "UNREGISTER", topic]
    if channel is not None:
        words.append(channel)
    return " ".join(words).encode("ascii") + b"\n"


def _http_address(reply: bytes) -> str:
    try:
        fields: object = _DECODER.decode(reply.decode("utf-8", "replace"))
    except ValueError:
        raise ProtocolError(f"IDENTIFY was answered with {reply[:200]!r}") from None
    if not isinstance(fields, dict):
        raise ProtocolError(f"IDENTIFY was answered with {reply[:200]!r}")
    known = cast("dict[str, object]", fields)
    host, port = known.get("broadcast_address"), known.get("http_port")
    if not isinstance(host, str) or not host or not isinstance(port, int):
        return ""  # as nsqd: registered all the same, but its HTTP side is not known
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _reason(error: BaseException) -> str:
    match error:
        case TimeoutError():
            return "no answer in time"
        case anyio.EndOfStream():
            return "it closed the connection"
        case _:
            return str(error.__cause__ or error) or type(error).__name__
