"""nsqd's connections to nsqlookupds: registration, and queries for known channels.

One task for each nsqlookupd keeps a connection. It sends IDENTIFY, registers all topics and channels, then
reports each change as it happens and sends PINGs. After a lost connection, it reconnects and registers
everything again.
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

from ...address import Address, addresses, host_port
from ...errors import FrameTooLarge, NSQError, ProtocolError
from ...names import is_ephemeral, is_valid_name
from ...protocol.deep_json import GO_MAX_DEPTH, DeepDecoder
from ...serving.listener import PEER_GONE
from ...transport.connect_tcp import connect_tcp
from ..nsqlookupd.nsqlookupd_session import MAGIC_V1, frame
from .topic import Topic

_logger = logging.getLogger(__name__)

_MAX_REPLY = 1024 * 1024
_DECODER = DeepDecoder(max_depth=GO_MAX_DEPTH)
_SIZE = struct.Struct(">i")
_LOST = (*PEER_GONE, anyio.EndOfStream, ProtocolError)

_Change = tuple[str, str | None, bool]

_TIMEOUT = 5.0


class _HasChannels(Protocol):
    @property
    def channels(self) -> Mapping[str, object]: ...


class HasTopics(Protocol):
    """The part of an nsqd that registration needs."""

    @property
    def topics(self) -> Mapping[str, _HasChannels]:
        """The topics by name, each with its channels by name."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupTimes:
    """Durations in seconds.

    :param ping_interval: between PINGs; nsqlookupd stops listing an nsqd that is silent for 300 s. Default 15
    :param reconnect_delay: after a lost connection or a failed attempt; default 1
    :param timeout: to connect, and for each reply; default 5
    """

    ping_interval: float = 15.0
    reconnect_delay: float = 1.0
    timeout: float = 5.0


class LookupPeers:
    """The nsqlookupds of one nsqd.

    :param nsqd: the topics and channels to register
    :param identity: returns nsqd's description of itself: ``broadcast_address``, ``hostname``, ``http_port``,
        ``tcp_port``, ``version``; called for each connection
    :param nsqlookupds: their TCP addresses, ``host:port``
    :raises InvalidAddress: if an address is not valid
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
        """The HTTP address, ``host:port``, of each nsqlookupd that has answered IDENTIFY."""
        return [peer.http_address for peer in self._peers.values() if peer.http_address]

    def set_addresses(self, nsqlookupds: Sequence[str]) -> None:
        """Register with these nsqlookupds only; the connections to others are closed.

        :raises InvalidAddress: if an address is not valid; then nothing changes
        """
        self._wanted = addresses(nsqlookupds) if nsqlookupds else ()
        self._wanted_changed.set()

    def notify(self, topic: str, channel: str | None, exists: bool) -> None:
        """Report that a topic, or a channel of it, was created or deleted."""
        for peer in self._peers.values():
            peer.notify((topic, channel, exists))

    async def run(self) -> None:
        """Keep everything registered until cancelled."""
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
    """The connection to one nsqlookupd."""

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
        self._changes: deque[_Change] | None = None  # None while not connected
        self._idle: anyio.CancelScope | None = None
        self._outage_reported = False

    def stop(self) -> None:
        """End `run` and close the connection; nsqlookupd then drops the registrations of this nsqd."""
        self._scope.cancel()

    def notify(self, change: _Change) -> None:
        """Report a change. Without a connection, do nothing: the next connection registers everything."""
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
            return await connect_tcp(self._address.host, self._address.port)

    async def _keep_registered(self, nsqlookupd: _Connection) -> None:
        reply = await nsqlookupd.ask(
            MAGIC_V1 + b"IDENTIFY\n" + frame(json.dumps(dict(self._identity())).encode())
        )
        self.http_address = _http_address(reply)
        self._outage_reported = False
        # The snapshot and the queue for later changes are made in one step, so no change is missed.
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
        """Wait for a change or until ``until``, and notice at once if the connection ends."""
        try:
            with anyio.CancelScope(deadline=until) as self._idle:
                await nsqlookupd.watch()
        finally:
            self._idle = None


class _Connection:
    """Sends one command at a time to nsqlookupd, and receives its reply."""

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
        """Send a command whose reply has to be OK."""
        reply = await self.ask(command)
        if reply != b"OK":
            raise ProtocolError(f"{command!r} was answered with {reply[:200]!r}")

    async def watch(self) -> None:
        """Never return; raise when the connection ends, or nsqlookupd sends something unasked."""
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
        return ""  # as in nsqd, which registers there, but cannot query it
    return host_port(host, port)


def _reason(error: BaseException) -> str:
    match error:
        case TimeoutError():
            return "no answer in time"
        case anyio.EndOfStream():
            return "it closed the connection"
        case _:
            return str(error.__cause__ or error) or type(error).__name__


async def start_with_known_channels(topic: Topic, nsqlookupds: Sequence[str]) -> None:
    """Create the channels that the nsqlookupds (HTTP addresses, ``host:port``) know, and start ``topic``.

    Otherwise channels whose consumers have not yet connected to this nsqd would miss the first messages.
    An nsqlookupd that does not answer is left out. Ephemeral channels are not created, as they have no client
    here.
    """
    from ...http import Nsqlookupd  # noqa: PLC0415 - httpx takes longer to import than all the rest

    channels: set[str] = set()

    async def ask(address: str) -> None:
        try:
            async with Nsqlookupd(address, timeout=_TIMEOUT) as nsqlookupd:
                channels.update(await nsqlookupd.channels(topic.name))
        except NSQError as error:
            _logger.warning("the channels of topic %s are not known: %s", topic.name, error)

    async with anyio.create_task_group() as tasks:
        for address in nsqlookupds:
            tasks.start_soon(ask, address)
    if topic.is_deleted:  # while the nsqlookupds were asked
        return
    for name in sorted(channels):
        if is_valid_name(name) and not is_ephemeral(name):
            topic.get_channel(name)
    topic.start()
