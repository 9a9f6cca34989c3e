"""Whether a channel that vanishes again would take messages away that wait in a topic.

A topic without channels keeps its messages for the first one; an ephemeral channel drops them when it goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import anyio

from ...address import Address
from ...errors import InvalidAddress, NSQError
from ...http import Cluster, Nsqd, TopicStats
from ...transport.tls_context import client_context, tls_options
from ..flags.connection import ConsumerFlags
from ..flags.source import Source

__all__ = ["DrainCheck"]

_TIMEOUT = 3.0


@dataclass(frozen=True, slots=True)
class DrainCheck:
    """Asks the HTTP sides of the nsqds.

    :param nsqds: their URLs; without any, nsqlookupds tell them, or the port after nsqd's TCP port is tried,
        which is the HTTP port by default
    """

    source: Source
    consumer: ConsumerFlags
    nsqds: Sequence[str]

    async def problems(self, topics: Sequence[str]) -> list[str]:
        """What would be lost, or cannot be told, one a topic and nsqd."""
        problems: list[str] = []
        urls: list[str] = []
        if not self.source.nsqlookupd and not self.nsqds:
            urls, problems = await self._guessed()
        if problems:
            return problems
        tls = tls_options(self.consumer.options.lookupd_tls)
        context = None if tls is None else client_context(tls)
        nsqds = [*self.nsqds, *urls]
        async with Cluster(
            self.source.nsqlookupd or (), nsqds, ssl_context=context, timeout=_TIMEOUT
        ) as cluster:
            for topic in topics:
                problems += await _of_topic(cluster, topic)
        return problems

    async def _guessed(self) -> tuple[list[str], list[str]]:
        """The HTTP sides of the nsqds that are given by their TCP sides, and those that cannot be told."""
        urls: list[str] = []
        problems: list[str] = []

        async def guess(text: str) -> None:
            url = await _http_side(text)
            if url is None:
                problems.append(
                    f"the HTTP side of nsqd {text} is not known, so it cannot be asked: name it with "
                    "--nsqd-http-address"
                )
            else:
                urls.append(url)

        async with anyio.create_task_group() as tasks:
            for text in self.source.nsqd or ():
                tasks.start_soon(guess, text)
        return urls, problems


async def _http_side(text: str) -> str | None:
    try:
        address = Address.parse(text)
        url = str(Address(address.host, address.port + 1))
        async with Nsqd(url, timeout=_TIMEOUT) as nsqd:
            info = await nsqd.info()
    except (InvalidAddress, NSQError):  # a unix socket, or nobody's port
        return None
    return url if info.tcp_port == address.port else None  # else it is another nsqd's


async def _of_topic(cluster: Cluster, topic: str) -> list[str]:
    try:
        reply = await cluster.topic_stats(topic)
    except NSQError as error:
        return [str(error)]
    found = [f"{failure}" for failure in reply.failures]
    return found + [_drained(url, row) for url, row in reply.value.nodes.items() if _is_drained(row)]


def _is_drained(row: TopicStats) -> bool:
    return not row.channels and row.depth > 0


def _drained(url: str, row: TopicStats) -> str:
    messages = "1 message waits" if row.depth == 1 else f"{row.depth:,} messages wait"
    return f"topic {row.topic_name} has no channel at {url}, where {messages}"
