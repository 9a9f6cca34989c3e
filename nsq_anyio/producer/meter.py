"""The interface between a producer and a collector of metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..events import Event
from .pool import Pool
from .statistics import ProducerStatistics


class ProducerMeter(Protocol):
    """Measures a producer. It is called in the event loop, and must neither block nor raise.

    Without a meter, nothing is added to the path of a publish.
    """

    def stored(self, topic: str, messages: int, size: int, seconds: float, /) -> None:
        """Called when nsqd has stored messages.

        :param size: the size of their command in bytes
        :param seconds: the time since they were published, including the wait before they were sent
        """
        ...

    def happened(self, event: Event, /) -> None:
        """Called with each event that is logged, and with `PublishFailed` and `PublishResent`."""
        ...


class ProducerReadings:
    """The readings of a producer for a collector. Made by `Producer._measure`.

    :ivar statistics: takes a snapshot, as `Producer.statistics` does
    """

    def __init__(
        self, pool: Pool, statistics: Callable[[], ProducerStatistics], has_ended: Callable[[], bool]
    ) -> None:
        self.statistics: Callable[[], ProducerStatistics] = statistics
        self._pool = pool
        self._has_ended = has_ended

    @property
    def has_ended(self) -> bool:
        """Whether the block has ended, so that no number changes any more."""
        return self._has_ended()

    def published(self) -> dict[str, int]:
        """Return the number of messages that each nsqd has confirmed since the block began, by address."""
        found = dict(self._pool.published_before)
        for connection in (*self._pool.connections, *self._pool.leaving):
            found[connection.nsqd] = found.get(connection.nsqd, 0) + connection.published
        return found
