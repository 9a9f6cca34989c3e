"""Something that is stuck or wrong, and the words for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_LABELS = {
    "nsqlookupd_down": "down",
    "unusable": "unusable",
    "nsqd_down": "down",
    "unhealthy": "not healthy",
    "not_registered": "not registered",
    "topic_not_registered": "not registered",
    "no_channels": "no channels",
    "paused": "paused",
    "no_consumers": "no consumers",
    "stalled": "stalled",
    "growing": "growing",
    "requeues": "requeues",
    "timeouts": "timeouts",
    "channel_missing": "channel missing",
    "nsqd_without_consumers": "no consumers",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that is stuck or wrong.

    :ivar kind: a word for each rule, such as ``no_consumers``
    :ivar is_bad: whether messages are held up or a server is gone; otherwise it deserves a look
    :ivar text: what is wrong, in a sentence
    :ivar topic: the topic; empty if it is about a server
    :ivar channel: the channel; empty if it is about a topic or a server
    :ivar server: the URL of the nsqd or nsqlookupd; empty if it is about a topic or channel
    :ivar weight: how much it matters among its like, such as the messages that wait
    """

    kind: str
    text: str
    is_bad: bool = False
    topic: str = ""
    channel: str = ""
    server: str = ""
    weight: float = 0.0

    @property
    def label(self) -> str:
        """A word or two for the kind."""
        return _LABELS[self.kind]


def messages_wait(count: int) -> str:
    """Return how many messages wait, as the end of a sentence."""
    return "1 message waits" if count == 1 else f"{count:,} messages wait"


def per_second(rate: float) -> str:
    """Return a rate with its unit."""
    if math.isnan(rate):
        return "an unknown rate"
    return f"{rate:,.1f}/s" if rate < 10 else f"{rate:,.0f}/s"


def named(names: Sequence[str]) -> str:
    """Return names as a part of a sentence; of more than four, the first three."""
    shown = [*names[:3], f"{len(names) - 3} others"] if len(names) > 4 else list(names)
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
