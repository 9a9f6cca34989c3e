"""How long nsqds that answer have been missing from nsqlookupds that answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from ..http import Survey

Registration: TypeAlias = tuple[str, str]
"""The URLs of an nsqd and of an nsqlookupd."""


class Registrations:
    """Follows who is registered where, from survey to survey."""

    def __init__(self) -> None:
        self._missing_since: dict[Registration, float] = {}

    def update(self, survey: Survey, now: float) -> Mapping[Registration, float]:
        """Take in a survey; return for how many seconds each registration has been missing.

        Of those that are there, or where one of the two did not answer, nothing is returned. A server that
        does not answer for a while changes nothing: its registrations go on missing from when they were
        first missed.

        :param now: in seconds, by a clock that never goes back
        """
        since: dict[Registration, float] = {}
        missing: dict[Registration, float] = {}
        for nsqlookupd in survey.nsqlookupds:
            known = {node.url for node in nsqlookupd.nodes}
            for nsqd in survey.nsqds:
                pair = nsqd.node.url, nsqlookupd.url
                if nsqlookupd.error or nsqd.error:
                    if pair in self._missing_since and pair[0] not in known:
                        since[pair] = self._missing_since[pair]
                elif pair[0] not in known:
                    since[pair] = self._missing_since.get(pair, now)
                    missing[pair] = now - since[pair]
        self._missing_since = since
        return missing
