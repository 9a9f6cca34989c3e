"""nsqds as tables show them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...http import Node, NsqdSurvey, Survey
from ...monitoring import Problem
from ..producers import version_key


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """One nsqd; without an answer, its figures are NaN.

    :ivar name: ``host:port`` of its HTTP API, which stands in the path of its page
    :ivar error: why it did not answer; empty if it did
    :ivar seconds: how long its answer took
    :ivar up: seconds since it started
    :ivar known_to: how many nsqlookupds know it, of ``lookups``
    :ivar is_outdated: whether another nsqd has a newer version
    """

    node: Node
    name: str
    error: str
    health: str
    version: str
    seconds: float
    started: float
    up: float
    topics: float
    channels: float
    clients: float
    depth: float
    in_flight: float
    messages: float
    known_to: int
    lookups: int
    is_outdated: bool
    problems: Sequence[Problem]

    @property
    def level(self) -> str:
        """``bad`` or ``warn`` if there is a problem; otherwise nothing."""
        if not self.problems:
            return ""
        return "bad" if any(each.is_bad for each in self.problems) else "warn"


def node_rows(survey: Survey, problems: Mapping[str, Sequence[Problem]]) -> list[NodeRow]:
    """Return a row for each nsqd, sorted by host name.

    :param problems: by the URL of the nsqd
    """
    versions = {each.node.url: each.stats.version or each.node.version for each in survey.nsqds}
    newest = max(map(version_key, versions.values()), default=())
    known = [{node.url for node in each.nodes} for each in survey.nsqlookupds]
    return [
        _row(
            each,
            survey.time,
            versions[each.node.url],
            version_key(versions[each.node.url]) < newest,
            sum(each.node.url in urls for urls in known),
            len(known),
            problems.get(each.node.url, ()),
        )
        for each in survey.nsqds
    ]


def _row(
    nsqd: NsqdSurvey,
    now: float,
    version: str,
    is_outdated: bool,
    known_to: int,
    lookups: int,
    problems: Sequence[Problem],
) -> NodeRow:
    stats, node = nsqd.stats, nsqd.node
    channels = [channel for topic in stats.topics for channel in topic.channels]
    unknown = math.nan if nsqd.error else 0.0
    return NodeRow(
        node=node,
        name=shown_name(node),
        error=nsqd.error,
        health=stats.health,
        version=version,
        seconds=nsqd.seconds,
        started=stats.start_time or math.nan,
        up=now - stats.start_time if stats.start_time else math.nan,
        topics=unknown + len(stats.topics),
        channels=unknown + len(channels),
        clients=unknown + sum(each.client_count for each in channels),
        depth=unknown + sum(each.depth for each in channels) + sum(each.depth for each in stats.topics),
        in_flight=unknown + sum(each.in_flight_count for each in channels),
        messages=unknown + sum(topic.message_count for topic in stats.topics),
        known_to=known_to,
        lookups=lookups,
        is_outdated=is_outdated,
        problems=problems,
    )


def shown_name(node: Node) -> str:
    """Return the name of an nsqd; of one that never answered, what its URL says."""
    return node.name if node.broadcast_address else node.url.partition("://")[2].rstrip("/")
