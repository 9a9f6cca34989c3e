"""The choice of a host: the nsqd that gets a publish.

The two modes that watch health follow go-hostpool, which nsq_to_nsq uses: a failed host is left out for a
time that doubles with each further failure, and ``epsilon_greedy`` prefers hosts that answer fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    import random

_FIRST_DELAY = 30.0
"""Seconds for which a host is left out after its first failure, as in go-hostpool."""
_LONGEST_DELAY = 900.0

_FIRST_EPSILON = 0.3
"""The share of picks that explore at first. Each exploration reduces it, down to ``_LAST_EPSILON``."""
_EPSILON_DECAY = 0.9
_LAST_EPSILON = 0.01
_HALF_LIFE = 60.0
"""Seconds after which an answer time counts half as much."""
_FASTEST = 1e-4
"""The shortest answer time that counts, in seconds, so that weights stay finite."""


class Host(Protocol):
    """The properties of a host that the choice depends on."""

    @property
    def outstanding(self) -> int:
        """The number of messages that await its answer."""
        ...

    @property
    def outstanding_bytes(self) -> int:
        """The size of these messages in bytes."""
        ...

    def has_room(self, count: int, size: int) -> bool:
        """Return whether ``count`` more messages, of ``size`` bytes in all, may be sent to it now."""
        ...


HostT = TypeVar("HostT", bound=Host)


class RoundRobin(Generic[HostT]):
    """Picks each host in turn.

    :cvar tracks: whether `succeeded` has to be called
    """

    tracks: ClassVar[bool] = False

    def __init__(self) -> None:
        self._turn = 0

    def pick(self, hosts: Sequence[HostT], count: int, size: int, now: float) -> HostT | None:  # noqa: ARG002
        """Return the host for ``count`` messages of ``size`` bytes; None if no eligible host has room.

        :param hosts: the connected hosts, 1 or more
        """
        return self._in_turn(hosts, count, size)

    def failed(self, host: HostT, now: float) -> float | None:  # noqa: ARG002
        """Record that a host was lost or refused a publish; return the seconds for which it is left out."""
        return None

    def succeeded(self, host: HostT, seconds: float, now: float) -> None:
        """Record that a host stored a publish after ``seconds``."""

    def forget(self, host: HostT) -> None:
        """Forget a host that is no longer used."""

    def _in_turn(self, hosts: Sequence[HostT], count: int, size: int) -> HostT | None:
        number = len(hosts)
        for place in range(self._turn, self._turn + number):
            host = hosts[place % number]
            if host.has_room(count, size):
                self._turn = (place + 1) % number
                return host
        return None


class LeastOutstanding(RoundRobin[HostT]):
    """Picks the host with the fewest outstanding messages, then bytes; equal hosts in turn."""

    def pick(self, hosts: Sequence[HostT], count: int, size: int, now: float) -> HostT | None:  # noqa: ARG002
        number = len(hosts)
        order = [hosts[place % number] for place in range(self._turn, self._turn + number)]
        least = min(order, key=lambda host: (host.outstanding, host.outstanding_bytes))
        if not least.has_room(count, size):
            return self._in_turn(hosts, count, size)
        self._turn = (hosts.index(least) + 1) % number
        return least


class _Health:
    """The health of one host.

    :ivar delay: the seconds for which it was last left out; 0 while it is healthy
    :ivar retry_at: when it may be tried again
    """

    __slots__ = ("answers", "delay", "measured_at", "retry_at", "seconds")

    def __init__(self) -> None:
        self.delay = 0.0
        self.retry_at = 0.0
        self.answers = 0.0
        self.seconds = 0.0
        self.measured_at = 0.0

    def fail(self, first: float, longest: float, now: float) -> None:
        self.delay = min(2 * self.delay, longest) if self.delay else first
        self.retry_at = now + self.delay

    def measure(self, seconds: float, now: float) -> None:
        """Count an answer time; older ones count less than newer ones."""
        kept = 0.5 ** ((now - self.measured_at) / _HALF_LIFE)
        self.answers = self.answers * kept + 1
        self.seconds = self.seconds * kept + max(seconds, _FASTEST)
        self.measured_at = now


class FailingHosts(RoundRobin[HostT]):
    """Picks hosts in turn. A host that failed is left out for a growing time, then tried with one publish.

    When all hosts are left out, the host whose retry is due first is picked.

    :param first_delay: seconds to leave a host out after its first failure; doubled with each further one
    :param longest_delay: the most seconds to leave a host out
    """

    tracks: ClassVar[bool] = True

    def __init__(self, first_delay: float = _FIRST_DELAY, longest_delay: float = _LONGEST_DELAY) -> None:
        super().__init__()
        self._first_delay = first_delay
        self._longest_delay = longest_delay
        self._health: dict[HostT, _Health] = {}

    def pick(self, hosts: Sequence[HostT], count: int, size: int, now: float) -> HostT | None:
        usable = [host for host in hosts if self._of(host).retry_at <= now]
        if not usable:
            first = min(hosts, key=lambda host: self._of(host).retry_at)
            return first if first.has_room(count, size) else None
        host = self._among(usable, count, size)
        if host is not None and (health := self._of(host)).delay:
            # One publish shows whether it works again. Until it is answered, other publishes go elsewhere.
            health.fail(self._first_delay, self._longest_delay, now)
        return host

    def failed(self, host: HostT, now: float) -> float | None:
        """Record a failure; a failure while the host is left out changes nothing."""
        health = self._of(host)
        if health.retry_at > now:
            return None
        health.fail(self._first_delay, self._longest_delay, now)
        return health.delay

    def succeeded(self, host: HostT, seconds: float, now: float) -> None:  # noqa: ARG002
        """Record that the host is healthy again."""
        health = self._of(host)
        health.delay = health.retry_at = 0.0

    def forget(self, host: HostT) -> None:
        self._health.pop(host, None)

    def _among(self, usable: Sequence[HostT], count: int, size: int) -> HostT | None:
        return self._in_turn(usable, count, size)

    def _of(self, host: HostT) -> _Health:
        health = self._health.get(host)
        if health is None:
            health = self._health[host] = _Health()
        return health


class EpsilonGreedy(FailingHosts[HostT]):
    """Mostly picks hosts in proportion to their speed; sometimes picks any host in turn, to measure it.

    :param rng: the random source
    """

    def __init__(
        self,
        rng: random.Random,
        first_delay: float = _FIRST_DELAY,
        longest_delay: float = _LONGEST_DELAY,
    ) -> None:
        super().__init__(first_delay, longest_delay)
        self._rng = rng
        self._epsilon = _FIRST_EPSILON

    def succeeded(self, host: HostT, seconds: float, now: float) -> None:
        """Record that the host is healthy, and how fast it was."""
        super().succeeded(host, seconds, now)
        self._of(host).measure(seconds, now)

    def _among(self, usable: Sequence[HostT], count: int, size: int) -> HostT | None:
        if self._rng.random() < self._epsilon:
            self._epsilon = max(self._epsilon * _EPSILON_DECAY, _LAST_EPSILON)
            return self._in_turn(usable, count, size)
        measured = [host for host in usable if self._of(host).answers and host.has_room(count, size)]
        if not measured:
            return self._in_turn(usable, count, size)
        speeds = [self._of(host).answers / self._of(host).seconds for host in measured]
        return self._rng.choices(measured, speeds)[0]
