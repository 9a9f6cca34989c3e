"""The interface between a consumer and a collector of metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..events import Event
from .statistics import ConsumerStatistics, Counters
from .supervisor import Supervisor

MOST_DURATIONS = 1000
"""The number of collected durations at which `ConsumerMeter.fold` is called."""


class ConsumerMeter(Protocol):
    """Measures a consumer. It is called in the event loop, and must neither block nor raise.

    Without a meter, nothing is added to the path of a message.

    :ivar durations: how long handlers ran, in seconds. The workers of each `run` that begins after the meter
        was added append to it. A call for each message would cost more than everything else that is measured
    """

    durations: list[float]

    def fold(self) -> None:
        """Empty `durations`, which stays the same list. Called once there are `MOST_DURATIONS`."""
        ...

    def handled(self, seconds: float, /) -> None:
        """Called when a handler has ended in any way, unless its duration was appended to `durations`."""
        ...

    def happened(self, event: Event, /) -> None:
        """Called with each event that is logged, and with all others if there is an event hook."""
        ...


class ConsumerReadings:
    """The readings of a consumer for a collector. Made by `Consumer._measure`.

    :ivar topic: its topic
    :ivar channel: its channel
    :ivar statistics: takes a snapshot, as `Consumer.statistics` does
    """

    def __init__(
        self,
        supervisor: Supervisor,
        statistics: Callable[[], ConsumerStatistics],
        has_ended: Callable[[], bool],
    ) -> None:
        self.topic: str = supervisor.setup.topic
        self.channel: str = supervisor.setup.channel
        self.statistics: Callable[[], ConsumerStatistics] = statistics
        self._supervisor = supervisor
        self._has_ended = has_ended

    @property
    def has_ended(self) -> bool:
        """Whether the consumer's block has ended, so that no number changes any more."""
        return self._has_ended()

    @property
    def nsqds(self) -> tuple[str, ...]:
        """The addresses of the nsqds to subscribe to, connected or not."""
        return tuple(map(str, self._supervisor.wanted))

    @property
    def max_in_flight(self) -> int:
        """The most messages that may be in flight."""
        return self._supervisor.distribution.max_in_flight

    def counters(self) -> dict[str, Counters]:
        """The counters since the beginning of the block, by the address of the nsqd."""
        return self._supervisor.counters()
