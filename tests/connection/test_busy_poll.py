"""Busy polling: what comes is handled at once, nothing is lost, and other tasks have their turns."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest

import nsq_anyio as nsq
from nsq_anyio.connection import busy_poll, connection
from nsq_anyio.connection.busy_poll import BusyPoll
from nsq_anyio.errors import ProtocolError
from nsq_anyio.transport import socket_stream
from nsq_anyio.transport.event_loop import waits_for_sockets
from nsq_anyio.transport.socket_stream import DirectSocketStream

from ..fake_nsqd import until

pytestmark = pytest.mark.anyio


class Time:
    """A clock that only a test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.turn = 3e-6
        self.in_turn: Callable[[], None] = lambda: None
        monkeypatch.setattr(busy_poll, "perf_counter", lambda: self.now)
        monkeypatch.setattr(busy_poll, "checkpoint", self._checkpoint)
        monkeypatch.setattr(busy_poll, "turns", busy_poll.Turns())
        self.turns = 0

    async def _checkpoint(self) -> None:
        await anyio.lowlevel.checkpoint()
        self.turns += 1
        self.in_turn()
        self.now += self.turn


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    return Time(monkeypatch)


class Wire:
    """A stream: what comes within a poll of a given length.

    :param yielded: for how many seconds others had the core
    """

    def __init__(self, yielded: float = 0.0) -> None:
        self.at_once: list[bytes] = []
        self.soon: list[bytes] = []
        self.polls: list[float] = []
        self.yielded = yielded

    def receive_soon(self, max_bytes: int, seconds: float, received: list[bytes]) -> float:
        assert max_bytes == 100
        self.polls.append(seconds)
        found = self.soon if seconds else self.at_once
        if found:
            received.append(found.pop(0))
        return self.yielded


class Handled:
    def __init__(self, wire: Wire) -> None:
        self.chunks: list[bytes] = []
        self.errors: list[BaseException] = []
        self.raises: BaseException | None = None
        self.last = 0.0
        stream = cast("DirectSocketStream", wire)
        self.poll = BusyPoll(stream, 0.5, 100, self.handle, self.errors.append, lambda: self.last)

    def handle(self, data: bytes) -> None:
        self.chunks.append(data)
        if self.raises is not None:
            raise self.raises


async def test_what_comes_is_handled(time: Time) -> None:
    wire = Wire()
    handled = Handled(wire)
    wire.soon = [b"soon"]
    await handled.poll.poll()
    assert (handled.chunks, wire.polls, time.turns) == ([b"soon"], [0, 0.5], 1)
    wire.at_once = [b"at once"]
    await handled.poll.poll()
    assert (handled.chunks[1:], wire.polls[2:]) == ([b"at once"], [0])


async def test_other_tasks_have_a_turn_before_each_poll_and_after_each_stretch(time: Time) -> None:
    wire = Wire()
    handled = Handled(wire)
    wire.soon = [b"x"] * 5
    for _ in range(5):
        await handled.poll.poll()
    assert time.turns == 5
    wire.at_once = [b"x"] * 10
    for _ in range(10):
        time.now += 10e-6
        await handled.poll.poll()
    assert time.turns in {6, 7}


async def test_who_gets_nothing_polls_less_and_less(time: Time) -> None:
    del time
    wire = Wire()
    handled = Handled(wire)
    polled: list[int] = []
    for number in range(100):
        before = len(wire.polls)
        await handled.poll.poll()
        if len(wire.polls) > before:
            polled.append(number)
    assert polled == [0, 2, 5, 10, 19, 36, 69]
    wire.soon = [b"x"] * 1000
    while not handled.chunks:
        await handled.poll.poll()
    for _ in range(10):
        await handled.poll.poll()
    assert len(handled.chunks) == 11, "one answer that comes soon ends it"


async def test_nobody_polls_while_the_other_tasks_are_busy(time: Time) -> None:
    wire = Wire()
    wire.soon = [b"x"] * 10_000
    handled, other = Handled(wire), Handled(wire)
    for _ in range(100):
        await handled.poll.poll()
    assert len(handled.chunks) == 100
    time.turn = 200e-6
    for _ in range(2_000):
        await handled.poll.poll()
        await other.poll.poll()
    assert len(handled.chunks) + len(other.chunks) < 250, "all polls of the loop count together"
    time.turn = 3e-6
    before = len(other.chunks)
    for _ in range(4_000):
        await other.poll.poll()
    assert len(other.chunks) - before > 2_000, "they are asked again when the others rest"


async def test_no_poll_keeps_nsqd_from_running_on_the_same_core(time: Time) -> None:
    del time
    wire = Wire(yielded=20e-6)
    wire.at_once = [b"x"]
    handled = Handled(wire)
    await handled.poll.poll()
    await handled.poll.poll()  # this one gets nothing
    assert wire.polls == [0, 0]


async def test_what_the_reader_receives_in_the_turn_of_others_is_not_waited_for(time: Time) -> None:
    wire = Wire()
    handled = Handled(wire)

    def read() -> None:
        handled.last = time.now

    time.in_turn = read
    await handled.poll.poll()
    assert wire.polls == [0]


async def test_nothing_is_received_after_the_end(time: Time) -> None:
    del time
    wire = Wire()
    handled = Handled(wire)
    wire.soon = wire.at_once = [b"x"]
    handled.poll.end()
    await handled.poll.poll()
    assert not handled.chunks


async def test_a_violation_of_the_protocol_is_reported_and_not_raised(time: Time) -> None:
    del time
    wire = Wire()
    handled = Handled(wire)
    wire.soon = [b"x"]
    handled.raises = ProtocolError("bad")
    await handled.poll.poll()
    assert handled.errors == [handled.raises]


async def test_an_interrupt_while_bytes_are_handled_is_reported_and_raised(time: Time) -> None:
    del time
    wire = Wire()
    handled = Handled(wire)
    wire.soon = [b"x"]
    handled.raises = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        await handled.poll.poll()
    assert handled.errors == [handled.raises]


# With a socket, and an nsqd that answers from a thread, as another process does.


class ThreadNsqd:
    """Answers each command at once: a socket that blocks is faster than any event loop."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "{}:{}".format(*self.listener.getsockname())
        self.finished = 0
        self._closing = False
        self._next = 0

    def serve(self) -> None:
        while not self._closing:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            with peer, peer.makefile("rb") as lines:
                try:
                    self._serve(peer, lines)
                except OSError:
                    continue

    def _serve(self, peer: socket.socket, lines: Any) -> None:
        lines.read(4)
        ready = False
        while line := lines.readline():
            match line.split():
                case [b"IDENTIFY"] | [b"PUB", _]:
                    lines.read(int.from_bytes(lines.read(4), "big"))
                    peer.sendall(frame(0, b"OK"))
                case [b"SUB", *_] | [b"CLS"]:
                    peer.sendall(frame(0, b"OK" if line.startswith(b"SUB") else b"CLOSE_WAIT"))
                    ready = False
                case [b"RDY", count]:
                    if not ready and count != b"0":
                        ready = True
                        self._push(peer)
                case [b"FIN", _]:
                    self.finished += 1
                    if ready:
                        self._push(peer)
                case _:
                    pass

    def _push(self, peer: socket.socket) -> None:
        self._next += 1
        peer.sendall(frame(2, bytes(8) + b"\0\1" + b"%016x" % self._next + b"%d" % self._next))

    def close(self) -> None:
        self._closing = True
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def frame(kind: int, data: bytes) -> bytes:
    return (len(data) + 4).to_bytes(4, "big") + kind.to_bytes(4, "big") + data


@pytest.fixture
def nsqd() -> Generator[ThreadNsqd]:
    found = ThreadNsqd()
    thread = threading.Thread(target=found.serve)
    thread.start()
    yield found
    found.close()
    thread.join()


@contextmanager
def counting(monkeypatch: pytest.MonkeyPatch) -> Generator[Callable[[], int]]:
    """Count the chunks that polls have received."""
    count = 0
    plain = DirectSocketStream.receive_soon

    def counted(self: DirectSocketStream, max_bytes: int, seconds: float, received: list[bytes]) -> float:
        nonlocal count
        yielded = plain(self, max_bytes, seconds, received)
        count += len(received)
        return yielded

    with monkeypatch.context() as patch:
        patch.setattr(DirectSocketStream, "receive_soon", counted)
        yield lambda: count


class NeverBusy(busy_poll.Turns):
    """Whatever other tasks have to do, as on a loaded machine, polls go on."""

    def __setattr__(self, name: str, value: object) -> None:
        if name != "skip":
            super().__setattr__(name, value)


@pytest.fixture
def never_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(busy_poll, "turns", NeverBusy())


PATIENT = nsq.ConnectionOptions(busy_poll=0.001, heartbeat_interval=-1)


@pytest.mark.usefixtures("never_busy")
async def test_round_trips_are_polled_for_and_complete(
    nsqd: ThreadNsqd, monkeypatch: pytest.MonkeyPatch
) -> None:
    with counting(monkeypatch) as polled:
        async with nsq.consume("t", "c", nsqd=nsqd.address, max_in_flight=1, connection=PATIENT) as consumer:
            bodies: list[int] = []
            async for message in consumer:
                bodies.append(int(message.body))
                message.finish()
                if len(bodies) == 2_000:
                    break
        assert bodies == list(range(1, 2_001))
        consumed = polled()
        async with nsq.produce(nsqd=nsqd.address, connection=PATIENT) as producer:
            for _ in range(2_000):
                await producer.publish("t", b"x")
            assert producer.statistics().published == 2_000
        if waits_for_sockets():
            assert 0 < consumed < polled()
        else:
            assert not polled()


async def test_zero_never_polls(nsqd: ThreadNsqd, monkeypatch: pytest.MonkeyPatch) -> None:
    off = nsq.ConnectionOptions(busy_poll=0, heartbeat_interval=-1)
    with counting(monkeypatch) as polled:
        async with nsq.produce(nsqd=nsqd.address, connection=off) as producer:
            for _ in range(100):
                await producer.publish("t", b"x")
        assert not polled()


async def test_a_loop_of_round_trips_is_cancelled_at_once(nsqd: ThreadNsqd) -> None:
    async def work() -> None:
        async with nsq.produce(nsqd=nsqd.address, connection=PATIENT) as producer:
            while True:
                await producer.publish("t", b"x")

    with anyio.move_on_after(0.2) as scope:
        await work()
    assert scope.cancelled_caught
    assert anyio.current_time() - scope.deadline < 2


FILES = {busy_poll.__file__, socket_stream.__file__, connection.__file__}


class Strike(Exception):
    """Raised by a signal handler."""


async def struck(nsqd: ThreadNsqd, place: int) -> bool:
    """Raise at one of the places where Python runs signal handlers, while messages are polled for."""
    events: list[nsq.events.Event] = []
    seen: list[int] = []
    left = place
    hit = False

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal left, hit
        del arg
        name = frame.f_code.co_name
        polls = frame.f_code.co_filename in FILES and name in {"_receive", "receive_soon", "_handle"}
        if not polls or hit or event not in {"call", "line"}:
            return None
        if name != "_handle" or (frame.f_back is not None and frame.f_back.f_code.co_name == "_receive"):
            left -= 1
            if left < 0:
                hit = True
                raise Strike
        return trace

    async with nsq.consume(
        "t", "c", nsqd=nsqd.address, max_in_flight=1, connection=PATIENT, on_event=events.append
    ) as consumer:
        (await anext(consumer)).finish()
        before = sys.gettrace()
        while len(seen) < 20 or (not hit and len(seen) < 200):
            sys.settrace(trace)
            try:
                message = await anext(consumer)
            except Strike:
                continue
            finally:
                sys.settrace(before)
            seen.append(int(message.body))
            message.finish()
    # nsqd numbers what it pushes: one that is missing would have been delivered again.
    lost = any(isinstance(event, nsq.events.Disconnected) for event in events)
    assert lost or seen == list(range(seen[0], seen[0] + len(seen))), (place, seen)
    assert seen == sorted(set(seen)), (place, seen)
    return hit


@pytest.mark.usefixtures("never_busy")
async def test_an_interrupt_anywhere_in_a_poll_loses_nothing_in_silence(nsqd: ThreadNsqd) -> None:
    if not waits_for_sockets():
        pytest.skip("nothing polls on AnyIO's own streams")
    hits = [place for place in range(30) if await struck(nsqd, place)]
    assert len(hits) > 2, "it struck in the polls"


async def test_many_workers_share_what_a_poll_brings(nsqd: ThreadNsqd) -> None:
    handled = 0

    async def handler(message: nsq.Message) -> None:
        nonlocal handled
        del message
        handled += 1
        if handled % 3 == 0:
            await anyio.lowlevel.checkpoint()

    async with nsq.consume("t", "c", nsqd=nsqd.address, max_in_flight=1, connection=PATIENT) as consumer:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: consumer.run(handler, concurrency=5))
            await until(lambda: handled > 500)
            consumer.stop()
