"""One connection to one nsqd.

::

    async with open_connection(...)     the stream's lifetime
    ├ reader      bytes -> frames -> messages and answers
    ├ writer      the outbox -> the stream
    └ heartbeat   ends the connection after silence

When one of the three ends the connection, the block is cancelled and `open_connection` raises why.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

import anyio
from anyio.abc import ByteStream

from ..address import NsqdAddress
from ..errors import ConnectionLost, HeartbeatTimeout, NSQError, PermanentRefusal, ProtocolError
from ..options import ConnectionOptions
from ..protocol import commands
from ..protocol.authorization import AuthReply
from ..protocol.frames import Frame, FrameDecoder
from ..protocol.identify import IdentifyReply
from ..protocol.session import Answer, ClientSession, Command, Heartbeat, Refusal, ResponseFailed, State
from ..transport.dial import dial
from ..transport.half_close import half_close
from ..transport.last_words import end_now, last_send
from ..transport.socket_stream import DirectSocketStream
from .background import background_tasks
from .handshake import Handshake
from .heartbeat import watch_silence
from .reader import read
from .receiver import Receiver
from .request import Request
from .writer import Outbox, write

__all__ = ["Connection", "open_connection"]

SourceT = TypeVar("SourceT")
MessageT = TypeVar("MessageT")

_LAST_WORD_TIMEOUT = 1.0
"""Seconds for the reader to find nsqd's reason, when a send has failed first."""


class Connection(Generic[SourceT, MessageT]):
    """An identified connection. Made by `open_connection`.

    :ivar nsqd: the address, as ``host:port`` or a path
    :ivar identity: what nsqd answered to IDENTIFY
    :ivar authorization: what nsqd answered to AUTH; None where it asked for none
    :ivar outbox: takes whole commands that have no answer
    """

    def __init__(
        self,
        address: NsqdAddress,
        options: ConnectionOptions,
        stream: ByteStream,
        receiver: Receiver[SourceT, MessageT],
    ) -> None:
        self.nsqd: str = str(address)
        self.identity: IdentifyReply = IdentifyReply()
        self.authorization: AuthReply | None = None
        self.outbox: Outbox = Outbox(self._commands_taken)
        self._address = address
        self._options = options
        self._stream = stream
        self._received = b""
        self._receiver = receiver
        self._session: ClientSession[Request] = ClientSession()
        self._decoder = FrameDecoder(receiver.make_message, max_frame_size=options.max_frame_size)
        self._last_received = 0.0
        self._requested = 0  # requests made, and ...
        self._taken = 0  # ... how many of them the writer has taken, so that nsqd may execute them
        self._closing = False
        self._ended = anyio.Event()
        self._failure: NSQError | None = None
        self._scope = anyio.CancelScope()

    def __repr__(self) -> str:
        state = "ended" if self._ended.is_set() else self._session.state.value
        return f"<Connection {self.nsqd} {state}, {self._session.waiting} outstanding>"

    @property
    def state(self) -> State:
        """Where the protocol stands."""
        return self._session.state

    @property
    def outstanding(self) -> int:
        """How many requests wait for their answer."""
        return self._session.waiting

    @property
    def ended(self) -> bool:
        """Whether the connection has ended, in whatever way."""
        return self._ended.is_set()

    def request(self, command: Command, data: bytes, request: Request | None = None) -> Request:
        """Queue a command that nsqd answers; never blocks.

        :param request: what takes the answer; default: a new one
        :raises ConnectionLost: if the connection has ended; nothing was sent
        :raises ProtocolError: if the command is not legal now
        """
        if self._ended.is_set():
            raise ConnectionLost(self.nsqd, "the connection has ended")
        if request is None:
            request = Request()
        self._session.sending(command, request)
        self._requested += 1
        if self._session.waiting == 1:
            self.outbox.put_last(data)  # it waits for a round trip; others join it in the writer's turn
        else:
            self.outbox.put(data)
        return request

    async def subscribe(self, topic: str, channel: str) -> None:
        """Subscribe; messages come once RDY is raised.

        :raises PermanentRefusal: if nsqd refuses; the connection has ended then
        :raises ConnectionLost: if nsqd does not answer within ``handshake_timeout``
        """
        request = self.request(Command.SUB, commands.sub(topic, channel))
        try:
            with anyio.fail_after(self._options.handshake_timeout):
                await request.wait()
        except TimeoutError:
            reason = f"no answer to SUB within handshake_timeout={self._options.handshake_timeout} s"
            raise ConnectionLost(self.nsqd, reason) from None

    def stop_messages(self) -> Request:
        """Send CLS: once nsqd answers it pushes no more messages; those in flight can still be answered."""
        return self.request(Command.CLS, commands.CLS)

    async def close(self) -> None:
        """Send what is queued, half-close, and wait until nsqd closes: it has handled all commands then.

        :raises ConnectionLost: if the connection ended in another way; what was sent last may be unhandled
        """
        await self.outbox.flushed()
        if not self._ended.is_set():
            self._closing = True
            self.outbox.close()  # nothing may follow the end, not even the answer to a heartbeat
            try:
                await half_close(self._stream)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
                raise ConnectionLost(self.nsqd, f"broke while closing: {error!r}") from error
            await self._ended.wait()
        if self._failure is not None:
            raise self._failure

    def end_now(self) -> None:
        """Send what is queued and half-close, from a plain function, as far as the stream can."""
        self.outbox.send_now = last_send(self._stream)
        self.outbox.put_last(commands.NOP)  # all that is queued goes with it
        end_now(self._stream)

    # The life of the connection, driven by open_connection.

    async def shake_hands(self, *, accepted_before: bool) -> None:
        """Do the handshake on the fresh stream."""
        source = self._receiver.arrival(anyio.current_time())
        handshake = Handshake(
            self._address, self._stream, self._session, self._decoder, source, self._options
        )
        negotiated = await handshake.run(accepted_before=accepted_before)
        self._stream = negotiated.stream
        if isinstance(self._stream, DirectSocketStream):
            self.outbox.send_now = self._stream.send_now
        self._received = negotiated.received
        self.identity = negotiated.identity
        self.authorization = negotiated.authorization
        self._last_received = anyio.current_time()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Run reader, writer and heartbeat around a block; raise what ended them, if it was not the block."""
        try:
            async with background_tasks() as tasks:
                self._scope = tasks.cancel_scope
                tasks.start_soon(self._watch, self._read)
                tasks.start_soon(self._watch, self._write)
                if self._options.heartbeat_interval > 0:
                    tasks.start_soon(self._watch, self._heartbeat)
                yield
        except Exception:
            if self._failure is None:
                raise
        finally:
            self._end(ConnectionLost(self.nsqd, "closed by this side"), failed=False)
        if self._failure is not None:
            raise self._failure

    async def _watch(self, task: Callable[[], Awaitable[None]]) -> None:
        try:
            await task()
        except ProtocolError as error:
            lost = ConnectionLost(self.nsqd, str(error))
            lost.__cause__ = error
            self._end(lost)
        except anyio.EndOfStream:
            reason = "closed by this side" if self._closing else "nsqd closed the connection"
            self._end(ConnectionLost(self.nsqd, reason), failed=not self._closing)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
            lost = ConnectionLost(self.nsqd, f"the connection broke: {error.__cause__ or error!r}")
            lost.__cause__ = error
            self._end(lost)

    async def _read(self) -> None:
        await read(
            self._stream,
            self._decoder,
            self._receiver,
            received=self._received,
            arrived=self._arrived,
            handle_frames=self._handle_frames,
        )

    async def _write(self) -> None:
        try:
            await write(self._stream, self.outbox, sent=self._receiver.progressed)
        except TimeoutError:
            limit = f"write_timeout={self._options.write_timeout} s"
            self._end(ConnectionLost(self.nsqd, f"nsqd took no bytes within {limit}"))
        except anyio.BrokenResourceError:
            # nsqd has hung up, perhaps after an error frame that says why. The reader, which finds that
            # frame or the end of the stream, cancels this wait.
            await anyio.sleep(_LAST_WORD_TIMEOUT)
            raise

    async def _heartbeat(self) -> None:
        interval = self._options.heartbeat_interval
        silence = await watch_silence(lambda: self._last_received, interval)
        reason = f"nothing received for {silence:.1f} s, with a heartbeat expected every {interval} s"
        self._end(HeartbeatTimeout(self.nsqd, reason))

    def _arrived(self, now: float) -> None:
        self._last_received = now

    def _commands_taken(self) -> None:
        self._taken = self._requested

    def _handle_frames(self, frames: list[Frame]) -> None:
        heartbeat_came = False
        for frame in frames:
            match self._session.received(frame):
                case Answer(request, data):
                    request.answer(data)
                case Heartbeat():
                    heartbeat_came = True
                case ResponseFailed() as failure:
                    self._receiver.response_failed(failure)
                case Refusal(request=request, error=error):
                    lost = ConnectionLost(self.nsqd, f"nsqd refused a command: {error}")
                    lost.__cause__ = error
                    error.nsqd = self.nsqd
                    if request is not None:
                        request.refuse(error)
                    # nsqd executes nothing after a command it refused, and closes the connection.
                    self._taken = 0
                    self._end(error if isinstance(error, PermanentRefusal) else lost)
                    return
        if heartbeat_came:
            self.outbox.put(commands.NOP)  # one for all: a flood of them must not fill the outbox
        self._receiver.progressed()

    def _end(self, reason: NSQError, *, failed: bool = True) -> None:
        """Wake every waiter, once; with ``failed``, also cancel the block and remember the reason."""
        if self._ended.is_set():
            return
        self._ended.set()
        lost = reason if isinstance(reason, ConnectionLost) else ConnectionLost(self.nsqd, str(reason))
        requests = self._session.abandon()
        first = self._requested - len(requests)
        for place, request in enumerate(requests, start=first):
            request.lose(lost, maybe_executed=place < self._taken)
        self.outbox.close()
        self._receiver.progressed()
        if failed:
            self._failure = reason
            self._scope.cancel()


@asynccontextmanager
async def open_connection(
    address: NsqdAddress,
    options: ConnectionOptions,
    receiver: Receiver[SourceT, MessageT],
    *,
    accepted_before: bool = False,
) -> AsyncGenerator[Connection[SourceT, MessageT]]:
    """Dial, shake hands, and keep the connection for the length of the block.

    The block is cancelled when the connection ends by itself, and the reason is raised. Leaving the block
    closes the stream at once; `Connection.close` before that makes sure that nsqd has handled everything.

    :param accepted_before: whether an nsqd has accepted these options before; see `Handshake`
    :raises DialFailed: if the transport cannot be opened
    :raises TLSFailed: if TLS is declined, or the two sides do not trust each other
    :raises HandshakeFailed: if the peer does not complete the handshake
    :raises PermanentRefusal: if nsqd refuses this client's options, or its subscription, for good
    :raises ConnectionLost: if the connection ends before the block does
    """
    stream = await dial(
        address, timeout=options.dial_timeout, write_timeout=options.write_timeout, dialer=options.dialer
    )
    try:
        connection = Connection(address, options, stream, receiver)
        await connection.shake_hands(accepted_before=accepted_before)
        async with connection.running():
            yield connection
    finally:
        await anyio.aclose_forcefully(stream)
