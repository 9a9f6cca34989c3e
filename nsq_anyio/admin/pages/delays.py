"""The page of delayed messages: how many wait for each topic, and what is overdue."""

from __future__ import annotations

import math

from ...delaying.delay_file import TopicDelays
from ...errors import NSQError
from .listing import Columns, listing
from .request import PageError, PageRequest, Values

_COLUMNS: Columns[TopicDelays] = {
    "name": lambda row: row.topic,
    "waiting": lambda row: row.waiting,
    "bytes": lambda row: row.bytes,
    "next": lambda row: math.inf if row.next_at is None else row.next_at,
    "refused": lambda row: row.failed,
}


async def delays(request: PageRequest) -> Values:
    """Return a page of the topics for which messages wait, and the first messages that are overdue."""
    reader = request.context.delays
    if reader is None:
        raise PageError(
            404,
            "No file of delayed messages was given",
            "Start the dashboard with --delay-file, and the file that `nsq-anyio delay serve` uses.",
        )
    try:
        found = await reader.read()
    except NSQError as error:
        raise PageError(503, "The delayed messages cannot be read", f"{error}.") from error
    if found is None:
        raise PageError(
            503,
            "The delayed messages cannot be read",
            f"{reader.path} was not read within 4 seconds: check that its disk answers.",
        )
    times = [topic.next_at for topic in found.topics if topic.next_at is not None]
    return {
        "path": reader.path,
        "found": found,
        "waiting": sum(topic.waiting for topic in found.topics),
        "bytes": sum(topic.bytes for topic in found.topics),
        "next_at": min(times, default=math.nan),
        "listing": listing(
            found.topics, request.query, text=lambda row: row.topic, columns=_COLUMNS, sort="next"
        ),
    }
