"""Asks many servers at once, and keeps their failures beside their answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import anyio

from ..errors import HTTPError, HTTPUnavailable

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ClusterReply(Generic[T]):
    """The result of asking many servers.

    :ivar value: the result, made from the answers that arrived
    :ivar failures: what went wrong, each with the URL that was asked; empty if nothing did
    """

    value: T
    failures: tuple[HTTPError, ...] = ()


class ClusterFailed(HTTPError):
    """No server did what was asked.

    :ivar failures: what went wrong, each with its own URL; empty if no server had the topic or channel
    """

    def __init__(self, servers: Sequence[str], reason: str, failures: Sequence[HTTPError] = ()) -> None:
        details = "; ".join(map(str, failures))
        super().__init__(", ".join(servers), f"{reason}: {details}" if details else reason)
        self.failures: tuple[HTTPError, ...] = tuple(failures)


@dataclass(frozen=True, slots=True)
class Answers(Generic[T]):
    """The answers of some servers and the failures of others, both by URL, in the order asked."""

    values: dict[str, T]
    failures: dict[str, HTTPError]


class FanOut:
    """Bounds how many servers are asked at once, and how long each may take.

    :param timeout: seconds for all requests of one call to its server
    :param concurrency: how many calls run at once
    """

    def __init__(self, timeout: float, concurrency: int) -> None:
        self._timeout = timeout
        self._limiter = anyio.CapacityLimiter(concurrency)

    async def ask(self, calls: Mapping[str, Callable[[], Awaitable[T]]]) -> Answers[T]:
        """Make all ``calls``, one for each URL; none waits for another's answer."""
        values: dict[str, T] = {}
        failures: dict[str, HTTPError] = {}

        async def ask_one(url: str, call: Callable[[], Awaitable[T]]) -> None:
            async with self._limiter:
                try:
                    with anyio.fail_after(self._timeout):
                        values[url] = await call()
                except TimeoutError:
                    failures[url] = HTTPUnavailable(url, f"no answer within {self._timeout:g} s")
                except HTTPError as error:
                    failures[url] = error

        async with anyio.create_task_group() as tasks:
            for url, call in calls.items():
                tasks.start_soon(ask_one, url, call)
        return Answers(
            {url: values[url] for url in calls if url in values},
            {url: failures[url] for url in calls if url in failures},
        )
