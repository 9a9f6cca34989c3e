"""Find the nsqds that have a topic: poll all nsqlookupds in parallel."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

import anyio

from ..address import Address
from ..connection.bearer import bearer
from ..errors import (
    HTTPError,
    HTTPStatusError,
    InvalidAddress,
    InvalidOption,
)
from ..events import Emitter, LookupDone, LookupFailed
from ..http import Authorization, Nsqlookupd
from ..options import AuthSecret, ConsumerOptions
from ..policy.reconcile import Directory
from ..transport.tls_context import client_context, tls_options

__all__ = ["Discovery"]

_LEAST_INTERVAL = 1.0
"""The minimum seconds between two polls, however often connections are lost."""


class Discovery:
    """Polls nsqlookupds for one topic.

    :param urls: the HTTP URLs of the nsqlookupds
    :param auth_secret: the connections' secret, which is sent to nsqlookupds with ``lookupd_authorization``
    :ivar directory: the last answer of each nsqlookupd
    :raises InvalidOption: if a file of ``lookupd_tls`` cannot be used, or there is no secret to send
    """

    def __init__(
        self,
        topic: str,
        urls: Sequence[str],
        *,
        options: ConsumerOptions,
        emit: Emitter,
        auth_secret: AuthSecret | None = None,
    ) -> None:
        self.directory: Directory[Address] = Directory()
        self._topic = topic
        self._options = options
        self._emit = emit
        self._lookupds = _clients(urls, options, auth_secret)
        self._soon = anyio.Event()
        self._rng = random.Random()

    def poll_soon(self) -> None:
        """Poll before the interval is over, because a connection was lost."""
        self._soon.set()

    async def run(self, changed: Callable[[], None], polled: Callable[[], None]) -> None:
        """Poll until cancelled. Call ``changed`` after each answer, and ``polled`` after each round."""
        options = self._options
        async with AsyncExitStack() as stack:
            for lookupd in self._lookupds:
                await stack.enter_async_context(lookupd)
            while True:
                self._soon = anyio.Event()
                async with anyio.create_task_group() as tasks:
                    for lookupd in self._lookupds:
                        tasks.start_soon(self._poll, lookupd, changed)
                # Even if all nsqlookupds fail: their last answers stay in force, and may list an nsqd whose
                # connection was lost.
                changed()
                polled()
                # The jitter keeps consumers that start together from polling together.
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
            producers = ()  # not an error: nothing has been published to the topic yet
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


def _clients(
    urls: Sequence[str], options: ConsumerOptions, auth_secret: AuthSecret | None
) -> list[Nsqlookupd]:
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


def _authorization(
    url: str, options: ConsumerOptions, auth_secret: AuthSecret | None
) -> Authorization | None:
    if not options.lookupd_authorization:
        return None
    if auth_secret is None:
        raise InvalidOption(
            "lookupd_authorization=True without a secret: set ConnectionOptions(auth_secret=...)"
        )
    return bearer(auth_secret, url)
