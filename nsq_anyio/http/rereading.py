"""Reads the statistics of one nsqd again and again, at the cost of what has changed."""

from __future__ import annotations

import json
import sys
from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any, cast

import anyio.to_thread

from .fields import MAX_INTEGER, MIN_INTEGER, Fields, no_constant, parse_json
from .reply import Reply
from .stats import ChannelStats, Stats, TopicStats

__all__ = ["StatsReader", "StatsReaders"]

_MARK = b'{"topic_name":'
"""The beginning of a topic. In valid JSON it is never inside a string, where the quotes would be escaped."""
_TOPICS = b'"topics":['

_DECODER = json.JSONDecoder(parse_constant=no_constant)
_MOST_DIGITS = 10_000
"""Up to this length of an integer, Python parses it fast enough."""

_TOPIC = itemgetter(
    *("topic_name", "paused", "e2e_processing_latency", "channels"),
    *("depth", "backend_depth", "message_count", "message_bytes"),
)
_CHANNEL = itemgetter(
    *("channel_name", "paused", "e2e_processing_latency", "clients"),
    *("depth", "backend_depth", "in_flight_count", "deferred_count"),
    *("message_count", "requeue_count", "timeout_count", "client_count"),
)
_READ_IN_PASSING = 64 * 1024
"""Bytes that are read within a millisecond or two, for which other tasks can wait."""

_INTEGER = {int}
_NOT_MEASURED = {"count": 0, "percentiles": None}


class StatsReaders:
    """The readers of the nsqds of a cluster, each made when it is first needed."""

    def __init__(self) -> None:
        self._readers: dict[str, StatsReader] = {}

    def of(self, url: str) -> StatsReader:
        """Return the reader of an nsqd, by its URL."""
        return self._readers.setdefault(url, StatsReader())

    def keep(self, urls: Container[str]) -> None:
        """Forget the nsqds that are not among ``urls``."""
        self._readers = {url: reader for url, reader in self._readers.items() if url in urls}


class StatsReader:
    """Reads the answers of one nsqd to ``/stats``, without clients, one after the other.

    nsqd writes a topic as it wrote it before, byte for byte, while nothing happens there. Such a topic is not
    parsed again: it is the same object as in the answer before, until the nsqd restarts. A reader keeps the
    text and the topics of the last answer.
    """

    def __init__(self) -> None:
        self._last: tuple[int, dict[bytes, TopicStats]] = 0, {}

    async def read(self, reply: Reply) -> Stats:
        """Read an answer; a large one in a thread.

        :raises HTTPInvalidReply: if it is not JSON, or not statistics
        :raises HTTPStatusError: as `Reply.read`
        """
        if len(reply.body) < _READ_IN_PASSING:
            return self._read(reply)
        return await anyio.to_thread.run_sync(self._read, reply)

    def _read(self, reply: Reply) -> Stats:
        try:
            stats = self._changed(reply.body)
        except (ValueError, RecursionError):
            stats = None
        if stats is None:  # written in another way than nsqd's: read as a whole, or refused with a reason
            self._last = 0, {}
            return reply.read(Stats.read)
        return stats

    def _changed(self, body: bytes) -> Stats | None:
        """Parse the topics whose text is new, and what is around the topics; None if that is not possible.

        :raises ValueError: as well, if it is not
        """
        head, *texts = body.split(_MARK)
        if not texts or not head.endswith(_TOPICS) or not _is_quick():
            return None
        # The last topic ends where the rest begins, which only parsing tells.
        last = (_MARK + texts.pop()).decode()
        _, end = _DECODER.raw_decode(last)
        tail = last[end:]
        if not tail.startswith("]") or not all(text.endswith(b"},") for text in texts):
            return None
        around = Stats.read(parse_json(head + tail.encode()))
        if around.topics:
            return None
        texts = [*(_MARK + text[:-1] for text in texts), last[:end].encode()]
        start_time, known = self._last
        if start_time != around.start_time:
            known = {}
        new = [text for text in texts if text not in known]
        fresh = dict(zip(new, _parsed(new), strict=True))
        topics = {text: fresh.get(text) or known[text] for text in texts}
        self._last = around.start_time, topics
        return replace(around, topics=tuple([topics[text] for text in texts]))


def _is_quick() -> bool:
    """Whether Python itself refuses integers with so many digits that parsing them takes long."""
    return 0 < sys.get_int_max_str_digits() <= _MOST_DIGITS


def _parsed(texts: Sequence[bytes]) -> Iterator[TopicStats]:
    """Parse topics.

    :raises ValueError: if one is not valid
    """
    # Plainly, since checking each number while it is parsed takes as long as all the rest.
    values = _DECODER.decode((b"[%s]" % b",".join(texts)).decode())
    for text, value in zip(texts, values, strict=True):
        yield _topic(value) or TopicStats.read(Fields(parse_json(text), "topics"))


def _topic(value: dict[str, Any]) -> TopicStats | None:
    """Read a topic; None unless it is as almost always."""
    try:
        name, paused, latency, channels, *counts = _TOPIC(value)
        if not _is_plain(name, paused, counts, latency):
            return None
        read = tuple(map(_channel, channels))
    except (KeyError, TypeError):
        return None
    if None in read:
        return None
    depth, backend_depth, messages, size = counts
    return TopicStats(
        topic_name=name,
        channels=cast("tuple[ChannelStats, ...]", read),
        depth=depth,
        backend_depth=backend_depth,
        message_count=messages,
        message_bytes=size,
        paused=paused,
    )


def _channel(value: dict[str, Any]) -> ChannelStats | None:
    name, paused, latency, clients, *counts = _CHANNEL(value)
    if clients or not _is_plain(name, paused, counts, latency):
        return None
    depth, backend_depth, in_flight, deferred, messages, requeued, timed_out, client_count = counts
    return ChannelStats(
        channel_name=name,
        depth=depth,
        backend_depth=backend_depth,
        in_flight_count=in_flight,
        deferred_count=deferred,
        message_count=messages,
        requeue_count=requeued,
        timeout_count=timed_out,
        client_count=client_count,
        paused=paused,
    )


def _is_plain(name: object, paused: object, counts: Sequence[int], latency: object) -> bool:
    return (
        type(name) is str
        and name.isascii()
        and type(paused) is bool
        and {*map(type, counts)} == _INTEGER
        and min(counts) >= MIN_INTEGER
        and max(counts) <= MAX_INTEGER
        and latency == _NOT_MEASURED
    )
