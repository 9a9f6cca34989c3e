"""What ``nsq-anyio pub`` does."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from itertools import chain
from typing import Any, cast

import anyio
import click
from anyio.streams.memory import MemoryObjectReceiveStream
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeElapsedColumn, TransferSpeedColumn

from ...errors import NSQError
from ...producer import produce
from ...producer.in_parts import InParts, MpubLimit, batches
from ...unwrapping import first_error
from ..ending import PARTIAL
from ..flags.connection import ProducerFlags
from ..output import progress_display
from ..reach import check_nsqds_reachable
from .reader import Input, MessageReader

__all__ = ["Pace", "Pub", "Published", "shown_progress"]

_MAX_BATCH_BYTES = 1024 * 1024
_CHUNKS_AHEAD = 16

_BATCHES_PER_SECOND = 20
_MAX_READ = 64 * 1024  # what a pipe of Linux holds
_MIN_READ = 512
_BYTES_A_MESSAGE = 100
_READS_PER_SECOND = 10

Published = Callable[[int, int], None]
"""Called with the number of messages that were published, and their bytes."""


class _PartlyPublished(click.ClickException):
    exit_code = PARTIAL


class Pub:
    """Publishes messages from inputs, in their order.

    :param mode: one of the producer's; None to publish each message to every nsqd
    :param rate: messages a second; 0 for no bound
    """

    def __init__(
        self,
        topic: str,
        nsqds: Sequence[str],
        flags: ProducerFlags,
        *,
        mode: str | None,
        delimiter: bytes,
        rate: int,
        published: Published,
    ) -> None:
        self._topic = topic
        self._nsqds = nsqds
        self._flags = flags
        self._mode = mode
        self._delimiter = delimiter
        self._pace = Pace(rate)
        self._published = published
        self._messages = 0

    async def run(self, inputs: Sequence[Input], stop: anyio.Event) -> None:
        """Publish all; after ``stop`` only what was read before, without regard to the rate.

        :raises click.ClickException: if something cannot be read or published
        """
        await check_nsqds_reachable(self._nsqds, self._flags.connection, all_of_them=self._mode is None)
        # With a rate next to nothing: whatever was read is published at once at a signal.
        ahead = _CHUNKS_AHEAD if self._pace.max_batch is None else 0
        send, receive = anyio.create_memory_object_stream[list[bytes]](ahead)
        reader = MessageReader(
            inputs,
            self._delimiter,
            max_size=self._flags.options.max_msg_size,
            read_size=self._pace.read_size,
        )
        async with self._senders() as senders, receive, anyio.create_task_group() as tasks:
            tasks.start_soon(reader.run, send, stop)
            async for messages in receive:
                await self._publish(senders, _with_more(messages, receive), stop)
        if reader.problem is not None:
            raise self._failed(reader.problem)
        if reader.interrupted:
            click.echo(f"ended before the end of the input: {_counted(self._messages)} published", err=True)

    @asynccontextmanager
    async def _senders(self) -> AsyncGenerator[list[InParts]]:
        """One for all nsqds, or one for each where each gets every message."""
        options, connection = self._flags.options, self._flags.connection
        async with AsyncExitStack() as stack:
            if self._mode is None:
                groups = [[nsqd] for nsqd in self._nsqds]
            else:
                options = replace(options, mode=cast("Any", self._mode.replace("-", "_")))
                groups = [list(self._nsqds)]
            producers = [
                await stack.enter_async_context(produce(group, options=options, connection=connection))
                for group in groups
            ]
            max_bytes = min(_MAX_BATCH_BYTES, options.max_body_size)
            yield [InParts(producer, MpubLimit(max_bytes)) for producer in producers]

    async def _publish(
        self, senders: Sequence[InParts], messages: Sequence[bytes], stop: anyio.Event
    ) -> None:
        for batch in batches(messages, _MAX_BATCH_BYTES, self._pace.max_batch):
            await self._pace.wait(len(batch), stop)
            try:
                async with anyio.create_task_group() as tasks:
                    for sender in senders[1:]:
                        tasks.start_soon(sender.publish, self._topic, batch)
                    await senders[0].publish(self._topic, batch)
            except* NSQError as errors:
                raise self._not_published(first_error(errors), senders) from errors
            self._messages += len(batch)
            self._published(len(batch), sum(map(len, batch)))

    def _not_published(self, error: BaseException, senders: Sequence[InParts]) -> click.ClickException:
        done = min(sender.done for sender in senders)
        self._messages += done
        return self._failed(str(error), max(sender.done + sender.maybe for sender in senders) - done)

    def _failed(self, reason: str, maybe: int = 0) -> click.ClickException:
        """What to say and to exit with; ``maybe`` so many messages more may have been published."""
        more = f", and {maybe} more may have been" if maybe else ""
        kind = _PartlyPublished if self._messages or maybe else click.ClickException
        return kind(f"{reason}; {_counted(self._messages)} published before{more}")


def _counted(messages: int) -> str:
    return "1 message was" if messages == 1 else f"{messages} messages were"


def _with_more(messages: list[bytes], receive: MemoryObjectReceiveStream[list[bytes]]) -> list[bytes]:
    """What was read meanwhile travels along."""
    found = [messages]
    with suppress(anyio.WouldBlock, anyio.EndOfStream):
        while True:
            found.append(receive.receive_nowait())
    return list(chain.from_iterable(found))


class Pace:
    """Spreads messages evenly; what was not used is not made up for later.

    :param rate: messages a second; 0 for no bound
    """

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._free_at = 0.0

    @property
    def max_batch(self) -> int | None:
        """How many may go together, so that they do not come in bursts; None for no bound."""
        return max(self._rate // _BATCHES_PER_SECOND, 1) if self._rate else None

    @property
    def read_size(self) -> int:
        """How many bytes to read at a time: far ahead only where that makes no burst at the end."""
        if not self._rate:
            return _MAX_READ
        return min(max(self._rate * _BYTES_A_MESSAGE // _READS_PER_SECOND, _MIN_READ), _MAX_READ)

    async def wait(self, messages: int, stop: anyio.Event) -> None:
        """Wait until ``messages`` more may go, or ``stop`` is set."""
        if not self._rate:
            return
        with anyio.CancelScope(deadline=self._free_at):
            await stop.wait()
        self._free_at = max(self._free_at, anyio.current_time()) + messages / self._rate


@contextmanager
def shown_progress(total: int | None, *, shown: bool) -> Generator[Callable[[int, int], None]]:
    """Show what ``nsq-anyio pub`` has published; yield the function that counts messages and their bytes.

    :param total: bytes that will come, with delimiters; None if that is not known
    """
    columns = (
        TextColumn("{task.fields[messages]:,} messages"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TextColumn("{task.fields[rate]:,.0f} messages/s"),
        TimeElapsedColumn(),
    )
    with progress_display(*columns, shown=shown) as progress:
        task = progress.add_task("", total=total, messages=0, rate=0.0)
        messages = 0

        def published(count: int, size: int) -> None:
            nonlocal messages
            messages += count
            elapsed = progress.tasks[0].elapsed or 0.0
            progress.update(
                task, advance=size, messages=messages, rate=messages / elapsed if elapsed else 0.0
            )

        yield published
