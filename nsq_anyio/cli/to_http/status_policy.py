"""The policy that decides about a message by the HTTP status of its answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum

from ...errors import InvalidOption

_RULE = re.compile(r"([1-5]xx|[1-5][0-9]{2})=([a-z]+)")
_SECONDS = re.compile(r"[0-9]{1,9}")
_MAX_RETRY_AFTER = 3600.0
"""Seconds; by default nsqd accepts no longer delay (--max-req-timeout)."""


class Action(StrEnum):
    """The action to take on a message after its answer."""

    FINISH = "finish"
    """The message was delivered."""
    DISCARD = "discard"
    """The message cannot be delivered: finish it, and log a warning."""
    REQUEUE = "requeue"
    """The message is at fault, not the endpoint: retry it later, without slowing down."""
    BACKOFF = "backoff"
    """The endpoint is at fault: retry the message later, and slow down."""


@dataclass(frozen=True, slots=True)
class StatusPolicy:
    """The action for each status.

    :ivar codes: single statuses, such as 404; they take precedence over their class
    :ivar classes: classes, such as 4 for 4xx
    """

    codes: Mapping[int, Action]
    classes: Mapping[int, Action]

    @classmethod
    def parse(cls, rules: Iterable[str]) -> StatusPolicy:
        """Parse rules such as ``404=discard`` and ``4xx=requeue``; the last rule for a status counts.

        Without a rule, 2xx finishes and any other status backs off, so that no message is lost.

        :raises InvalidOption: if a text is not a rule
        """
        codes: dict[int, Action] = {}
        classes = {2: Action.FINISH}
        for rule in rules:
            match = _RULE.fullmatch(rule.strip().lower())
            if not match or match[2] not in set(Action):
                raise InvalidOption(
                    f"{rule!r} is not a rule for a status: use a status or a class, '=', and one of "
                    f"{', '.join(Action)}, such as 404=discard or 4xx=requeue"
                )
            status, action = match[1], Action(match[2])
            if status.endswith("xx"):
                classes[int(status[0])] = action
            else:
                codes[int(status)] = action
        return cls(codes, classes)

    def action(self, status: int) -> Action:
        """Return the action for a status."""
        return self.codes.get(status) or self.classes.get(status // 100, Action.BACKOFF)


def retry_after(value: str | None, now: datetime) -> float | None:
    """Return the seconds that a header ``Retry-After`` asks for, at most an hour; None if it asks for none.

    :param value: a number of seconds or a date (RFC 9110, section 10.2.3); any other text is ignored
    :param now: the current time, with a time zone
    """
    if value is None:
        return None
    value = value.strip()
    if _SECONDS.fullmatch(value):
        return min(float(value), _MAX_RETRY_AFTER)
    try:
        date = parsedate_to_datetime(value)
    except ValueError:
        return None
    # The parser returns dates with "-0000", or without a zone, as naive; they are in UTC.
    seconds = (date.replace(tzinfo=date.tzinfo or UTC) - now).total_seconds()
    return min(max(seconds, 0.0), _MAX_RETRY_AFTER)
