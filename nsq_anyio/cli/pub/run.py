"""The publisher of inputs, which limits the rate."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from itertools import chain

import anyio
import click
from anyio.streams.memory import MemoryObjectReceiveStream
from rich.progress import DownloadColumn, TextColumn, TimeElapsedColumn, TransferSpeedColumn

from ...envelope import encode_headers
from ...errors import NSQError
from ...exceptions import first_error
from ...producer.in_parts import InParts, MpubLimit, batches
from ..clients import produce_to
from ..display import progress_bar, progress_display
from ..ending import PARTIAL
from ..flags.source import Destination
from ..reach import check_reachable
from .flags import PubFlags
from .reader import Input, MessageReader

_MAX_BATCH_BYTES = 1024 * 1024
_CHUNKS_AHEAD = 16

_BATCHES_PER_SECOND = 20
_MAX_READ = 64 * 1024  # the capacity of a pipe on Linux
_MIN_READ = 512
_BYTES_A_MESSAGE = 100
_READS_PER_SECOND = 10

Published = Callable[[int, int], None]
"""Called with the number of messages published, and their size in bytes."""


class _PartlyPublished(click.ClickException):
    exit_code = PARTIAL


class Pub:
    """Publishes messages from inputs, in their order.

    :param mode: a mode for the producer; None to publish each message to every nsqd
    :param headers: the headers of each message; without any, messages are published unchanged
    """

    def __init__(
        self, flags: PubFlags, mode: str | None, headers: Mapping[str, str], published: Published
    ) -> None:
        self._flags = flags
        self._producer = flags.producer if mode is None else flags.producer.with_mode(mode)
        self._each_nsqd = mode is None
        self._head = encode_headers(headers) if headers else b""
        self._pace = Pace(flags.rate)
        self._published = published
        self._messages = 0

    async def run(self, inputs: Sequence[Input], stop: anyio.Event) -> None:
        """Publish all messages; after ``stop``, only the messages already read, regardless of the rate.

        :raises click.ClickException: if an input cannot be read, or a message cannot be published
        """
        await check_reachable(self._flags.destination, self._producer, all_of_them=self._each_nsqd)
        # With a rate, read almost nothing ahead: at a signal, everything read is published at once.
        ahead = _CHUNKS_AHEAD if self._pace.max_batch is None else 0
        send, receive = anyio.create_memory_object_stream[list[bytes]](ahead)
        reader = MessageReader(
            inputs,
            self._flags.delimiter,
            max_size=self._producer.options.max_msg_size - len(self._head),
            read_size=self._pace.read_size,
        )
        async with self._senders() as senders, receive, anyio.create_task_group() as tasks:
            tasks.start_soon(reader.run, send, stop)
            async for messages in receive:
                await self._publish(senders, _with_more(messages, receive), stop)
        if reader.problem is not None:
            raise self._failed(reader.problem)
        if reader.interrupted:
            click.echo(f"stopped before the end of the input: {_counted(self._messages)} published", err=True)

    @asynccontextmanager
    async def _senders(self) -> AsyncGenerator[list[InParts]]:
        """Yield one sender for all nsqds, or one per nsqd if every nsqd gets every message."""
        async with AsyncExitStack() as stack:
            groups = [self._flags.destination]
            if self._each_nsqd:
                groups = [Destination((nsqd,), None) for nsqd in self._flags.destination.nsqd or ()]
            producers = [
                await stack.enter_async_context(produce_to(group, self._producer)) for group in groups
            ]
            max_bytes = min(_MAX_BATCH_BYTES, self._producer.options.max_body_size)
            yield [InParts(producer, MpubLimit(max_bytes)) for producer in producers]

    async def _publish(
        self, senders: Sequence[InParts], messages: Sequence[bytes], stop: anyio.Event
    ) -> None:
        if self._head:
            messages = [self._head + message for message in messages]
        for batch in batches(messages, _MAX_BATCH_BYTES, self._pace.max_batch):
            await self._pace.wait(len(batch), stop)
            try:
                async with anyio.create_task_group() as tasks:
                    for sender in senders[1:]:
                        tasks.start_soon(sender.publish, self._flags.topic, batch)
                    await senders[0].publish(self._flags.topic, batch)
            except* NSQError as errors:
                raise self._not_published(first_error(errors), senders) from errors
            self._messages += len(batch)
            self._published(len(batch), sum(map(len, batch)) - len(batch) * len(self._head))

    def _not_published(self, error: BaseException, senders: Sequence[InParts]) -> click.ClickException:
        done = min(sender.done for sender in senders)
        self._messages += done
        return self._failed(str(error), max(sender.done + sender.maybe for sender in senders) - done)

    def _failed(self, reason: str, maybe: int = 0) -> click.ClickException:
        """Return the error to raise; ``maybe`` counts further messages that may have been published."""
        more = f", and {maybe} more may have been" if maybe else ""
        kind = _PartlyPublished if self._messages or maybe else click.ClickException
        return kind(f"{reason}; {_counted(self._messages)} published before{more}")


def _counted(messages: int) -> str:
    return "1 message was" if messages == 1 else f"{messages} messages were"


def _with_more(messages: list[bytes], receive: MemoryObjectReceiveStream[list[bytes]]) -> list[bytes]:
    """Return ``messages`` and the messages read in the meantime, to publish them together."""
    found = [messages]
    with suppress(anyio.WouldBlock, anyio.EndOfStream):
        while True:
            found.append(receive.receive_nowait())
    return list(chain.from_iterable(found))


class Pace:
    """Spreads messages evenly over time; unused time does not allow a burst later.

    :param rate: messages per second; 0 for no limit
    """

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._free_at = 0.0

    @property
    def max_batch(self) -> int | None:
        """The most messages to publish together, which avoids bursts; None for no limit."""
        return max(self._rate // _BATCHES_PER_SECOND, 1) if self._rate else None

    @property
    def read_size(self) -> int:
        """The bytes to read at a time: few for a low rate, as a signal publishes everything that was read."""
        if not self._rate:
            return _MAX_READ
        return min(max(self._rate * _BYTES_A_MESSAGE // _READS_PER_SECOND, _MIN_READ), _MAX_READ)

    async def wait(self, messages: int, stop: anyio.Event) -> None:
        """Wait until ``messages`` more may be published, or ``stop`` is set."""
        if not self._rate:
            return
        with anyio.CancelScope(deadline=self._free_at):
            await stop.wait()
        self._free_at = max(self._free_at, anyio.current_time()) + messages / self._rate


@contextmanager
def shown_progress(total: int | None, *, shown: bool) -> Generator[Callable[[int, int], None]]:
    """Show the progress of ``nsq-anyio pub``; yield a function that adds published messages and their bytes.

    :param total: the size of all inputs in bytes, with delimiters; None if it is unknown
    """
    columns = (
        TextColumn("{task.fields[messages]:,} messages"),
        progress_bar(),
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
