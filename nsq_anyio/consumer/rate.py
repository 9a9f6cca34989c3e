"""Rate limits: how many handlers `run` starts per second, in one consumer or several.

Each `run` has a `Pace` between the inbox and the workers; a `run` without a limit has none. The RDY counts
follow it, so that messages wait at nsqd rather than here, where they would time out. At most one message of
each `run` waits for its start outside the inbox; the others wait in the inbox, where `stop` finds them. One
worker of each `run` that shares a `RateLimit` queues for its lock, so the runs take turns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager

import anyio

from ..errors import InvalidOption
from ..options.checks import check_integer, is_number
from ..policy.token_bucket import TokenBucket, waiting_allowed
from .distribution import Distribution
from .inbox import Inbox, Stop
from .message import Message

_BURST_SECONDS = 0.1
_IDLE_TURN = 1.0
"""Seconds for which a `run` without messages may keep its turn, when not every `run` can have a message."""


class RateLimit:
    """A limit on how many handlers start per second, shared by all calls of `Consumer.run` that get it.

    The calls take turns, so that one with more handlers or more messages gets no larger share. Within any
    second at most ``burst + per_second`` handlers start.

    :param per_second: handlers per second, more than 0
    :param burst: how many may start at once after a pause, 1 or more; default: as many as ``per_second``
        allows in 0.1 s, at least 1
    :raises InvalidOption: if either is out of range
    """

    def __init__(self, per_second: float, burst: int | None = None) -> None:
        _check_rate("per_second", per_second)
        check_integer("burst", burst, 1, special=(None,))
        self._bucket = TokenBucket(per_second, burst or max(1, int(per_second * _BURST_SECONDS)))
        self._paces: list[Pace] = []  # in the order of their turns
        self._first_since: float | None = None  # since when the first one may have messages

    def __repr__(self) -> str:
        return f"<RateLimit {self.per_second:g} a second, burst {self.burst}, {len(self._paces)} runs>"

    @property
    def per_second(self) -> float:
        """How many handlers may start per second."""
        return self._bucket.per_second

    @property
    def burst(self) -> int:
        """How many handlers may start at once after a pause."""
        return self._bucket.burst

    def _join(self, pace: Pace) -> None:
        """Share the limit with one more `run`."""
        if not self._paces:
            self._turn = anyio.Lock()  # bound to this event loop; first come, first served
            self._bucket.begin(anyio.current_time())
            self._first_since = None
        self._paces.append(pace)
        self._follow()

    def _leave(self, pace: Pace) -> None:
        """Share the limit with one `run` fewer."""
        self._paces.remove(pace)
        self._follow()

    def _allowed(self, pace: Pace, now: float, msg_timeout: float) -> int:
        """Return how many messages a `run` may have in flight."""
        count = len(self._paces)
        if not waiting_allowed(self._bucket, 0, count, msg_timeout, now):
            self._first_since = None
        elif self._first_since is None:
            self._first_since = now
            self._paces[0].follow()
        elif count > 1 and self._paces[0].is_idle and now - self._first_since >= _IDLE_TURN:
            self._end_turn(self._paces[0])
        return waiting_allowed(self._bucket, self._paces.index(pace), count, msg_timeout, now)

    async def _start(self, pace: Pace, message: Message) -> bool:
        """Wait until a message may start; return False if it has timed out by then."""
        async with self._turn:
            await anyio.sleep(self._bucket.wait(anyio.current_time()))
            now = anyio.current_time()
            arrival = message._arrival
            if arrival.deadline <= now:
                arrival.delegate.expire(now)
            if not arrival.delegate.holds(message):
                return False
            self._bucket.take(now)  # a token is there: only the holder of the lock takes any
        self._end_turn(pace)
        return True

    def _end_turn(self, pace: Pace) -> None:
        if pace is self._paces[0]:
            self._first_since = None
        self._paces.remove(pace)
        self._paces.append(pace)
        if any(pace.has_turns for pace in self._paces):
            self._follow()

    def _follow(self) -> None:
        for pace in tuple(self._paces):
            pace.follow()


class Pace:
    """The share of one `run` in a rate limit, as the source of its messages.

    :ivar follow: called when the number of messages that may be in flight has changed
    """

    def __init__(self, limit: RateLimit, inbox: Inbox, distribution: Distribution) -> None:
        self.follow: Callable[[], None] = distribution.lower
        self._limit = limit
        self._inbox = inbox
        self._distribution = distribution
        self._allowed: int | None = None
        self._taking = anyio.Lock()
        self._waiting: anyio.CancelScope | None = None

    @contextmanager
    def joined(self) -> Generator[None]:
        """Share the rate limit while the block runs, and let the RDY counts follow it."""
        self._limit._join(self)
        self._distribution.bound_by(self._bound)
        try:
            yield
        finally:
            self._distribution.unbind(self._bound)
            self._limit._leave(self)

    @property
    def is_idle(self) -> bool:
        """Whether no message waits for its start."""
        return self._waiting is None and not len(self._inbox)

    @property
    def has_turns(self) -> bool:
        """Whether each start may change how many messages may be in flight, as far as is known."""
        return self._allowed is None or self._allowed <= 1

    def _bound(self, now: float, msg_timeout: float) -> int:
        self._allowed = self._limit._allowed(self, now, msg_timeout)
        return self._allowed

    # As a MessageSource

    @property
    def stopped(self) -> bool:
        return self._inbox.stopped

    async def wait_stopped(self) -> None:
        await self._inbox.wait_stopped()

    def end(self, stop: Stop) -> None:
        """End the takers; a message that waits for its start goes back."""
        self._inbox.end(stop)
        if self._waiting is not None:
            self._waiting.cancel()

    async def take(self, stop: Stop | None = None) -> Message:
        """Take a message once it may start.

        :raises StopAsyncIteration: once ``stop`` is reached
        """
        async with self._taking:  # all but one of the messages wait in the inbox, where `stop` finds them
            while True:
                message = await self._inbox.take(stop)
                if not self._keeps(message):
                    continue
                may_start = False
                try:
                    with anyio.CancelScope() as self._waiting:
                        may_start = await self._limit._start(self, message)
                finally:
                    self._waiting = None
                    if not may_start:
                        self._inbox.put_back([message])  # unless it has timed out
                if may_start:
                    return message

    def _keeps(self, message: Message) -> bool:
        """Hand back messages beyond the bound; return whether to keep ``message``."""
        if self._allowed is None:
            return True
        excess = self._inbox.take_ready(len(self._inbox) + 1 - max(self._allowed, 1))
        if not self._allowed:  # other runs have their turn first, and the message might time out meanwhile
            excess.append(message)
        for each in excess:
            each.requeue(0, backoff=False)
        return self._allowed > 0


def as_rate_limit(max_per_second: float | RateLimit) -> RateLimit:
    """Return ``max_per_second`` as a rate limit.

    :raises InvalidOption: if it is out of range
    """
    if isinstance(max_per_second, RateLimit):
        return max_per_second
    _check_rate("max_per_second", max_per_second)
    return RateLimit(max_per_second)


def _check_rate(option: str, value: float) -> None:
    if not is_number(value, 0, math.inf) or value <= 0:
        raise InvalidOption(f"{option}={value!r} is not valid: use more than 0 (messages per second)")
