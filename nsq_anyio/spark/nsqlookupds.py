"""nsqlookupd clients, and discovery of the nsqds to publish to.

This module imports httpx, which takes long, so `publishing` imports it only when needed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from ..connection.auth_secret import bearer
from ..errors import InvalidAddress
from ..http import ClusterFailed, Nsqlookupd, Producer
from ..http.servers import FanOut
from .options import SharedOptions, WriteOptions

T = TypeVar("T")

_NSQLOOKUPDS_AT_ONCE = 64

_log = logging.getLogger("nsq_anyio.spark")


def nsqlookupd_clients(options: SharedOptions) -> list[Nsqlookupd]:
    """Return a client, not yet opened, for each nsqlookupd of the options.

    :raises InvalidOption: if a file that the options name cannot be used
    """
    context = options.ssl_context() if options.https_urls else None
    secret = options.secret() if options.lookupd_authorization else None
    return [
        Nsqlookupd(
            url,
            timeout=options.http_timeout,
            ssl_context=context,
            authorization=None if secret is None else bearer(secret, url),
        )
        for url in options.nsqlookupds
    ]


async def known_nsqds(options: WriteOptions) -> list[str]:
    """Return the addresses of all nsqds that the nsqlookupds know.

    :raises ClusterFailed: if no nsqlookupd answers, or none knows an nsqd
    """
    clients = nsqlookupd_clients(options)
    fan_out = FanOut(options.http_timeout, _NSQLOOKUPDS_AT_ONCE)
    answers = await fan_out.ask({client.url: partial(_nodes, client) for client in clients})
    found = sorted({nsqd for nsqds in answers.values.values() for nsqd in nsqds})
    if not found:
        raise ClusterFailed(
            [client.url for client in clients],
            "no nsqd to publish to is known",
            tuple(answers.failures.values()),
        )
    return found


async def _nodes(nsqlookupd: Nsqlookupd) -> list[str]:
    async with nsqlookupd:
        return of_reachable(nsqlookupd.url, await nsqlookupd.nodes(), lambda nsqd: str(nsqd.address))


def of_reachable(nsqlookupd: str, nsqds: Iterable[Producer], address: Callable[[Producer], T]) -> list[T]:
    """Return an address of each nsqd that an nsqlookupd names; log those that have no valid one."""
    found: list[T] = []
    for nsqd in nsqds:
        try:
            found.append(address(nsqd))
        except InvalidAddress as error:
            _log.warning("nsqlookupd %s names an nsqd that cannot be reached: %s", nsqlookupd, error)
    return found
