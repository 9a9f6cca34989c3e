"""An incremental reader of nsqd's statistics, which parses only the topics that have changed.

On a large cluster, most of a poll would be spent on unchanged topics. nsqd writes such a topic byte for byte
as before, so comparing the text finds it. The reader then returns the same object as before, so that sums and
rates can skip it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Container
from dataclasses import replace
from operator import itemgetter
from typing import Any

from ..protocol.deep_json import no_constant
from .cpu_time import run_in_thread
from .reply import MAX_INTEGER, MAX_TEXT, MIN_INTEGER, Fields, Reply, parse_json
from .stats import ChannelStats, Stats, TopicStats

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

_TEXT, _FLAG, _INTEGER = {str}, {bool}, {int}
_NOT_MEASURED = {"count": 0, "percentiles": None}


class StatsReaders:
    """The readers for the nsqds of a cluster, each made on first use."""

    def __init__(self) -> None:
        self._readers: dict[str, StatsReader] = {}

    def of(self, url: str) -> StatsReader:
        """Return the reader of an nsqd, by its URL."""
        return self._readers.setdefault(url, StatsReader())

    def keep(self, urls: Container[str]) -> None:
        """Forget the nsqds that are not among ``urls``."""
        self._readers = {url: reader for url, reader in self._readers.items() if url in urls}


class StatsReader:
    """Reads the successive answers of one nsqd to ``/stats``, without clients.

    An unchanged topic is the same object as in the previous answer, until the nsqd restarts. Only the last
    topic of an answer is always parsed again. A reader keeps the text and the topics of the last answer.
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
        return await run_in_thread(self._read, reply)

    def _read(self, reply: Reply) -> Stats:
        try:
            stats = self._changed(reply.body)
        except (ValueError, RecursionError):
            stats = None
        if stats is None:  # not in nsqd's usual form: `Stats.read` reads it, or refuses it with a reason
            self._last = 0, {}
            return reply.read(Stats.read)
        return stats

    def _changed(self, body: bytes) -> Stats | None:
        """Parse the topics whose text is new, and the fields around the topics.

        Return None, or raise an error, for text that is not in nsqd's usual form.

        :raises ValueError: if the text is not in nsqd's usual form
        """
        head, *texts = body.split(_MARK)
        if not texts or not head.endswith(_TOPICS) or not _is_quick():
            return None
        # Only parsing finds the end of the last topic.
        last = (_MARK + texts.pop()).decode()
        end = _DECODER.raw_decode(last)[1]
        around = Stats.read(parse_json(head + last[end:].encode()))
        if around.topics or not last.startswith("]", end):
            return None
        start_time, known = self._last
        if start_time != around.start_time:
            known = {}
        topics = [known.get(text) or _between(text) for text in texts]
        self._last = around.start_time, dict(zip(texts, topics, strict=True))
        return replace(around, topics=(*topics, _parsed(last[:end].encode())))


def _is_quick() -> bool:
    """Whether Python itself refuses integers with so many digits that parsing them takes long."""
    return 0 < sys.get_int_max_str_digits() <= _MOST_DIGITS


def _between(text: bytes) -> TopicStats:
    """Parse the text between two marks.

    :raises ValueError: if it is not a topic and a comma
    """
    if not text.endswith(b"},"):
        raise ValueError("topics are not separated as nsqd does it")
    return _parsed(_MARK + text[:-1])


def _parsed(text: bytes) -> TopicStats:
    """Parse a topic.

    :raises ValueError: if it is not valid
    """
    try:
        # Reading field by field would take several times as long.
        if text.isascii() and b"\\" not in text and (topic := _plain_topic(text)) is not None:
            return topic
    except (KeyError, TypeError):
        pass
    return TopicStats.read(Fields(parse_json(text), "topics"))


def _plain_topic(text: bytes) -> TopicStats | None:
    """Parse a topic in its usual form; return None, or raise an error, for any other."""
    # One topic at a time: with many, the garbage collector would scan their objects again and again.
    name, paused, latency, channels, *counts = _TOPIC(_DECODER.decode(text.decode()))
    read = list(map(_CHANNEL, channels))
    names, flags, all_counts = [name], [paused], list(counts)
    for each in read:
        names.append(each[0])
        flags.append(each[1])
        all_counts += each[4:]
        if each[2] != _NOT_MEASURED or each[3]:
            return None
    # The numbers are checked here, and not while they are parsed, which takes as long as all the rest.
    if (
        latency != _NOT_MEASURED
        or {*map(type, names)} != _TEXT
        or max(map(len, names)) > MAX_TEXT
        or {*map(type, flags)} != _FLAG
        or {*map(type, all_counts)} != _INTEGER
        or min(all_counts) < MIN_INTEGER
        or max(all_counts) > MAX_INTEGER
    ):
        return None
    depth, backend_depth, messages, size = counts
    return TopicStats(
        topic_name=name,
        channels=tuple(map(_channel, read)),
        depth=depth,
        backend_depth=backend_depth,
        message_count=messages,
        message_bytes=size,
        paused=paused,
    )


def _channel(values: tuple[Any, ...]) -> ChannelStats:
    name, paused, _, _, depth, on_disk, in_flight, deferred, messages, requeued, timed_out, clients = values
    return ChannelStats(
        channel_name=name,
        depth=depth,
        backend_depth=on_disk,
        in_flight_count=in_flight,
        deferred_count=deferred,
        message_count=messages,
        requeue_count=requeued,
        timeout_count=timed_out,
        client_count=clients,
        paused=paused,
    )
