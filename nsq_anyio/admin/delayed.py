"""The messages that wait in the file of a delay service, read in bounded time for the pages."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from threading import Lock

import anyio
import anyio.to_thread

from ..delaying.delay_file import DelayFile, Selection, TopicDelays, WaitingMessage

OVERDUE = 10.0
"""The seconds after which a message that is due counts as overdue."""

_PATIENCE = 4.0
_MOST_OVERDUE = 50
_MOST_TOPICS = 20
_MOST_READ = 200


@dataclass(frozen=True, slots=True)
class Delayed:
    """What waited at one moment.

    :ivar time: when it was read, in Unix seconds
    :ivar overdue: messages that are overdue, or were refused, the earliest first; of each topic the first
    :ivar has_more: whether there may be more of these
    """

    time: float
    topics: Sequence[TopicDelays]
    overdue: Sequence[WaitingMessage]
    has_more: bool


class DelayReader:
    """Reads the file; a disk that hangs costs one thread, however often pages ask."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: str = os.fspath(path)
        self._reading = Lock()

    async def read(self) -> Delayed | None:
        """Return what waits; None if the file could not be read within 4 seconds.

        :raises DelayFileUnusable: if it is missing, damaged or of a newer version
        """
        with anyio.move_on_after(_PATIENCE):
            return await anyio.to_thread.run_sync(self._read, abandon_on_cancel=True)
        return None

    def _read(self) -> Delayed | None:
        if not self._reading.acquire(timeout=_PATIENCE):
            return None
        try:
            now = time.time()
            with closing(DelayFile(self.path, writer=False)) as file:
                topics = file.topics()
                overdue = _overdue(file, topics, now - OVERDUE)
            return Delayed(now, topics, overdue[:_MOST_OVERDUE], has_more=len(overdue) > _MOST_OVERDUE)
        finally:
            self._reading.release()


def _overdue(file: DelayFile, topics: Sequence[TopicDelays], limit: float) -> list[WaitingMessage]:
    """Return messages that were to be published before a time, from the topics that are behind the most.

    A message that was refused waits for its next try, among those of its topic that come soon.
    """
    behind = [topic for topic in topics if topic.failed or (topic.next_at or limit) < limit]
    behind.sort(key=lambda topic: topic.next_at or limit)
    found = [
        message
        for topic in behind[:_MOST_TOPICS]
        for message in file.waiting(Selection(topic=topic.topic), _MOST_READ)
        if message.at < limit
    ]
    return sorted(found, key=lambda message: message.at)
