"""What is sent at once, instead of in the writer's turn: in order with the rest, never twice, never cut."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest
from anyio.abc import ByteStream
from hypothesis import given
from hypothesis import strategies as st

from nsq_anyio.connection.writer import Outbox, write

from .pipe import Pipe

pytestmark = pytest.mark.anyio


class Sink(Pipe):
    """A pipe that takes so many bytes at once, and all of the rest in a send."""

    def __init__(self, takes: list[int]) -> None:
        super().__init__()
        self.takes = takes
        self.wire = b""
        self.failure: Exception | None = None
        self.interrupt: BaseException | None = None

    def send_now(self, data: bytes, sent: list[int]) -> None:
        if self.failure is not None:
            raise self.failure
        count = min(self.takes.pop(0) if self.takes else len(data), len(data))
        self.wire += data[:count]
        if count:
            sent.append(count)
        if self.interrupt is not None:
            interrupt, self.interrupt = self.interrupt, None
            raise interrupt

    async def send(self, item: bytes) -> None:
        await super().send(item)
        self.wire += item


def nothing() -> None:
    pass


async def run(stream: ByteStream, outbox: Outbox, sent: Callable[[], None] = nothing) -> None:
    await write(stream, outbox, sent=sent)


def outbox_to(sink: Sink, taken: Callable[[], None] = nothing) -> Outbox:
    outbox = Outbox(taken)
    outbox.send_now = sink.send_now
    return outbox


async def test_all_that_is_queued_is_sent_as_one() -> None:
    taken: list[str] = []
    sink = Sink([])
    outbox = outbox_to(sink, lambda: taken.append("taken"))
    outbox.put(b"FIN 1\n")
    outbox.put_and_send(b"FIN 2\n")
    assert sink.wire == b"FIN 1\nFIN 2\n"
    assert taken == ["taken"]
    await outbox.flushed()


async def test_the_writer_is_not_woken_when_nothing_is_left_to_send() -> None:
    woken: list[bytes] = []
    sink = Sink([])
    outbox = outbox_to(sink)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, sink, outbox, lambda: woken.append(sink.wire))
        await anyio.wait_all_tasks_blocked()
        outbox.put_and_send(b"FIN 1\n")
        await anyio.wait_all_tasks_blocked()
        assert (sink.wire, woken) == (b"FIN 1\n", [])
        outbox.put(b"FIN 2\n")
        await anyio.wait_all_tasks_blocked()
        assert woken == [b"FIN 1\nFIN 2\n"]
        tasks.cancel_scope.cancel()


async def test_whoever_waits_for_the_flush_is_woken() -> None:
    sink = Sink([])
    outbox = outbox_to(sink)
    outbox.put(b"FIN 1\n")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(outbox.flushed)
        await anyio.wait_all_tasks_blocked()
        outbox.put_and_send(b"FIN 2\n")


async def test_the_writer_sends_what_was_left() -> None:
    told: list[bytes] = []
    sink = Sink([3])
    outbox = outbox_to(sink)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, sink, outbox, lambda: told.append(sink.wire))
        await anyio.wait_all_tasks_blocked()
        outbox.put_and_send(b"FIN 1\n")
        assert sink.wire == b"FIN"
        outbox.put(b"FIN 2\n")
        with anyio.fail_after(5):
            await outbox.flushed()
        assert sink.wire == b"FIN 1\nFIN 2\n"
        await anyio.wait_all_tasks_blocked()
        assert told[-1] == b"FIN 1\nFIN 2\n"
        tasks.cancel_scope.cancel()


async def test_nothing_is_sent_at_once_in_the_middle_of_a_send() -> None:
    sink = Sink([2])
    sink.gate = anyio.Event()
    outbox = outbox_to(sink)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, sink, outbox)
        await anyio.wait_all_tasks_blocked()
        outbox.put(b"first\n")
        await anyio.wait_all_tasks_blocked()
        assert sink.wire == b"fi"
        outbox.put_and_send(b"second\n")
        assert sink.wire == b"fi"
        sink.gate.set()
        await anyio.wait_all_tasks_blocked()
        assert sink.wire == b"first\nsecond\n"
        tasks.cancel_scope.cancel()


async def test_a_broken_stream_is_left_to_the_writer() -> None:
    sink = Sink([])
    outbox = outbox_to(sink)
    sink.failure = anyio.BrokenResourceError()
    outbox.put_and_send(b"FIN 1\n")
    with anyio.fail_after(5), pytest.raises(anyio.BrokenResourceError):
        await run(sink, outbox)


@pytest.mark.parametrize("takes", [0, 3, 6])
@pytest.mark.parametrize("by_writer", [True, False])
async def test_an_interrupt_amid_a_send_neither_loses_nor_repeats_a_byte(takes: int, by_writer: bool) -> None:
    sink = Sink([takes])
    outbox = outbox_to(sink)
    sink.interrupt = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        if by_writer:
            outbox.put(b"FIN 1\n")
            await write(sink, outbox, sent=nothing)
        else:
            outbox.put_and_send(b"FIN 1\n")
    assert sink.wire == b"FIN 1\n"[:takes]
    outbox.put_and_send(b"FIN 2\n")
    assert sink.wire == b"FIN 1\nFIN 2\n"
    await outbox.flushed()


async def test_after_an_interrupt_amid_a_send_the_writer_is_woken_for_the_rest() -> None:
    sink = Sink([3])
    outbox = outbox_to(sink)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, sink, outbox)
        await anyio.wait_all_tasks_blocked()
        sink.interrupt = KeyboardInterrupt()
        with pytest.raises(KeyboardInterrupt):
            outbox.put_and_send(b"FIN 1\n")
        with anyio.fail_after(5):
            await outbox.flushed()
        assert sink.wire == b"FIN 1\n"
        tasks.cancel_scope.cancel()


async def test_after_an_interrupt_that_lost_commands_the_writer_breaks_instead_of_spinning() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    sink = Sink([])
    outbox = outbox_to(sink, interrupted)
    with pytest.raises(KeyboardInterrupt):
        outbox.put_and_send(b"FIN 1\n")
    with anyio.fail_after(5), pytest.raises(anyio.BrokenResourceError):
        await write(sink, outbox, sent=nothing)


async def test_nothing_is_sent_after_the_close_or_without_a_socket() -> None:
    sink = Sink([])
    outbox = outbox_to(sink)
    outbox.close()
    outbox.put_and_send(b"FIN 1\n")
    plain = Outbox(nothing)
    plain.put_and_send(b"FIN 1\n")
    assert sink.wire == b""


@given(
    steps=st.lists(st.sampled_from(["put", "put_and_send", "turn"]), max_size=40),
    takes=st.lists(st.integers(0, 12), max_size=30),
)
def test_whoever_sends_the_bytes_keep_their_order(steps: list[str], takes: list[int]) -> None:
    async def play() -> None:
        sink = Sink(list(takes))
        outbox = outbox_to(sink)
        queued = b""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, sink, outbox)
            for number, step in enumerate(steps):
                command = b"FIN %d\n" % number
                if step == "turn":
                    await anyio.lowlevel.checkpoint()
                    continue
                queued += command
                if step == "put":
                    outbox.put(command)
                else:
                    outbox.put_and_send(command)
                assert queued.startswith(sink.wire)
            with anyio.fail_after(5):
                await outbox.flushed()
            assert sink.wire == queued
            tasks.cancel_scope.cancel()

    for backend in ("asyncio", "trio"):
        anyio.run(play, backend=backend)
