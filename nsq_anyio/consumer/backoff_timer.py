"""The backoff controller of a consumer: it gives the state machine a clock, and reports its changes."""

from __future__ import annotations

import random
from collections.abc import Callable

import anyio

from ..errors import InvalidOption
from ..events import BackoffEnded, BackoffStarted, Emitter
from ..options import ConsumerOptions
from ..policy.backoff import Backoff, BackoffState, Result, Strategy, exponential, full_jitter


class BackoffTimer:
    """One consumer's backoff, over all of its connections.

    :param lower: called when a wait begins: nothing may be received until it is over
    :param redistribute: called when more may be received than before
    :param fail: called with the error that ends the consumer when ``backoff_strategy`` fails
    """

    def __init__(
        self,
        options: ConsumerOptions,
        rng: random.Random,
        emit: Emitter,
        *,
        lower: Callable[[], None],
        redistribute: Callable[[], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        self._backoff = Backoff(_strategy(options, rng), options.max_backoff_duration)
        self._emit = emit
        self._lower = lower
        self._redistribute = redistribute
        self._fail = fail
        self._waiting = anyio.Event()
        self._stopped = False

    @property
    def engaged(self) -> bool:
        """Whether the consumer is in backoff, so that successes count."""
        return self._backoff.level > 0

    @property
    def level(self) -> int:
        """The level of backoff, 0 while not in backoff."""
        return self._backoff.level

    def bound(self, budget: int) -> int:
        """Return how much of the budget may be used now: all, none, or one for a probe."""
        return self._backoff.bound(budget)

    def result(self, result: Result) -> None:
        """Take the result of processing one message into account."""
        if self._stopped:
            return
        now = anyio.current_time()
        try:
            changed = self._backoff.result(result, now)
        except InvalidOption as error:
            # Raised here, the error would reach the code that reported the result: a handler, or the reader.
            self._stopped = True
            self._fail(error)
            return
        if not changed:
            return
        if self._backoff.state is BackoffState.WAITING:
            self._emit(BackoffStarted(self._backoff.level, self._backoff.until - now, **self._emit.source))
            self._waiting.set()
            self._lower()
        else:
            self._emit(BackoffEnded(**self._emit.source))
            self._redistribute()

    async def run(self) -> None:
        """End the waits, until cancelled."""
        while True:
            await self._waiting.wait()
            self._waiting = anyio.Event()
            await anyio.sleep_until(self._backoff.until)
            # No result counts during a wait, so no other wait can have begun. The clock is not read again:
            # uvloop's timers count milliseconds and may fire early, and then nothing would end the wait.
            self._backoff.end_wait(self._backoff.until)
            self._redistribute()

    def stop(self) -> None:
        """Ignore all later results: the consumer is stopping."""
        self._stopped = True


def _strategy(options: ConsumerOptions, rng: random.Random) -> Strategy:
    match options.backoff_strategy:
        case "exponential":
            return exponential(options.backoff_multiplier)
        case "full_jitter":
            return full_jitter(options.backoff_multiplier, rng)
        case strategy:
            return strategy
