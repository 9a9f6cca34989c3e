"""One connection to one nsqd.

::

    async with open_connection(...)     the lifetime of the stream
    ├ reader      bytes -> frames -> messages, answers, and NOPs for heartbeats; never waits for user code
    ├ writer      the outbox -> the stream
    └ heartbeat   ends the connection after silence

When one of the three ends the connection, the block is cancelled and `open_connection` raises the reason.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

import anyio

from ..errors import ConnectionLost, HeartbeatTimeout, NSQError, PermanentRefusal, ProtocolError
from ..options import ConnectionOptions
from ..protocol import commands
from ..protocol.codec import Decoder
from ..protocol.frames import OK, Frame
from ..protocol.identify import AuthReply, IdentifyReply
from ..protocol.session import Answer, ClientSession, Command, Heartbeat, Refusal, ResponseFailed, State
from ..tasks import background_tasks
from ..transport.event_loop import clock, event_class
from ..transport.layer import half_close
from ..transport.socket_stream import DirectSocketStream, end_now, last_send
from .busy_poll import BusyPoll
from .handshake import CHUNK_SIZE, Negotiated
from .interfaces import Receiver, Request, TakesAnswer
from .writer import Outbox, write

SourceT = TypeVar("SourceT")
MessageT = TypeVar("MessageT")

_REASON_TIMEOUT = 1.0  # seconds for the reader to find nsqd's reason after a send has failed


class Connection(Generic[SourceT, MessageT]):
    """A connection after its handshake. Made by `open_connection` (open.py).

    :ivar nsqd: the address, as ``host:port`` or a path
    :ivar mapped_to: the address that ``map_address`` put in its place; empty if it was not mapped
    :ivar identity: nsqd's answer to IDENTIFY
    :ivar authorization: nsqd's answer to AUTH; None if nsqd required no AUTH
    :ivar outbox: takes whole commands that nsqd does not answer
    :ivar busy_poll: polls the socket before a task waits in the event loop; None while that is not possible
    """

    def __init__(
        self,
        nsqd: str,
        options: ConnectionOptions,
        negotiated: Negotiated,
        session: ClientSession[TakesAnswer],
        decoder: Decoder[SourceT, MessageT],
        receiver: Receiver[SourceT, MessageT],
    ) -> None:
        self.nsqd: str = nsqd
        self.mapped_to: str = ""
        self.identity: IdentifyReply = negotiated.identity
        self.authorization: AuthReply | None = negotiated.authorization
        self.outbox: Outbox = Outbox(self._commands_taken)
        self.busy_poll: BusyPoll | None = None
        self._options = options
        self._stream = negotiated.stream
        if isinstance(self._stream, DirectSocketStream):
            self.outbox.send_now = self._stream.send_now
        self._received = negotiated.received
        self._receiver = receiver
        self._session = session
        self._decoder = decoder
        self._last_received = anyio.current_time()
        self._requested = 0  # the number of queued commands that nsqd answers
        self._taken = 0  # how many of them are sent or being sent, so that nsqd may execute them
        self._closing = False
        self._ended = event_class()()
        self._failure: NSQError | None = None
        self._scope = anyio.CancelScope()

    def __repr__(self) -> str:
        state = "ended" if self._ended.is_set else self._session.state.value
        return f"<Connection {self.nsqd} {state}, {self._session.waiting} outstanding>"

    @property
    def state(self) -> State:
        """The protocol state, after all commands that were queued."""
        return self._session.state

    @property
    def outstanding(self) -> int:
        """The number of commands that have no answer yet."""
        return self._session.waiting

    @property
    def ended(self) -> bool:
        """Whether the connection has ended, for whatever reason."""
        return self._ended.is_set

    def request(self, command: Command, data: bytes) -> Request:
        """Queue a command as `send` does, and return a request whose answer can be awaited."""
        request = Request()
        self.send(command, data, request)
        return request

    def send(self, command: Command, data: bytes, taker: TakesAnswer) -> None:
        """Queue a command that nsqd answers; never blocks.

        :param taker: receives the answer
        :raises ConnectionLost: if the connection has ended; nothing was sent
        :raises ProtocolError: if the command is not legal now
        """
        if self._ended.is_set:
            raise ConnectionLost(self.nsqd, "the connection has ended")
        waiting = self._session.sending(command, taker)
        self._requested += 1
        if waiting == 1:
            self.outbox.put_and_send(data)  # the writer sends commands that are queued meanwhile
        else:
            self.outbox.put(data)

    async def subscribe(self, topic: str, channel: str) -> None:
        """Send SUB and wait for its answer. nsqd pushes messages once RDY is raised.

        :raises PermanentRefusal: if nsqd refuses, which ends the connection
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
        """Send CLS. After its answer nsqd pushes no more; messages in flight can still be answered."""
        return self.request(Command.CLS, commands.CLS)

    async def close(self) -> None:
        """Send what is queued, half-close, and wait until nsqd closes, having handled every command.

        nsqd reads every command before it sees the end of the stream, so its closing confirms the last FINs
        and REQs, which have no answers. The answer to CLS confirms only the commands before CLS.

        :raises ConnectionLost: if the connection ends otherwise; nsqd may not have handled the last commands
        """
        await self.outbox.flushed()
        if not self._ended.is_set:
            self._closing = True
            self.outbox.close()  # nothing may follow the half-close, not even the answer to a heartbeat
            try:
                await half_close(self._stream)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
                raise ConnectionLost(self.nsqd, f"broke while closing: {error!r}") from error
            await self._ended.wait()
        if self._failure is not None:
            raise self._failure

    def end_now(self) -> None:
        """Send what is queued and half-close from a plain function, as far as the stream allows."""
        self.outbox.send_now = last_send(self._stream)
        self.outbox.put_and_send(commands.NOP)  # this also sends everything that is queued
        end_now(self._stream)

    # The life of the connection, driven by open_connection.

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Run reader, writer and heartbeat within a block; raise the reason if the connection ends first."""
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
            self._failed_to_handle(error)
        except anyio.EndOfStream:
            reason = "closed by this side" if self._closing else "nsqd closed the connection"
            self._end(ConnectionLost(self.nsqd, reason), failed=not self._closing)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
            lost = ConnectionLost(self.nsqd, f"the connection broke: {error.__cause__ or error!r}")
            lost.__cause__ = error
            self._end(lost)

    async def _read(self) -> None:
        stream, handle, self._clock = self._stream, self._handle, clock()
        data = self._received or await stream.receive(CHUNK_SIZE)
        if isinstance(stream, DirectSocketStream) and (seconds := self._options.busy_poll):
            self.busy_poll = BusyPoll(
                stream, seconds, CHUNK_SIZE, handle, self._failed_to_handle, lambda: self._last_received
            )
        while True:
            handle(data)
            data = await stream.receive(CHUNK_SIZE)

    def _handle(self, data: bytes) -> None:
        receiver = self._receiver
        self._last_received = now = self._clock()
        messages, frames = self._decoder.feed(data, receiver.arrival(now, len(data)))
        if messages:
            receiver.received(messages, now)
        if frames:
            self._handle_frames(frames)

    def _failed_to_handle(self, error: BaseException) -> None:
        lost = ConnectionLost(self.nsqd, str(error) or f"interrupted by {error!r}")
        lost.__cause__ = error
        self._end(lost)

    async def _write(self) -> None:
        try:
            await write(self._stream, self.outbox, sent=self._receiver.may_proceed)
        except TimeoutError:
            limit = f"write_timeout={self._options.write_timeout} s"
            self._end(ConnectionLost(self.nsqd, f"nsqd accepted no bytes within {limit}"))
        except anyio.BrokenResourceError:
            # nsqd has closed the connection. The reader finds the reason or the end, and cancels this wait.
            await anyio.sleep(_REASON_TIMEOUT)
            raise

    async def _heartbeat(self) -> None:
        interval = self._options.heartbeat_interval
        silence = await watch_silence(lambda: self._last_received, interval)
        reason = f"nothing received for {silence:.1f} s, with a heartbeat expected every {interval} s"
        self._end(HeartbeatTimeout(self.nsqd, reason))

    def _commands_taken(self) -> None:
        self._taken = self._requested

    def _handle_frames(self, frames: list[Frame]) -> None:
        heartbeat_came = False
        for frame in frames:
            if frame == OK:
                self._session.succeeded(b"OK").answer(b"OK")
                continue
            match self._session.received(frame):
                case Answer(taker, data):
                    taker.answer(data)
                case Heartbeat():
                    heartbeat_came = True
                case ResponseFailed() as failure:
                    self._receiver.response_failed(failure)
                case Refusal(request=taker, error=error):
                    lost = ConnectionLost(self.nsqd, f"nsqd refused a command: {error}")
                    lost.__cause__ = error
                    error.nsqd = self.nsqd
                    if taker is not None:
                        taker.fail(error, maybe_executed=False)
                    # nsqd executes nothing after a command that it refused, and closes the connection.
                    self._taken = 0
                    self._end(error if isinstance(error, PermanentRefusal) else lost)
                    return
        if heartbeat_came:
            self.outbox.put(commands.NOP)  # one NOP for all: a flood of heartbeats must not fill the outbox
        self._receiver.may_proceed()

    def _end(self, reason: NSQError, *, failed: bool = True) -> None:
        """End the connection and wake all waiters. If it ``failed``, cancel the block to raise ``reason``."""
        if self._ended.is_set:
            return
        self._ended.set()
        if self.busy_poll is not None:
            self.busy_poll.end()
        lost = reason if isinstance(reason, ConnectionLost) else ConnectionLost(self.nsqd, str(reason))
        takers = self._session.abandon()
        first = self._requested - len(takers)
        for place, taker in enumerate(takers, start=first):
            taker.fail(lost, maybe_executed=place < self._taken)
        self.outbox.close()
        self._receiver.may_proceed()
        if failed:
            self._failure = reason
            self._scope.cancel()


_INTERVALS = 2  # after this many heartbeat intervals without a byte, nsqd or the network to it is gone


async def watch_silence(last_received: Callable[[], float], interval: float) -> float:
    """Wait until nothing was received for more than two intervals; return the seconds of silence.

    :param last_received: returns when the last bytes arrived, on AnyIO's clock
    :param interval: nsqd's heartbeat interval in seconds
    """
    limit = _INTERVALS * interval
    while True:
        remaining = last_received() + limit - anyio.current_time()
        if remaining > 0:
            await anyio.sleep(remaining)
            continue
        # If user code blocked the event loop, received bytes may be unread. Let the reader run before a
        # healthy connection is ended.
        await anyio.sleep(interval / 10)
        silence = anyio.current_time() - last_received()
        if silence > limit:
            return silence
