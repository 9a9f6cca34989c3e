"""Polling of all nsqlookupds, in parallel.

An answer is used as soon as it comes, so a consumer starts with the first answer, and does not wait for a
slow nsqlookupd. After a consumer has left an nsqd, only an answer that was requested later counts for that
nsqd: SUB creates the topic, so an older answer would undo a deletion. When an nsqlookupd fails, its last
answer counts as repeated. The delay until the next poll is known only at the end of a round, so failures are
reported then, with that delay.

A consumer that has lost a connection polls after ``reconnect_delay``, not at once, because nsqd closes the
connections of a deleted topic before it has unregistered the topic at every nsqlookupd. Once one nsqlookupd
has answered, that poll waits half a second at most for the others. A producer's connections create no
topics, so they reconnect by themselves as long as the nsqd is listed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import TypeAlias

import anyio

from ..address import Address
from ..connection.auth_secret import bearer
from ..errors import HTTPError, InvalidAddress, InvalidOption
from ..events import Emitter, Event, LookupDone, LookupFailed
from ..http import Authorization, Nsqlookupd
from ..http.models import Producer
from ..options import AuthSecret, ConsumerOptions, ProducerOptions
from ..policy.delays import PollSchedule
from ..policy.lookup_answers import Directory
from ..policy.warnings import PATIENCE, Repeats
from ..transport.tls_context import client_context, tls_options

LookupOptions: TypeAlias = ConsumerOptions | ProducerOptions
"""Options that include those of ``nsq_anyio.options.lookup``."""

_LEAST_INTERVAL = 1.0
"""The shortest time in seconds from one poll to another that `poll_soon` brings forward."""
_PATIENCE = 0.5
"""Seconds that a quick poll waits for the other nsqlookupds once one has answered."""


def lookup_clients(
    urls: Sequence[str], options: LookupOptions, auth_secret: AuthSecret | None
) -> list[Nsqlookupd]:
    """Return a client for each URL.

    :raises InvalidOption: if a file of ``lookupd_tls`` cannot be used, or there is no secret to send
    """
    # A client without a context loads the system's authorities when it is opened, in a thread.
    tls = None if isinstance(options.lookupd_tls, bool) else tls_options(options.lookupd_tls)
    context = None if tls is None else client_context(tls)
    return [
        Nsqlookupd(
            url,
            timeout=options.lookupd_poll_timeout,
            authorization=_authorization(url, options, auth_secret),
            ssl_context=context,
            server_hostname=None if tls is None else tls.server_hostname,
        )
        for url in urls
    ]


def _authorization(url: str, options: LookupOptions, auth_secret: AuthSecret | None) -> Authorization | None:
    if not options.lookupd_authorization:
        return None
    if auth_secret is None:
        raise InvalidOption(
            "lookupd_authorization=True without a secret: set ConnectionOptions(auth_secret=...)"
        )
    return bearer(auth_secret, url)


class Discovery:
    """Polls nsqlookupds. Subclasses decide what to ask them.

    :param urls: the HTTP URLs of the nsqlookupds
    :param auth_secret: the secret of the connections, sent to nsqlookupds if ``lookupd_authorization`` is set
    :ivar directory: the last answer of each nsqlookupd
    :raises InvalidOption: if a file of ``lookupd_tls`` cannot be used, or there is no secret to send
    """

    def __init__(
        self,
        urls: Sequence[str],
        *,
        options: LookupOptions,
        emit: Emitter,
        auth_secret: AuthSecret | None = None,
    ) -> None:
        self.directory: Directory[Address] = Directory()
        self._emit = emit
        self._lookupds = lookup_clients(urls, options, auth_secret)
        self._schedule = PollSchedule(options.lookupd_poll_interval, options.lookupd_poll_jitter)
        self._soon = anyio.Event()
        self._soon_since = -math.inf  # when `poll_soon` was called last
        self._asking: set[str] = set()  # nsqlookupds that have not answered yet
        self._answered: set[str] = set()  # nsqlookupds that have answered since the last round ended
        self._answer = anyio.Event()
        self._rng = random.Random()
        self._failed: dict[str, list[Exception]] = {}  # by nsqlookupd, at its last answer
        self._reported: dict[str, tuple[list[str], Repeats]] = {}  # the failures that were logged
        self._was_found = False
        self._missed_since = math.inf  # when the first answer listed no nsqd; infinity while some list one
        self._is_missed = False  # whether that was reported

    def poll_soon(self) -> None:
        """Poll soon, before the interval is over, because a connection was lost."""
        self._soon_since = anyio.current_time()
        self._soon.set()
        self._answer.set()

    def why_nothing(self) -> str:
        """Return, as text, why each nsqlookupd has named no nsqd."""
        return "; ".join(
            str(self._failed[each.url][0])
            if self._failed.get(each.url)
            else f"nsqlookupd {each.url}: {self._state(each.url)}"
            for each in self._lookupds
        )

    def _state(self, url: str) -> str:
        return "it names no nsqd" if url in self._failed else "it has not answered yet"

    async def run(
        self,
        changed: Callable[[], None],
        polled: Callable[[], None],
        is_connected: Callable[[], bool],
    ) -> None:
        """Poll until cancelled. Call ``changed`` after each answer or failure, ``polled`` after each round.

        :param is_connected: returns whether any nsqd is connected; then polls need not be quick
        """
        async with AsyncExitStack() as stack:
            for lookupd in self._lookupds:
                await stack.enter_async_context(lookupd)
            tasks = await stack.enter_async_context(anyio.create_task_group())
            while True:
                self._soon = anyio.Event()
                for lookupd in self._lookupds:
                    if lookupd.url not in self._asking:
                        self._asking.add(lookupd.url)
                        tasks.start_soon(self._poll, lookupd, changed)
                await self._wait_for_answers()
                found = bool(self.directory.wanted())
                # The jitter keeps clients that start together from polling together.
                spread = self._rng.uniform(-1, 1)
                delay = self._schedule.delay(found=found or is_connected(), spread=spread)
                self._report(found, delay)
                polled()
                least = min(_LEAST_INTERVAL, delay)
                await anyio.sleep(least)
                with anyio.move_on_after(delay - least):
                    await self._soon.wait()

    async def _wait_for_answers(self) -> None:
        """Wait for all nsqlookupds; if another poll is to follow soon, wait only briefly for late ones.

        A later answer is used at once, and reported with the next round.
        """
        with anyio.CancelScope() as scope:
            while self._asking:
                finds_nothing = self._schedule.is_quick and not self.directory.wanted()
                if not (finds_nothing or self._soon.is_set()):
                    scope.deadline = math.inf
                elif self._answered:
                    scope.deadline = min(scope.deadline, anyio.current_time() + _PATIENCE)
                self._answer = anyio.Event()
                await self._answer.wait()

    async def _poll(self, lookupd: Nsqlookupd, changed: Callable[[], None]) -> None:
        asked = anyio.current_time()
        await self._poll_one(lookupd, asked)
        changed()
        self._asking.discard(lookupd.url)
        self._answered.add(lookupd.url)
        self._answer.set()
        if asked < self._soon_since:
            self._soon.set()  # asked before `poll_soon` was called, so it may be out of date

    async def _poll_one(self, lookupd: Nsqlookupd, asked: float) -> None:
        name = lookupd.url
        try:
            producers = await self._ask(lookupd)
        except HTTPError as error:
            self._failed[name] = [error]
            self.directory.failed(name, anyio.current_time())
            return
        failed: list[Exception] = []
        nsqds: dict[Address, Producer] = {}
        for producer in producers:
            try:
                nsqds[producer.address] = producer
            except InvalidAddress as error:
                failed.append(error)
        self._failed[name] = failed
        self._emit(LookupDone(name, tuple(map(str, nsqds)), **self._emit.connection_source))
        self.directory.answered(name, nsqds, asked)
        self._note(name, nsqds)

    def _report(self, found: bool, delay: float) -> None:
        """Emit the failures of a round; report once if no nsqd has been listed for long."""
        now = anyio.current_time()
        for name in sorted(self._answered):
            failed = self._failed[name]
            texts = list(map(str, failed))
            reported, repeats = self._reported.get(name, ([], Repeats()))
            if texts != reported:
                repeats = Repeats()
            self._reported[name] = texts, repeats
            emit = self._emit if repeats.due(now) else self._emit.to_hook
            for error in failed:
                emit(LookupFailed(name, error, delay, **self._emit.connection_source))
        self._answered.clear()
        if found:
            self._was_found, self._missed_since, self._is_missed = True, math.inf, False
        elif not all(self._failed.values()):
            self._missed_since = min(self._missed_since, now)
            if not self._is_missed and now - self._missed_since >= PATIENCE:
                self._is_missed = True
                self._emit(self._missed(delay, was_found=self._was_found))

    # For subclasses

    async def _ask(self, lookupd: Nsqlookupd) -> Sequence[Producer]:
        """Ask one nsqlookupd for nsqds.

        :raises HTTPError: if it does not answer
        """
        raise NotImplementedError

    def _note(self, nsqlookupd: str, nsqds: dict[Address, Producer]) -> None:
        """Record the parts of an answer beyond the addresses."""

    def _missed(self, retry_in: float, *, was_found: bool) -> Event:
        """Return the event that reports that the nsqlookupds answered, but listed no nsqd."""
        raise NotImplementedError
