"""What ``nsq-anyio tail`` does, and how it writes messages: as they are, safe for a terminal, or as JSON."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import TypeAlias

import anyio
import click

from ...consumer import Consumer, Message, consume
from ...consumer.message import finish_all
from ..flags.connection import ConsumerFlags
from ..flags.source import Source
from ..output import Output
from ..reach import check_reachable

__all__ = ["Format", "Tail", "as_json", "plain", "safe"]

_MAX_WAIT = 0.005
"""Seconds that a message waits for others to be printed with; too short to see, and it makes large writes."""


Format: TypeAlias = Callable[[Sequence[Message]], bytes]
"""Makes one piece of several messages of one topic, each with what ends it."""

# C0 and C1 control characters but tab and line feed, DEL, and what is no UTF-8: a message must not be able to
# move the cursor, or to name the window.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\udc80-\udcff]")


class Tail:
    """Prints the messages of topics.

    :param format: of what is printed
    :param count: after how many messages, over all topics, it ends; 0 for never
    """

    def __init__(
        self, source: Source, consumer: ConsumerFlags, output: Output, format: Format, *, count: int
    ) -> None:
        self._source = source
        self._flags = consumer
        self._output = output
        self._format = format
        self._left = count or None
        self._consumers: list[Consumer] = []
        self._output_turn = anyio.Lock()

    async def run(self, topics: Sequence[str], channel: str, stop: anyio.Event) -> None:
        """Print until ``stop`` is set, or as many as were asked for.

        :raises OutputClosed: if nobody reads the output any more
        :raises click.ClickException: if no server can be reached, or the output cannot be written
        """
        await check_reachable(self._source, self._flags)
        async with anyio.create_task_group() as watching:
            watching.start_soon(self._output.wait_closed)
            async with anyio.create_task_group() as tasks:
                for topic in topics:
                    tasks.start_soon(self._print_topic, topic, channel, stop)
            watching.cancel_scope.cancel()

    async def _print_topic(self, topic: str, channel: str, stop: anyio.Event) -> None:
        in_flight = self._wanted(self._flags.max_in_flight)
        async with (
            consume(
                topic,
                channel,
                nsqd=self._source.nsqd,
                nsqlookupd=self._source.nsqlookupd,
                max_in_flight=in_flight,
                options=self._flags.options,
                connection=self._flags.connection,
            ) as consumer,
            anyio.create_task_group() as tasks,
        ):
            self._consumers.append(consumer)
            tasks.start_soon(self._stop, consumer, stop)
            async for batch in consumer.batches(in_flight, _MAX_WAIT):
                if await self._print(batch):
                    stop.set()
                    break
            tasks.cancel_scope.cancel()

    async def _stop(self, consumer: Consumer, stop: anyio.Event) -> None:
        await stop.wait()
        consumer.stop()

    async def _print(self, messages: Sequence[Message]) -> bool:
        """Print and finish as many as are still wanted; whether those were all."""
        async with self._output_turn:
            messages = messages[: self._wanted(len(messages))]
            if messages:
                await self._output.write(self._format(messages))
                if self._left is not None:
                    self._left -= len(messages)
                    self._want_only(self._left)
                finish_all(messages)
            return self._left == 0

    def _wanted(self, count: int) -> int:
        return count if self._left is None else min(count, self._left)

    def _want_only(self, left: int) -> None:
        """Before FIN makes nsqd send more: what will not be printed should not leave its channel."""
        for consumer in [each for each in self._consumers if each.max_in_flight > left]:
            consumer.max_in_flight = left


def plain(delimiter: bytes, *, with_topic: bool) -> Format:
    """Bodies as they are, after ``topic | `` if so wanted, each followed by the delimiter."""

    def bodies(messages: Sequence[Message]) -> bytes:
        return delimiter.join([*[message.body for message in messages], b""])

    def bodies_with_topic(messages: Sequence[Message]) -> bytes:
        start = f"{messages[0].topic} | ".encode()
        return b"".join([part for message in messages for part in (start, message.body, delimiter)])

    return bodies_with_topic if with_topic else bodies


def safe(delimiter: bytes, *, with_topic: bool, with_colour: bool) -> Format:
    """As `plain`, but control characters and what is no UTF-8 are shown as ``\\xNN``."""

    def bodies(messages: Sequence[Message]) -> bytes:
        topic = messages[0].topic
        start = f"{click.style(topic, fg='cyan') if with_colour else topic} | " if with_topic else ""
        return b"".join([f"{start}{_visible(message.body)}".encode() + delimiter for message in messages])

    return bodies


def as_json(messages: Sequence[Message]) -> bytes:
    """A line of JSON for each, with all that nsqd tells of it."""
    return b"".join([json.dumps(_record(message)).encode() + b"\n" for message in messages])


def _visible(body: bytes) -> str:
    return _UNSAFE.sub(_escape, body.decode("utf-8", "surrogateescape"))


def _escape(match: re.Match[str]) -> str:
    return "".join(f"\\x{byte:02x}" for byte in match[0].encode("utf-8", "surrogateescape"))


def _record(message: Message) -> dict[str, object]:
    record: dict[str, object] = {
        "topic": message.topic,
        "channel": message.channel,
        "nsqd": message.nsqd,
        "id": message.id,
        "timestamp": message.timestamp,
        "attempts": message.attempts,
    }
    try:
        return {**record, "body": message.body.decode()}
    except UnicodeDecodeError:
        return {**record, "body_base64": b64encode(message.body).decode("ascii")}
