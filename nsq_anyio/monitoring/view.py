"""What all viewers of a cluster see at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..http import Survey, TopicStats, Totals
from .figures import Figures
from .registrations import Registration


@dataclass(frozen=True, slots=True)
class View:
    """The result of one poll, with all that is computed from it.

    :ivar number: how many polls there were so far, with this one
    :ivar survey: what each server answered
    :ivar figures: rates, and sums that never decrease
    :ivar topics: the statistics of each topic over all nsqds, sorted by topic
    :ivar interval: seconds from the beginning of this poll to that of the next one. Whoever tells people how
        often the servers are asked reads it here: it is longer than what was set if polls would take too much
        of a core
    :ivar missing: the registrations that an nsqlookupd lacks, and for how many seconds; the keys are the URLs
        of an nsqd and an nsqlookupd, which have both answered
    """

    number: int
    survey: Survey
    figures: Figures
    topics: tuple[Totals[TopicStats], ...] = ()
    interval: float = 0.0
    missing: Mapping[Registration, float] = field(default_factory=dict[Registration, float])
