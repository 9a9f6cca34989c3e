"""Decide what a failed attempt means for its messages, and which error their callers get."""

from __future__ import annotations

from enum import Enum

from ..errors import NotSent, OutcomeUnknown, PublishRejected, ServerError
from ..protocol.error_codes import AUTH_FAILURE_CODES
from .publication import Attempt

SPLITTABLE_CODES = frozenset({"E_BAD_BODY", "E_BAD_MESSAGE"})
"""Refusals of a batch after which nsqd may accept some of its messages on their own."""

_NOT_STORED = frozenset({"E_PUB_FAILED", "E_DPUB_FAILED"})


class Verdict(Enum):
    """The meaning of a failed attempt."""

    NOT_EXECUTED = "not executed, for a temporary reason"
    NOT_STORED = "not stored, for a reason of this nsqd alone"
    REJECTED = "not stored, for a reason that every nsqd would have"
    UNKNOWN = "perhaps stored"


def verdict(attempt: Attempt) -> Verdict:
    """Return the meaning of a failed attempt."""
    error = attempt.error
    if not isinstance(error, ServerError):
        return Verdict.UNKNOWN if attempt.maybe_executed else Verdict.NOT_EXECUTED
    if error.code in AUTH_FAILURE_CODES:
        # nsqd asks its auth server again once an authorization has expired, and does not reach it.
        return Verdict.NOT_EXECUTED
    if error.code == "E_MPUB_FAILED":
        # nsqd 1.3.0 queues the messages of an MPUB one by one, and stops at the first failure.
        if attempt.messages > 1:
            return Verdict.UNKNOWN
    elif error.code not in _NOT_STORED:
        return Verdict.REJECTED
    # nsqd answers "exiting" while the topic is being deleted or nsqd is stopping, which is temporary. Other
    # details are errors of its disk.
    return Verdict.NOT_EXECUTED if error.detail.endswith("exiting") else Verdict.NOT_STORED


def rejected(error: Exception) -> PublishRejected:
    """Return the caller's error for a refusal by nsqd."""
    assert isinstance(error, ServerError)  # noqa: S101 - only nsqd rejects
    refusal = PublishRejected(error.code, error.detail)
    refusal.__cause__ = error
    return refusal


def answer_lost(error: Exception) -> OutcomeUnknown:
    """Return the caller's error for a connection that was lost before nsqd answered."""
    unknown = OutcomeUnknown(f"the answer was lost: {error}")
    unknown.__cause__ = error
    return unknown


def block_ended() -> NotSent:
    """Return the error of callers whose message was not sent before the block ended."""
    return NotSent("the producer's block ended before this message was sent")
