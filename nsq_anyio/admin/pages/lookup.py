"""The page of nsqlookupds: the nsqds that each lists, and the topics that no nsqd has."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import anyio

from ...http import Nsqlookupd, Survey
from ...names import is_valid_name
from .listing import listing
from .request import PageRequest, Values
from .tables import NodeRow

_PATIENCE = 4.0
_MOST_NODES = 200
_MOST_TOMBSTONES = 200
_PAGE_SIZE = 50


class _Registered(NamedTuple):
    """An nsqd, and whether each nsqlookupd lists it; None if the nsqlookupd did not answer."""

    row: NodeRow
    knows: Sequence[bool | None]


async def lookup(request: PageRequest) -> Values:
    """Return the nsqds of each nsqlookupd, and a page of the topics that no nsqd has."""
    survey = request.snapshot.survey
    tables = await request.tables()
    known = [(each.error, {node.url for node in each.nodes}) for each in survey.nsqlookupds]
    matrix = [
        _Registered(row, [row.node.url in urls or (None if error else False) for error, urls in known])
        for row in tables.nodes
    ]
    matrix.sort(key=lambda each: False not in each.knows)  # nsqds that are missing somewhere come first
    names = {row.node.url: row.name for row in tables.nodes}
    tombstones = [
        {"topic": topic, "node": names[node.url], "lookup": each.url}
        for each in survey.nsqlookupds
        for node in each.nodes
        for topic in node.tombstoned
    ]
    inactive = listing(
        _inactive_topics(survey),
        request.query,
        text=str,
        columns={"name": str},
        sort="name",
        size=_PAGE_SIZE,
    )
    return {
        "lookups": survey.nsqlookupds,
        "matrix": matrix[:_MOST_NODES],
        "left_out": max(len(matrix) - _MOST_NODES, 0),
        "missing": sum(False in each.knows for each in matrix),
        "tombstones": tombstones[:_MOST_TOMBSTONES],
        "more_tombstones": max(len(tombstones) - _MOST_TOMBSTONES, 0),
        "listing": inactive,
        "channels": await _channels(request, inactive.rows),
    }


def _inactive_topics(survey: Survey) -> list[str]:
    """Return the topics that nsqlookupds know and no nsqd has, sorted.

    An nsqd that does not answer counts as having its registered topics.
    """
    active = {topic.topic_name for each in survey.nsqds for topic in each.stats.topics}
    for each in survey.nsqlookupds:
        for node in each.nodes:
            active.update(set(node.topics).difference(node.tombstoned))
    return sorted({topic for each in survey.nsqlookupds for topic in each.topics}.difference(active))


async def _channels(request: PageRequest, topics: Sequence[str]) -> dict[str, list[str]]:
    """Return the channels of each topic, from the nsqlookupds that answer in time."""
    found: dict[str, set[str]] = {topic: set() for topic in topics}

    async def ask(topic: str, nsqlookupd: Nsqlookupd) -> None:
        found[topic].update(await nsqlookupd.channels(topic))

    if topics:
        with anyio.move_on_after(_PATIENCE):
            async with request.context.upstream.used("page") as servers, anyio.create_task_group() as tasks:
                # Those that the last poll found silent would fill up the limit of servers that pages ask.
                failing = request.snapshot.survey.errors
                for url in servers.nsqlookupds:
                    for topic in filter(is_valid_name, topics if url not in failing else ()):
                        tasks.start_soon(servers.ask_nsqlookupd, url, partial(ask, topic))
    return {topic: sorted(names) for topic, names in found.items()}
