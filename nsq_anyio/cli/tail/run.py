"""The printer of messages, and a check that no message would be lost."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, TypeAlias

import anyio
import click

from ...consumer import Consumer, Message
from ...consumer.message import finish_all
from ...errors import InvalidEnvelope, NSQError
from ...http import Cluster, Nsqlookupd, TopicStats
from ...terminal_text import one_line
from ...transport.tls_context import client_context, tls_options
from ..clients import consume_from
from ..flags.connection import ConsumerFlags
from ..flags.source import Source
from ..http_address import guess_http_address
from ..output import Output
from ..reach import check_reachable

Content: TypeAlias = Callable[[Message], bytes]
"""Returns the bytes to print for one message."""

BODY: Final[Content] = attrgetter("body")

_MAX_WAIT = 0.005
"""Seconds that a message waits to be printed with others: too short to notice, enough for large writes."""

_DRAIN_CHECK_TIMEOUT = 3.0

Format: TypeAlias = Callable[[Sequence[Message]], bytes]
"""Formats several messages of one topic, with their delimiters."""

# C0 and C1 control characters except tab and line feed, DEL, and invalid UTF-8: a message must not be able to
# move the cursor or set the window's title.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\udc80-\udcff]")


class Tail:
    """Prints the messages of topics.

    :param format: formats the messages
    :param count: the number of messages to print, over all topics; 0 for no limit
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
        """Print until ``stop`` is set, or the requested number of messages is reached.

        :raises OutputClosed: if the reader of the output has gone away
        :raises OutputFailed: if the output cannot be written
        :raises click.ClickException: if no server can be reached
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
            consume_from(self._source, self._flags, topic, channel, max_in_flight=in_flight) as consumer,
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
        """Print and finish the messages still wanted; return whether the requested number is reached."""
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
        """Lower ``max_in_flight`` before FIN lets nsqd push messages that would not be printed."""
        for consumer in [each for each in self._consumers if each.max_in_flight > left]:
            consumer.max_in_flight = left


def plain(delimiter: bytes, *, with_topic: bool, content: Content = BODY) -> Format:
    """Return a format that prints content unchanged, then the delimiter; optionally, ``topic | `` first."""

    def bodies(messages: Sequence[Message]) -> bytes:
        return delimiter.join([*map(content, messages), b""])

    def bodies_with_topic(messages: Sequence[Message]) -> bytes:
        start = f"{messages[0].topic} | ".encode()
        return b"".join([part for message in messages for part in (start, content(message), delimiter)])

    return bodies_with_topic if with_topic else bodies


def safe(delimiter: bytes, *, with_topic: bool, with_colour: bool, content: Content = BODY) -> Format:
    """Return a format like `plain`, with control characters and invalid UTF-8 shown as ``\\xNN``."""

    def bodies(messages: Sequence[Message]) -> bytes:
        topic = messages[0].topic
        start = f"{click.style(topic, fg='cyan') if with_colour else topic} | " if with_topic else ""
        return b"".join([f"{start}{_visible(content(message))}".encode() + delimiter for message in messages])

    return bodies


def as_json(messages: Sequence[Message], *, with_headers: bool = False) -> bytes:
    """Format each message as a line of JSON, with all its metadata."""
    return b"".join([json.dumps(_record(message, with_headers)).encode() + b"\n" for message in messages])


def headers_and_payload(message: Message) -> bytes:
    """Return a line for each header, an empty line, and the payload."""
    headers, payload = _opened(message)
    lines = [f"{name}: {one_line(value)}\n" for name, value in headers.items()]
    return "".join([*lines, "\n"]).encode() + payload


def _opened(message: Message) -> tuple[Mapping[str, str], bytes]:
    try:
        return message.headers, message.payload
    except InvalidEnvelope:
        return {}, message.body


def _visible(body: bytes) -> str:
    return _UNSAFE.sub(_escape, body.decode("utf-8", "surrogateescape"))


def _escape(match: re.Match[str]) -> str:
    return "".join(f"\\x{byte:02x}" for byte in match[0].encode("utf-8", "surrogateescape"))


def _record(message: Message, with_headers: bool) -> dict[str, object]:
    record: dict[str, object] = {
        "topic": message.topic,
        "channel": message.channel,
        "nsqd": message.nsqd,
        "id": message.id,
        "timestamp": message.timestamp,
        "attempts": message.attempts,
    }
    body = message.body
    if with_headers:
        headers, body = _opened(message)
        record["headers"] = dict(headers)
    try:
        return {**record, "body": body.decode()}
    except UnicodeDecodeError:
        return {**record, "body_base64": b64encode(body).decode("ascii")}


@dataclass(frozen=True, slots=True)
class DrainCheck:
    """Checks whether an ephemeral channel would lose messages that wait in a topic.

    A topic without channels keeps its messages for its first channel, and an ephemeral channel drops them
    when it vanishes. The check asks the HTTP APIs of the nsqds.

    :param nsqds: URLs of the nsqds. If empty, the nsqlookupds list them; without nsqlookupds, the port after
        nsqd's TCP port is tried, which is the HTTP port by default
    """

    source: Source
    consumer: ConsumerFlags
    nsqds: Sequence[str]

    async def problems(self, topics: Sequence[str]) -> list[str]:
        """Return the topics that would lose messages or could not be checked, one text per topic and nsqd."""
        problems: list[str] = []
        urls: list[str] = []
        if not self.source.nsqlookupd and not self.nsqds:
            urls, problems = await self._guessed()
        if problems:
            return problems
        tls = tls_options(self.consumer.options.lookupd_tls)
        context = None if tls is None else client_context(tls)
        nsqds = [*self.nsqds, *urls]
        async with Cluster(
            self.source.nsqlookupd or (), nsqds, ssl_context=context, timeout=_DRAIN_CHECK_TIMEOUT
        ) as cluster:
            nsqlookupds = tuple(f"{Nsqlookupd(url).url}/" for url in self.source.nsqlookupd or ())
            for topic in topics:
                problems += await _of_topic(cluster, topic, nsqlookupds)
        return problems

    async def _guessed(self) -> tuple[list[str], list[str]]:
        """Guess the nsqds' HTTP URLs from their TCP addresses; return these and the problems found."""
        urls: list[str] = []
        problems: list[str] = []

        async def guess(text: str) -> None:
            url = await guess_http_address(text, timeout=_DRAIN_CHECK_TIMEOUT)
            if url is None:
                problems.append(
                    f"the HTTP address of nsqd {text} is unknown, so it cannot be checked: name it with "
                    "--nsqd-http-address"
                )
            else:
                urls.append(url)

        async with anyio.create_task_group() as tasks:
            for text in self.source.nsqd or ():
                tasks.start_soon(guess, text)
        return urls, problems


async def _of_topic(cluster: Cluster, topic: str, nsqlookupds: tuple[str, ...]) -> list[str]:
    try:
        reply = await cluster.topic_stats(topic)
    except NSQError as error:
        return [str(error)]
    # One nsqlookupd is enough: the others may come back, and the consumer warns of them.
    found = [f"{failure}" for failure in reply.failures if not failure.url.startswith(nsqlookupds)]
    return found + [_drained(url, row) for url, row in reply.value.nodes.items() if _is_drained(row)]


def _is_drained(row: TopicStats) -> bool:
    return not row.channels and row.depth > 0


def _drained(url: str, row: TopicStats) -> str:
    messages = "1 message waits" if row.depth == 1 else f"{row.depth:,} messages wait"
    return f"topic {row.topic_name} has no channel at {url}, where {messages}"
