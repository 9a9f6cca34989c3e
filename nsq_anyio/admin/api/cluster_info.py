"""Questions and commands to the servers of a cluster, with nsqadmin's rules for failures.

A question fails if no server answers it. If only some servers fail, their errors become a warning. So a 404
from one nsqlookupd is a warning, and a 404 from all of them is an error, unlike in `nsq_anyio.http.Cluster`.
Only nsqds that were given, or that an nsqlookupd lists, are asked. Besides nsqadmin's warnings, the results
of commands on each server are kept, with those of the questions that they need.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Literal, TypeAlias, TypeVar

import anyio

from ...errors import HTTPError, HTTPInvalidReply, HTTPStatusError, HTTPUnavailable
from ...http import Nsqd, Nsqlookupd, Stats
from ...http.client import was_reached
from ...http.cluster import NOT_FOUND
from ...http.servers import Answers, Servers
from ...serving.http_messages import phrase
from .nsqds import KnownNsqd, shown_server, unite
from .statistics import Row, topic_row

_log = logging.getLogger(__name__)

T = TypeVar("T")

Holders: TypeAlias = Callable[[str, str], Sequence[KnownNsqd]]
"""Returns the nsqds that had a topic, or its channel unless that is empty."""

_MOST_LISTED = 100
_UNUSABLE = "registered no usable HTTP address"


class UpstreamError(Exception):
    """No server answered. The error's text is nsqadmin's."""


class UnknownNode(Exception):
    """No server knows an nsqd of this name, so none is asked."""


class ClusterInfo:
    """Asks the servers on behalf of one request.

    :param holders: returns the nsqds that had a topic, or its channel, when they last answered a poll.
        nsqlookupds do not list nsqds that are down or tombstoned. Without it, only listed ones are asked
    :ivar warnings: the failures: one text for each question, and one for each server that failed a command
    :ivar results: the results on each server, of commands and of the questions that they need
    """

    def __init__(self, servers: Servers, holders: Holders | None = None) -> None:
        self._servers = servers
        self._holders = holders
        self.warnings: list[str] = []
        self.results: list[StepResult] = []

    @property
    def nsqlookupds(self) -> tuple[str, ...]:
        """The names of the nsqlookupds."""
        return tuple(map(shown_server, self._servers.nsqlookupds))

    def log_warnings(self) -> None:
        """Write the warnings to the log, if there are any."""
        if self.warnings:
            _log.warning("%s", listed(self.warnings, "; "))

    async def topics(self) -> list[str]:
        """List all topics, sorted."""

        async def of_nsqd(nsqd: Nsqd) -> tuple[str, ...]:
            stats = await nsqd.stats(include_clients=False, include_mem=False)
            return tuple(topic.topic_name for topic in stats.topics)

        found = await self._ask_given(Nsqlookupd.topics, of_nsqd)
        return sorted({topic for topics in found for topic in topics})

    async def inactive_topics(self, topics: Iterable[str]) -> dict[str, list[str] | None]:
        """Return the ``topics`` that no nsqd has untombstoned, with the channels that nsqlookupds know."""
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

    async def nsqd_named(self, name: str) -> KnownNsqd:
        """Return the nsqd with this name. An IPv6 address in the name may lack its brackets.

        :raises UnknownNode: if no server knows it
        """
        for nsqd in await self.nsqds():
            if name in (nsqd.name, nsqd.producer.node):
                return nsqd
        raise UnknownNode(name)

    async def nsqds_of(self, topic: str, channel: str = "") -> list[KnownNsqd]:
        """List the nsqds that have a topic.

        :param channel: the channel that remembered nsqds must have had; empty for the topic alone
        """

        async def of_nsqlookupd(nsqlookupd: Nsqlookupd) -> list[KnownNsqd]:
            reply = await nsqlookupd.lookup(topic)
            return [KnownNsqd.registered(each, nsqlookupd.url) for each in reply.producers]

        async def of_nsqd(nsqd: Nsqd) -> list[KnownNsqd]:
            stats = await nsqd.stats(topic=topic, include_clients=False, include_mem=False)
            if all(found.topic_name != topic for found in stats.topics):
                return []
            return [KnownNsqd.asked(nsqd.url, await nsqd.info(), ())]

        # Each nsqd that was given is asked in any case.
        held = self._holders(topic, channel) if self._holders and self._servers.has_nsqlookupds else ()
        try:
            found = await self._ask_given(of_nsqlookupd, of_nsqd)
        except UpstreamError:
            if not held:
                raise
            found = ()
        return unite(chain(chain.from_iterable(found), held))

    async def stats(
        self,
        nsqds: Sequence[KnownNsqd],
        topic: str | None = None,
        channel: str | None = None,
        *,
        clients: bool = False,
    ) -> list[Row]:
        """Ask nsqds for the statistics of their topics, or of one; a row for each topic and nsqd."""

        answers = await self.ask_stats(nsqds, topic, channel, clients=clients)
        errors = [*map(_text, answers.failures.values()), *_unusable(nsqds)]
        self._judge("nsqd", errors, len(nsqds))
        by_url = {nsqd.url: nsqd for nsqd in nsqds}
        return [
            topic_row(by_url[url].name, by_url[url].producer.hostname, found, clients=clients)
            for url, stats in answers.values.items()
            for found in stats.topics
            if topic in (None, found.topic_name)
        ]

    async def ask_stats(
        self, nsqds: Sequence[KnownNsqd], topic: str | None, channel: str | None, *, clients: bool
    ) -> Answers[Stats]:
        """Return the statistics of nsqds by URL. nsqds without a usable URL are not asked.

        The parameters are those of `stats`.
        """

        async def ask(nsqd: Nsqd) -> Stats:
            return await nsqd.stats(topic=topic, channel=channel, include_clients=clients, include_mem=False)

        return await self._servers.ask_nsqds([nsqd.url for nsqd in nsqds if nsqd.url], ask)

    async def tell_nsqlookupds(self, call: Callable[[Nsqlookupd], Awaitable[None]]) -> None:
        """Send a command to all nsqlookupds; failures become warnings."""
        self._note("nsqlookupd", await self._servers.ask_nsqlookupds(call))

    async def tell(self, nsqds: Sequence[KnownNsqd], call: Callable[[Nsqd], Awaitable[None]]) -> None:
        """Send a command to nsqds; failures become warnings."""
        names = {nsqd.url: nsqd.name for nsqd in nsqds if nsqd.url}
        answers = await self._servers.ask_nsqds(names, call)
        # An nsqd may have lost a topic since the last poll.
        gone = [
            nsqd.url for nsqd in nsqds if nsqd.is_remembered and _is_absence(answers.failures.get(nsqd.url))
        ]
        failures = {url: error for url, error in answers.failures.items() if url not in gone}
        self._note("nsqd", Answers(answers.values, failures), names)
        self.warnings += _unusable(nsqds)
        self.results += [
            StepResult("nsqd", nsqd.name, HTTPInvalidReply(nsqd.name, _UNUSABLE))
            for nsqd in nsqds
            if not nsqd.url
        ]

    async def create(self, topic: str, channel: str) -> None:
        """Create a topic, and a channel unless ``channel`` is empty.

        nsqlookupds register both, and nsqds that have the topic create the channel. nsqadmin does nothing if
        nsqds were given in place of nsqlookupds; here they create both.
        """
        await self.tell_nsqlookupds(lambda nsqlookupd: nsqlookupd.create_topic(topic))
        if not self._servers.has_nsqlookupds:
            create = partial(_create, topic, channel)
            self._note("nsqd", await self._servers.ask_nsqds(self._servers.nsqds, create))
        elif channel:
            await self.tell_nsqlookupds(lambda nsqlookupd: nsqlookupd.create_channel(topic, channel))
            nsqds = await self.nsqds_of(topic)
            await self.tell(nsqds, lambda nsqd: nsqd.create_channel(topic, channel))

    async def _ask_given(
        self, of_nsqlookupd: Callable[[Nsqlookupd], Awaitable[T]], of_nsqd: Callable[[Nsqd], Awaitable[T]]
    ) -> Iterable[T]:
        kind: ServerKind = "nsqlookupd" if self._servers.has_nsqlookupds else "nsqd"
        if kind == "nsqlookupd":
            answers = await self._servers.ask_nsqlookupds(of_nsqlookupd)
        else:
            answers = await self._servers.ask_nsqds(self._servers.nsqds, of_nsqd)
        self.results += _results(kind, answers, {}, is_question=True)
        errors = [_text(error) for error in answers.failures.values()]
        self._judge(kind, errors, len(errors) + len(answers.values))
        return answers.values.values()

    def _judge(self, kind: str, errors: list[str], asked: int) -> None:
        text = listed(errors, "\n")
        if len(errors) == asked:  # true if there is no server to ask, as in nsqadmin
            raise UpstreamError(f"failed to query any {kind}: {text}")
        if errors:
            self.warnings.append(text)

    def _note(self, kind: ServerKind, answers: Answers[None], names: Mapping[str, str] | None = None) -> None:
        self.warnings += map(_text, answers.failures.values())
        self.results += _results(kind, answers, names or {})


async def _create(topic: str, channel: str, nsqd: Nsqd) -> None:
    await nsqd.create_topic(topic)
    if channel:
        await nsqd.create_channel(topic, channel)


def _results(
    kind: ServerKind, answers: Answers[Any], names: Mapping[str, str], *, is_question: bool = False
) -> list[StepResult]:
    """Return the results of one step. ``names`` maps URLs to names; other servers are named by their URLs."""
    errors: dict[str, HTTPError | None] = {**dict.fromkeys(answers.values), **answers.failures}
    return [
        StepResult(kind, names.get(url, shown_server(url)), error, is_question)
        for url, error in errors.items()
    ]


def _is_absence(error: HTTPError | None) -> bool:
    return isinstance(error, HTTPStatusError) and error.code in NOT_FOUND


def _unusable(nsqds: Iterable[KnownNsqd]) -> list[str]:
    return [f"nsqd {nsqd.name!r} {_UNUSABLE}" for nsqd in nsqds if not nsqd.url]


def listed(problems: Sequence[str], separator: str) -> str:
    """Join problems. Anybody can register nsqds that cause them, so there may be very many."""
    more = len(problems) - _MOST_LISTED
    shown = separator.join(problems[:_MOST_LISTED])
    return f"{shown}{separator}and {more} more" if more > 0 else shown


def _text(error: HTTPError) -> str:
    """Return the text of an error: nsqadmin's text if the server answered in NSQ's format."""
    if not isinstance(error, HTTPStatusError) or not error.code:
        return str(error)
    return f'got response {error.status} {phrase(error.status)} "{{\\"message\\":\\"{error.code}\\"}}"'


ServerKind = Literal["nsqlookupd", "nsqd"]

State = Literal["done", "absent", "failed"]
"""``absent``: the server does not have the topic or channel."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """One step of an action on one server.

    :ivar kind: the kind of server
    :ivar server: ``host:port`` of its HTTP API, or its URL if that does not begin with ``http://``
    :ivar error: why the step failed; None if it did not
    :ivar is_question: whether the step only asked which nsqds have the topic
    """

    kind: ServerKind
    server: str
    error: HTTPError | None = None
    is_question: bool = False

    @property
    def state(self) -> State:
        """The result of the step."""
        if self.error is None:
            return "done"
        return "absent" if _is_absence(self.error) else "failed"

    @property
    def reason(self) -> str:
        """Why the step failed, in words; empty if it did not."""
        if self.error is None or self.state == "absent":
            return ""
        if self.is_question:
            return f"It did not say which nsqds have the topic: {self.error.reason}."
        if isinstance(self.error, HTTPUnavailable) and not was_reached(self.error):
            return f"It was not reached: {self.error.reason}."
        if isinstance(self.error, HTTPUnavailable):
            return f"It did not answer, and may have done it all the same: {self.error.reason}."
        return f"{self.error.reason}."


@dataclass(frozen=True, slots=True)
class ServerResult:
    """The result of a whole action on one server.

    :ivar reasons: why it failed, as whole sentences; empty if it did not
    """

    kind: ServerKind
    server: str
    state: State
    reasons: tuple[str, ...] = ()


def by_server(steps: Iterable[StepResult]) -> tuple[ServerResult, ...]:
    """Merge the steps of an action into one result for each server, nsqlookupds first.

    A server has failed if any step failed there. Answered questions are left out.
    """
    by_server: dict[tuple[ServerKind, str], list[StepResult]] = {}
    for each in steps:
        if not (each.is_question and each.state == "done"):
            by_server.setdefault((each.kind, each.server), []).append(each)
    found = [
        ServerResult(kind, server, _worst(steps), tuple(dict.fromkeys(filter(None, map(_reason, steps)))))
        for (kind, server), steps in by_server.items()
    ]
    return tuple(sorted(found, key=lambda each: (each.kind != "nsqlookupd", each.server)))


def _worst(steps: list[StepResult]) -> State:
    states = {step.state for step in steps}
    return "failed" if "failed" in states else "done" if "done" in states else "absent"


def _reason(step: StepResult) -> str:
    return step.reason
