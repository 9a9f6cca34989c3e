"""The messages in flight of a consumer that deduplicates: their answers wait for the store of ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ..policy.backoff import Result
from .claims import Claims
from .in_flight import InFlight
from .message import Message
from .setup import Setup
from .statistics import Counters


class ClaimedInFlight(InFlight):
    """Answers messages once the store of ids knows how their handling has ended."""

    def __init__(self, nsqd: str, setup: Setup, expired: Callable[[], None], claims: Claims) -> None:
        super().__init__(nsqd, setup, expired)
        self._claims = claims

    def unanswered(self) -> list[Message]:
        return [message for message in super().unanswered() if not self._claims.is_answered(message)]

    def detach(self, counters: Counters) -> None:
        self._claims.release_untaken(self)
        super().detach(counters)

    def finish(self, message: Message, *, result: Result = Result.SUCCESS) -> None:
        self._claims.answer(message, partial(super().finish, message, result=result))

    def finish_all(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self.finish(message)

    def requeue(self, message: Message, delay: float | None, *, backoff: bool, reason: str = "") -> None:
        if delay is None:
            delay = self._requeue_delay(message)
        act = partial(super().requeue, message, delay, backoff=backoff, reason=reason)
        self._claims.answer(message, act, keep=delay)

    def touch(self, message: Message) -> None:
        super().touch(message)
        self._claims.touched(message)
