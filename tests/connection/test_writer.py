"""The outbox and the task that empties it: whole commands, joined, in order."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest

from nsq_anyio.connection.writer import Outbox, write

from ..fake_nsqd import until
from .pipe import Pipe

pytestmark = pytest.mark.anyio


class Writing:
    """A running writer task and what it called."""

    def __init__(self) -> None:
        self.pipe = Pipe()
        self.calls: list[str] = []
        self.outbox = Outbox(lambda: self.calls.append("taken"))

    async def run(self) -> None:
        await write(
            self.pipe,
            self.outbox,
            sent=lambda: self.calls.append("sent"),
        )


@asynccontextmanager
async def writing() -> AsyncGenerator[Writing]:
    writing = Writing()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(writing.run)
        yield writing
        tasks.cancel_scope.cancel()


async def test_what_is_queued_is_sent_as_one_piece() -> None:
    async with writing() as w:
        for command in (b"FIN 1\n", b"FIN 2\n", b"RDY 3\n"):
            w.outbox.put(command)
        await w.outbox.flushed()
        assert w.pipe.sends == [b"FIN 1\nFIN 2\nRDY 3\n"]
        assert w.calls == ["taken", "sent"]


async def test_what_is_queued_during_a_send_is_the_next_piece() -> None:
    async with writing() as w:
        w.pipe.gate = anyio.Event()
        w.outbox.put(b"a")
        await until(lambda: w.calls == ["taken"])
        w.outbox.put(b"b")
        w.outbox.put(b"c")
        w.pipe.gate.set()
        await w.outbox.flushed()
        assert w.pipe.sends == [b"a", b"bc"]
        assert w.calls == ["taken", "sent", "taken", "sent"]


async def test_it_waits_without_sending_while_nothing_is_queued() -> None:
    async with writing() as w:
        await anyio.wait_all_tasks_blocked()
        assert w.calls == []
        w.outbox.put(b"a")
        await w.outbox.flushed()
        await anyio.wait_all_tasks_blocked()
        assert w.pipe.sends == [b"a"]


async def test_flushed_returns_at_once_when_nothing_is_queued() -> None:
    await Outbox(lambda: None).flushed()


async def test_flushed_waits_for_the_bytes_that_are_being_sent() -> None:
    async with writing() as w:
        w.pipe.gate = anyio.Event()
        w.outbox.put(b"a")
        with anyio.move_on_after(0.02) as scope:
            await w.outbox.flushed()
        assert scope.cancelled_caught
        w.pipe.gate.set()
        await w.outbox.flushed()
        assert w.pipe.sends == [b"a"]


async def test_several_may_wait_for_the_flush() -> None:
    async with writing() as w:
        w.pipe.gate = anyio.Event()
        w.outbox.put(b"a")
        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(w.outbox.flushed)
                await anyio.wait_all_tasks_blocked()
                w.pipe.gate.set()


async def test_a_closed_outbox_drops_what_is_queued_and_what_comes() -> None:
    async with writing() as w:
        await anyio.wait_all_tasks_blocked()
        w.outbox.put(b"a")
        w.outbox.close()
        w.outbox.put(b"b")
        await w.outbox.flushed()
        await anyio.wait_all_tasks_blocked()
        assert w.pipe.sends == []
