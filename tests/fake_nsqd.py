"""A scripted nsqd: it does what a test says, right or wrong, and keeps what the client sent.

Each accepted connection runs a script, a coroutine function of its `FakeConnection`. `serve` behaves like a
well-meaning nsqd; without a script the connection waits for the test's block to drive it::

    async with fake_nsqd() as nsqd, nsq.consume("t", "c", nsqd=nsqd.address):
        connection = await nsqd.connection()
        await connection.subscribe()
        await connection.expect(b"RDY 1")
"""

import json
import struct
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import anyio
from anyio.abc import SocketAttribute, SocketStream

import nsq_anyio as nsq
from nsq_anyio.address import Address
from nsq_anyio.events import Event
from nsq_anyio.protocol.frames import (
    FRAME_ERROR,
    FRAME_RESPONSE,
    HEARTBEAT,
    MAGIC_V2,
    encode_frame,
    encode_message_frame,
)

LIMIT = 15.0
"""Seconds after which something that does not come is a failure, on a busy machine too."""

BODY_COMMANDS = (b"IDENTIFY", b"AUTH", b"PUB", b"DPUB", b"MPUB")

EventT = TypeVar("EventT", bound=Event)


async def until(condition: Callable[[], object], limit: float = LIMIT) -> None:
    """Wait until ``condition`` holds. The longer it has waited, the less often it looks.

    On a virtual clock, each look takes a real millisecond.
    """
    began = anyio.current_time()
    with anyio.fail_after(limit):
        while not condition():  # noqa: ASYNC110 - what is waited for sets no event
            await anyio.sleep(min(max(0.001, (anyio.current_time() - began) / 20), 0.05))


def client_tasks() -> list[str]:
    """The running tasks that the client has started."""
    names = [task.name or "" for task in anyio.get_running_tasks()]
    return [name for name in names if "nsq_anyio." in name and "nsq_anyio.testing." not in name]


class Events(list[Event]):
    """An ``on_event`` hook that keeps what it is told."""

    def __call__(self, event: Event) -> None:
        self.append(event)

    def of(self, kind: type[EventT]) -> list[EventT]:
        return [event for event in self if isinstance(event, kind)]


def message_id(number: int) -> bytes:
    """A message id as nsqd makes them: 16 hexadecimal digits."""
    return b"%016x" % number


class FakeConnection:
    """nsqd's end of one connection.

    :ivar lines: the commands after SUB that `serve` has read
    :ivar rdy: the last RDY count that `serve` has read
    :ivar in_flight: ids of the messages that were sent and not answered
    :ivar backlog: bodies that `serve` sends as RDY allows
    :ivar identity: the payload of IDENTIFY
    :ivar ended: set when the client has closed its side
    :ivar sending: held while something is sent
    """

    def __init__(self, stream: SocketStream) -> None:
        self.stream = stream
        self.lines: list[bytes] = []
        self.rdy = 0
        self.in_flight: set[bytes] = set()
        self.backlog: deque[bytes] = deque()
        self.identity: dict[str, Any] = {}
        self.subscribed = anyio.Event()
        self.ended = anyio.Event()
        self.body = b""
        self._next_id = 1
        self._received = b""
        self.sending = anyio.Lock()

    # What the client sends

    async def _exactly(self, count: int) -> bytes:
        while len(self._received) < count:
            self._received += await self.stream.receive()
        data, self._received = self._received[:count], self._received[count:]
        return data

    async def command(self) -> bytes:
        """The next command's line; its body, if it has one, is in `body`. EndOfStream when there is none."""
        with anyio.fail_after(LIMIT):
            while b"\n" not in self._received:
                self._received += await self.stream.receive()
            line, _, self._received = self._received.partition(b"\n")
            if line.split(b" ")[0] in BODY_COMMANDS:
                (size,) = struct.unpack(">I", await self._exactly(4))
                self.body = await self._exactly(size)
            return line

    async def expect(self, *lines: bytes) -> None:
        """The next commands are exactly these."""
        for line in lines:
            assert await self.command() == line

    async def quiet(self, seconds: float) -> bool:
        """Whether the client sends nothing for so long."""
        if not self._received:
            with anyio.move_on_after(seconds), suppress(anyio.EndOfStream):
                self._received += await self.stream.receive()
        return not self._received

    async def eof(self) -> None:
        """The client sends no more and has closed its side."""
        with anyio.fail_after(LIMIT):
            try:
                self._received += await self.stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                self.ended.set()
        assert self._received == b""

    # What nsqd sends

    async def send(self, data: bytes) -> None:
        async with self.sending:  # the script and the test's block may both send
            await self.stream.send(data)

    async def response(self, data: bytes = b"OK") -> None:
        await self.send(encode_frame(FRAME_RESPONSE, data))

    async def error(self, data: bytes) -> None:
        await self.send(encode_frame(FRAME_ERROR, data))

    async def heartbeat(self) -> None:
        await self.response(HEARTBEAT)

    async def message(self, body: bytes = b"body", *, id: bytes | None = None, attempts: int = 1) -> bytes:
        """Send one message, whatever RDY is; its id."""
        return (await self.messages(body, id=id, attempts=attempts))[0]

    async def messages(self, *bodies: bytes, id: bytes | None = None, attempts: int = 1) -> list[bytes]:
        """Send messages in one piece, whatever RDY is; their ids."""
        ids: list[bytes] = []
        data = b""
        for body in bodies:
            ids.append(id or message_id(self._next_id))
            self._next_id += 1
            data += encode_message_frame(1_700_000_000_000_000_000, attempts, ids[-1], body)
        self.in_flight.update(ids)
        await self.send(data)
        return ids

    async def close(self) -> None:
        """Hang up."""
        await self.stream.aclose()

    # Scripts

    async def introduction(self) -> None:
        """Read the magic and IDENTIFY."""
        with anyio.fail_after(LIMIT):
            assert await self._exactly(4) == MAGIC_V2
        await self.expect(b"IDENTIFY")
        self.identity = json.loads(self.body)

    async def identify(self, reply: bytes | Mapping[str, object] | None = None) -> None:
        """The handshake."""
        await self.introduction()
        await self.response(reply if isinstance(reply, bytes) else json.dumps(reply or {}).encode())

    async def subscribe(self, reply: bytes | Mapping[str, object] | None = None) -> None:
        """The handshake and the subscription to channel c of topic t."""
        await self.identify(reply)
        await self.expect(b"SUB t c")
        await self.response()
        self.subscribed.set()

    async def serve(self) -> None:
        """Behave like nsqd until the client closes."""
        await self.subscribe()
        await self.follow()

    async def follow(self, *, answer_cls: bool = True) -> None:
        """Behave like nsqd on a connection that is subscribed, until the client closes."""
        closing = False
        while True:
            try:
                line = await self.served_command()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                self.ended.set()
                return
            self.lines.append(line)
            match line.split(b" "):
                case [b"RDY", count]:
                    self.rdy = int(count)
                case [b"FIN", id] | [b"REQ", id, _]:
                    self.in_flight.discard(id)
                case [b"CLS"]:
                    closing = True
                    if answer_cls:
                        await self.response(b"CLOSE_WAIT")
                case _:
                    assert line == b"NOP" or line.startswith(b"TOUCH "), line
            if not closing:
                await self._push()

    async def served_command(self) -> bytes:
        """The next command's line, however long the client takes to begin it."""
        while b"\n" not in self._received:
            self._received += await self.stream.receive()
        return await self.command()

    async def offer(self, *bodies: bytes) -> None:
        """Give `serve` messages to send as RDY allows."""
        self.backlog.extend(bodies)
        await self._push()

    async def _push(self) -> None:
        # Sending yields, and a second task may push meanwhile; so the counts change before it.
        bodies: list[bytes] = []
        while self.backlog and len(self.in_flight) + len(bodies) < self.rdy:
            bodies.append(self.backlog.popleft())
        if bodies:
            await self.messages(*bodies)

    async def saw(self, *lines: bytes) -> None:
        """Wait until `serve` has read each of these commands."""
        try:
            await until(lambda: all(line in self.lines for line in lines))
        except TimeoutError:
            raise AssertionError(f"{lines} not all in {self.lines}") from None


Script = Callable[[FakeConnection], Awaitable[None]]


async def serve(connection: FakeConnection) -> None:
    """The script of a well-meaning nsqd."""
    await connection.serve()


def identified(reply: bytes | Mapping[str, object] | None = None) -> Script:
    """The script that does the handshake, and leaves the rest to the test's block."""

    async def script(connection: FakeConnection) -> None:
        await connection.identify(reply)
        await hold(connection)

    return script


async def hold(connection: FakeConnection) -> None:
    """The script that leaves the connection to the test's block."""
    del connection
    await anyio.sleep_forever()


class FakeNsqd:
    """A listener; see the module.

    :ivar connections: all that were accepted, in order
    :ivar running: how many of their scripts have not ended
    """

    def __init__(self, port: int, scripts: tuple[Script, ...]) -> None:
        self.port = port
        self.address = f"127.0.0.1:{port}"
        self.connections: list[FakeConnection] = []
        self.running = 0
        self._scripts = scripts

    @property
    def parsed(self) -> Address:
        """The address as the connection layer takes it."""
        return Address.parse(self.address)

    async def connection(self, number: int = 0) -> FakeConnection:
        """Wait until a connection is accepted, the first by default."""
        await until(lambda: len(self.connections) > number)
        return self.connections[number]

    async def subscribed(self, number: int = 0) -> FakeConnection:
        """Wait until `serve` has accepted a subscription, that of the first connection by default."""
        connection = await self.connection(number)
        with anyio.fail_after(LIMIT):
            await connection.subscribed.wait()
        return connection

    async def handle(self, stream: SocketStream) -> None:
        connection = FakeConnection(stream)
        script = self._scripts[min(len(self.connections), len(self._scripts) - 1)]
        self.connections.append(connection)
        self.running += 1
        async with stream:
            # A client that goes away, or a test that hangs up, ends the script.
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream):
                await script(connection)
        self.running -= 1


@asynccontextmanager
async def fake_nsqd(*scripts: Script) -> AsyncGenerator[FakeNsqd]:
    """Listen on a free port; the n-th connection runs the n-th script, and later ones the last."""
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        nsqd = FakeNsqd(listener.extra(SocketAttribute.local_port), scripts or (hold,))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, nsqd.handle)
            yield nsqd
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def fake_nsqds(count: int, script: Script = serve) -> AsyncGenerator[list[FakeNsqd]]:
    """Several of them."""
    if count == 0:
        yield []
        return
    async with fake_nsqd(script) as first, fake_nsqds(count - 1, script) as others:
        yield [first, *others]


@asynccontextmanager
async def consuming(
    script: Script = serve, **arguments: Any
) -> AsyncGenerator[tuple[nsq.Consumer, FakeConnection]]:
    """A consumer of channel c of topic t, and nsqd's end of its connection, which is subscribed."""
    async with fake_nsqd(script) as nsqd, nsq.consume("t", "c", nsqd=nsqd.address, **arguments) as consumer:
        with anyio.fail_after(LIMIT):
            await consumer.ready()
        yield consumer, nsqd.connections[0]
