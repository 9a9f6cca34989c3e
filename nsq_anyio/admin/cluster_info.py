"""What the servers of a cluster answer, and actions on them, with nsqadmin's rules for failures.

A question fails if no server answers it. If some do not, their errors become a warning. Only nsqds that were
given, or that an nsqlookupd names, are asked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

import anyio

from ..errors import HTTPError, HTTPStatusError
from ..http import Nsqd, Nsqlookupd
from ..http.fan_out import Answers
from ..http.servers import Servers
from ..serving.http_messages import phrase
from .producers import KnownNsqd, unite
from .rows import Row, topic_row

__all__ = ["ClusterInfo", "UpstreamError"]

T = TypeVar("T")


class UpstreamError(Exception):
    """No server answered; the text is nsqadmin's."""


class ClusterInfo:
    """Asks the servers on behalf of one request.

    :ivar warnings: what went wrong beside the answers, a text for each question
    """

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self.warnings: list[str] = []

    async def topics(self) -> list[str]:
        """List all topics, sorted."""

        async def of_nsqd(nsqd: Nsqd) -> tuple[str, ...]:
            stats = await nsqd.stats(include_clients=False, include_mem=False)
            return tuple(topic.topic_name for topic in stats.topics)

        found = await self._ask_given(Nsqlookupd.topics, of_nsqd)
        return sorted({topic for topics in found for topic in topics})

    async def inactive_topics(self, topics: Iterable[str]) -> dict[str, list[str] | None]:
        """Return those of ``topics`` that no nsqd has, with their channels in the nsqlookupds."""
        if not self._servers.has_nsqlookupds:
            return {}
        answers = await self._servers.ask_nsqlookupds(Nsqlookupd.nodes)
        nsqds = [KnownNsqd.registered(each, "") for found in answers.values.values() for each in found]
        active = {topic for nsqd in nsqds for topic, is_tombstoned in nsqd.topics if not is_tombstoned}
        channels: dict[str, list[str] | None] = {}

        async def ask(topic: str) -> None:
            found = await self._servers.ask_nsqlookupds(lambda nsqlookupd: nsqlookupd.channels(topic))
            channels[topic] = sorted({each for names in found.values.values() for each in names}) or None

        async with anyio.create_task_group() as tasks:
            for topic in topics:
                if topic not in active:
                    tasks.start_soon(ask, topic)
        return dict(sorted(channels.items()))

    async def nsqds(self) -> list[KnownNsqd]:
        """List all nsqds."""

        async def of_nsqlookupd(nsqlookupd: Nsqlookupd) -> list[KnownNsqd]:
            return [KnownNsqd.registered(each, nsqlookupd.url) for each in await nsqlookupd.nodes()]

        async def of_nsqd(nsqd: Nsqd) -> list[KnownNsqd]:
            info = await nsqd.info()
            stats = await nsqd.stats(include_clients=False, include_mem=False)
            return [KnownNsqd.asked(nsqd.url, info, [topic.topic_name for topic in stats.topics])]

        found = await self._ask_given(of_nsqlookupd, of_nsqd)
        return unite(nsqd for nsqds in found for nsqd in nsqds)

    async def nsqds_of(self, topic: str) -> list[KnownNsqd]:
        """List the nsqds that have a topic."""

        async def of_nsqlookupd(nsqlookupd: Nsqlookupd) -> list[KnownNsqd]:
            reply = await nsqlookupd.lookup(topic)
            return [KnownNsqd.registered(each, nsqlookupd.url) for each in reply.producers]

        async def of_nsqd(nsqd: Nsqd) -> list[KnownNsqd]:
            stats = await nsqd.stats(topic=topic, include_clients=False, include_mem=False)
            if all(found.topic_name != topic for found in stats.topics):
                return []
            return [KnownNsqd.asked(nsqd.url, await nsqd.info(), ())]

        found = await self._ask_given(of_nsqlookupd, of_nsqd)
        return unite(nsqd for nsqds in found for nsqd in nsqds)

    async def stats(
        self,
        nsqds: Sequence[KnownNsqd],
        topic: str | None = None,
        channel: str | None = None,
        *,
        clients: bool = False,
    ) -> list[Row]:
        """Ask nsqds for the statistics of their topics, or of one; a row for each topic and nsqd."""

        async def ask(nsqd: Nsqd) -> list[Row]:
            stats = await nsqd.stats(topic=topic, channel=channel, include_clients=clients, include_mem=False)
            known = by_url[nsqd.url]
            return [
                topic_row(known.name, known.producer.hostname, found, clients=clients)
                for found in stats.topics
                if topic in (None, found.topic_name)
            ]

        by_url = {nsqd.url: nsqd for nsqd in nsqds if nsqd.url}
        answers = await self._servers.ask_nsqds(by_url, ask)
        errors = [*map(_text, answers.failures.values()), *_unusable(nsqds)]
        self._judge("nsqd", errors, len(nsqds))
        return [row for rows in answers.values.values() for row in rows]

    async def tell_nsqlookupds(self, call: Callable[[Nsqlookupd], Awaitable[None]]) -> None:
        """Send a command to all nsqlookupds; failures become warnings."""
        self._warn(await self._servers.ask_nsqlookupds(call))

    async def tell(self, nsqds: Sequence[KnownNsqd], call: Callable[[Nsqd], Awaitable[None]]) -> None:
        """Send a command to nsqds; failures become warnings."""
        answers = await self._servers.ask_nsqds([nsqd.url for nsqd in nsqds if nsqd.url], call)
        self._warn(answers, _unusable(nsqds))

    async def create(self, topic: str, channel: str) -> None:
        """Create a topic, and a channel unless ``channel`` is empty.

        nsqlookupds register both, and nsqds that have the topic create the channel. nsqadmin does nothing if
        nsqds were given in place of nsqlookupds; here they create both.
        """
        await self.tell_nsqlookupds(lambda nsqlookupd: nsqlookupd.create_topic(topic))
        if not self._servers.has_nsqlookupds:
            self._warn(await self._servers.ask_nsqds(self._servers.nsqds, partial(_create, topic, channel)))
        elif channel:
            await self.tell_nsqlookupds(lambda nsqlookupd: nsqlookupd.create_channel(topic, channel))
            nsqds = await self.nsqds_of(topic)
            await self.tell(nsqds, lambda nsqd: nsqd.create_channel(topic, channel))

    async def _ask_given(
        self, of_nsqlookupd: Callable[[Nsqlookupd], Awaitable[T]], of_nsqd: Callable[[Nsqd], Awaitable[T]]
    ) -> Iterable[T]:
        if self._servers.has_nsqlookupds:
            kind, answers = "nsqlookupd", await self._servers.ask_nsqlookupds(of_nsqlookupd)
        else:
            kind, answers = "nsqd", await self._servers.ask_nsqds(self._servers.nsqds, of_nsqd)
        errors = [_text(error) for error in answers.failures.values()]
        self._judge(kind, errors, len(errors) + len(answers.values))
        return answers.values.values()

    def _judge(self, kind: str, errors: list[str], asked: int) -> None:
        if len(errors) == asked:  # which nsqadmin finds as well if there was nobody to ask
            raise UpstreamError(f"failed to query any {kind}: " + "\n".join(errors))
        if errors:
            self.warnings.append("\n".join(errors))

    def _warn(self, answers: Answers[None], more: Iterable[str] = ()) -> None:
        self.warnings += [*map(_text, answers.failures.values()), *more]


async def _create(topic: str, channel: str, nsqd: Nsqd) -> None:
    await nsqd.create_topic(topic)
    if channel:
        await nsqd.create_channel(topic, channel)


def _unusable(nsqds: Iterable[KnownNsqd]) -> list[str]:
    return [f"nsqd {nsqd.name!r} registered no usable HTTP address" for nsqd in nsqds if not nsqd.url]


def _text(error: HTTPError) -> str:
    """Return an error in nsqadmin's words, where it has an answer in NSQ's format."""
    if not isinstance(error, HTTPStatusError) or not error.code:
        return str(error)
    return f'got response {error.status} {phrase(error.status)} "{{\\"message\\":\\"{error.code}\\"}}"'
