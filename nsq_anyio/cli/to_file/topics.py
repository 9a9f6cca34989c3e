"""Which topics are archived."""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...checks import check_seconds
from ...errors import InvalidOption
from ...http import Cluster, ClusterReply
from ...names import check_topic, is_valid_name

if TYPE_CHECKING:
    from ...pattern import Pattern

__all__ = ["Topics"]

_log = logging.getLogger("nsq_anyio.to_file")


@dataclass(frozen=True, slots=True, kw_only=True)
class Topics:
    """The topics that are named, or else all that nsqlookupds list; of these, the ones that match.

    :param named: empty for those that are listed
    :param pattern: found anywhere in the names that match; None for all
    :param nsqlookupds: URLs; empty where topics are named and nsqds are known
    :param refresh_interval: seconds after which listed topics are asked for again
    :param timeout: seconds for an nsqlookupd's answer
    :param ssl_context: for those with https; None trusts the system's authorities
    :raises InvalidName: for a name that is none
    :raises InvalidOption: if that makes no topics
    """

    named: tuple[str, ...]
    pattern: Pattern | None
    nsqlookupds: tuple[str, ...]
    refresh_interval: float
    timeout: float
    ssl_context: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        check_seconds("topic_refresh", self.refresh_interval, 0.01)
        for topic in self.named:
            check_topic(topic)
        if not self.named and self.pattern is None:
            raise InvalidOption("no topic: use --topic, or --topic-pattern for those that nsqlookupd lists")
        if not self.named and not self.nsqlookupds:
            raise InvalidOption("--topic-pattern needs --lookupd-http-address, or --topic to choose from")
        if self.named and not any(map(self._matches, self.named)):
            raise InvalidOption("no --topic matches --topic-pattern")

    @property
    def are_listed(self) -> bool:
        """Whether nsqlookupds say which topics there are."""
        return not self.named

    async def first(self) -> tuple[str, ...]:
        """The topics to begin with.

        :raises ClusterFailed: if they are listed, and no nsqlookupd answers
        """
        if self.named:
            return self._matching(self.named)
        reply = await self.listed()
        for failure in reply.failures:
            _log.warning("cannot list all topics: %s", failure)
        return reply.value

    async def listed(self) -> ClusterReply[tuple[str, ...]]:
        """The topics that nsqlookupds list now, and which of these failed.

        :raises ClusterFailed: if all fail
        """
        async with Cluster(self.nsqlookupds, timeout=self.timeout, ssl_context=self.ssl_context) as cluster:
            reply = await cluster.topics()
        return ClusterReply(self._matching(reply.value), reply.failures)

    def _matching(self, topics: tuple[str, ...]) -> tuple[str, ...]:
        # A server's word alone must not become a file name or a command to nsqd.
        return tuple(
            topic for topic in dict.fromkeys(topics) if is_valid_name(topic) and self._matches(topic)
        )

    def _matches(self, topic: str) -> bool:
        return self.pattern is None or self.pattern.is_in(topic)
