"""Which topics are tailed: one consumer for each, from its first viewer until its last has left."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup

from ...monitoring import Watch
from ...options import ConnectionOptions
from ..upstream import Upstream
from .rows import MessageRow
from .settings import MessageBounds
from .tail import Tail

_PERMIT_SECONDS = 120.0
_MOST_PERMITS = 100


class TooManyViewers(Exception):
    """There are as many viewers, or tailed topics, as the application allows."""


class _Watched:
    """A tail, and how many watch it."""

    def __init__(self, tail: Tail) -> None:
        self.tail = tail
        self.viewers = 0
        self.scope = anyio.CancelScope()


class Tails:
    """Starts and ends tails.

    :param tasks: runs them; they end with it
    """

    def __init__(
        self,
        tasks: TaskGroup,
        watch: Watch,
        upstream: Upstream,
        connection: ConnectionOptions,
        bounds: MessageBounds,
    ) -> None:
        self._tasks = tasks
        self._watch = watch
        self._upstream = upstream
        self._connection = connection
        self._bounds = bounds
        self._watched: dict[tuple[str, bool], _Watched] = {}
        self._permits: dict[str, tuple[str, float]] = {}

    @property
    def viewers(self) -> int:
        """How many viewers there are, of all topics."""
        return sum(each.viewers for each in self._watched.values())

    @property
    def topics(self) -> int:
        """How many topics are tailed."""
        return len(self._watched)

    def permit(self, topic: str) -> str:
        """Return a token with which, for two minutes, a tail may take messages that wait in a topic."""
        now = anyio.current_time()
        self._permits = {token: each for token, each in self._permits.items() if each[1] > now}
        while len(self._permits) >= _MOST_PERMITS:
            del self._permits[next(iter(self._permits))]
        token = secrets.token_urlsafe(16)
        self._permits[token] = (topic, now + _PERMIT_SECONDS)
        return token

    def is_permitted(self, topic: str, token: str) -> bool:
        """Return whether a token is valid for a topic now."""
        permitted, until = self._permits.get(token, ("", 0.0))
        return permitted == topic and until > anyio.current_time()

    @asynccontextmanager
    async def watching(
        self, topic: str, render: Callable[[Sequence[MessageRow]], str], *, may_drain: bool = False
    ) -> AsyncGenerator[Tail]:
        """Yield the tail of a topic, which all viewers share; the last of them ends it.

        A viewer who has not confirmed that waiting messages are taken never shares a tail that takes them.

        :param render: renders messages; called in a worker thread, for all viewers if this is the first
        :raises TooManyViewers: if there are too many
        """
        key = topic, may_drain
        if self.viewers >= self._bounds.viewers:
            raise TooManyViewers(f"there are {self._bounds.viewers} viewers of messages already")
        watched = self._watched.get(key)
        if watched is None:
            if self.topics >= self._bounds.tails:
                raise TooManyViewers(f"{self._bounds.tails} topics are being watched already")
            watched = self._watched[key] = _Watched(self._new_tail(topic, render, may_drain=may_drain))
            self._tasks.start_soon(self._run, key, watched)
        watched.viewers += 1
        try:
            yield watched.tail
        finally:
            watched.viewers -= 1
            if not watched.viewers:
                self._forget(key, watched)
                watched.scope.cancel()

    async def _run(self, key: tuple[str, bool], watched: _Watched) -> None:
        try:
            with watched.scope:
                await watched.tail.run()
        finally:
            # Those who still watch are told why it is over; whoever comes next gets a new one.
            watched.tail.close()
            self._forget(key, watched)

    def _forget(self, key: tuple[str, bool], watched: _Watched) -> None:
        if self._watched.get(key) is watched:
            del self._watched[key]

    def _new_tail(
        self, topic: str, render: Callable[[Sequence[MessageRow]], str], *, may_drain: bool
    ) -> Tail:
        return Tail(
            topic,
            self._watch,
            self._upstream,
            self._connection,
            render,
            self._bounds,
            may_drain=may_drain,
        )
