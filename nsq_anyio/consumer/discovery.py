"""Finds the nsqds that have a topic, by polling all nsqlookupds in parallel."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

import anyio

from ..address import Address
from ..errors import HTTPError, HTTPStatusError, InvalidAddress
from ..events import Emitter, LookupDone, LookupFailed
from ..http import Nsqlookupd
from ..options import ConsumerOptions
from ..policy.reconcile import Directory

__all__ = ["Discovery"]

_LEAST_INTERVAL = 1.0
"""Seconds between two polls, however often connections are lost."""


class Discovery:
    """Polls nsqlookupds for one topic.

    :param urls: of the nsqlookupds' HTTP sides
    :ivar directory: what they said last
    """

    def __init__(self, topic: str, urls: Sequence[str], *, options: ConsumerOptions, emit: Emitter) -> None:
        self.directory: Directory[Address] = Directory()
        self._topic = topic
        self._options = options
        self._emit = emit
        self._lookupds = [Nsqlookupd(url, timeout=options.lookupd_poll_timeout) for url in urls]
        self._soon = anyio.Event()
        self._rng = random.Random()

    def poll_soon(self) -> None:
        """Do not wait for the interval: a connection was lost."""
        self._soon.set()

    async def run(self, changed: Callable[[], None], polled: Callable[[], None]) -> None:
        """Poll until cancelled; ``changed`` is called after each answer, ``polled`` after each round."""
        options = self._options
        async with AsyncExitStack() as stack:
            for lookupd in self._lookupds:
                await stack.enter_async_context(lookupd)
            while True:
                self._soon = anyio.Event()
                async with anyio.create_task_group() as tasks:
                    for lookupd in self._lookupds:
                        tasks.start_soon(self._poll, lookupd, changed)
                # Once more: where all nsqlookupds failed, their last answers stay in force, and a connection
                # that was lost is among them.
                changed()
                polled()
                # Spread over the jitter, so that consumers started together do not poll together.
                spread = 1 + options.lookupd_poll_jitter * self._rng.uniform(-1, 1)
                interval = options.lookupd_poll_interval * max(spread, 0.01)
                await anyio.sleep(min(_LEAST_INTERVAL, interval))
                with anyio.move_on_after(interval - min(_LEAST_INTERVAL, interval)):
                    await self._soon.wait()

    async def _poll(self, lookupd: Nsqlookupd, changed: Callable[[], None]) -> None:
        name = lookupd.url
        try:
            producers = (await lookupd.lookup(self._topic)).producers
        except HTTPStatusError as error:
            if error.code != "TOPIC_NOT_FOUND":
                self._emit(LookupFailed(name, error))
                return
            producers = ()  # not an error: nobody has published to the topic yet
        except HTTPError as error:
            self._emit(LookupFailed(name, error))
            return
        nsqds: list[Address] = []
        for producer in producers:
            try:
                nsqds.append(producer.address)
            except InvalidAddress as error:
                self._emit(LookupFailed(name, error))
        self._emit(LookupDone(name, tuple(map(str, nsqds))))
        self.directory.answered(name, nsqds)
        changed()
