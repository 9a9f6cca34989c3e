"""What a publish that got no OK means for its message, and what its caller is told."""

from __future__ import annotations

from enum import Enum

from ..errors import NotSent, OutcomeUnknown, PublishRejected, ServerError
from .publication import Attempt

__all__ = ["SPLITTABLE_CODES", "Verdict", "answer_lost", "block_ended", "rejected", "verdict"]

SPLITTABLE_CODES = frozenset({"E_BAD_BODY", "E_BAD_MESSAGE"})
"""Refusals of a batch that its messages may escape one by one; any other answers each of them alike."""

_NOT_STORED = frozenset({"E_PUB_FAILED", "E_DPUB_FAILED"})


class Verdict(Enum):
    """The four meanings."""

    NOT_EXECUTED = "certainly not executed, and nothing is wrong with it"
    NOT_STORED = "certainly not stored, because this nsqd cannot"
    REJECTED = "refused, and not stored"
    UNKNOWN = "stored or not"


def verdict(attempt: Attempt) -> Verdict:
    """Return what the error of a failed attempt means."""
    error = attempt.error
    if not isinstance(error, ServerError):
        return Verdict.UNKNOWN if attempt.maybe_executed else Verdict.NOT_EXECUTED
    if error.code == "E_MPUB_FAILED":
        # nsqd 1.3.0 puts the messages into its queue one by one, and stops at the first failure.
        if attempt.messages > 1:
            return Verdict.UNKNOWN
    elif error.code not in _NOT_STORED:
        return Verdict.REJECTED
    # A topic that is being deleted, or whose nsqd is stopping, says "exiting": that passes. The other reasons
    # are those of nsqd's disk.
    return Verdict.NOT_EXECUTED if error.detail.endswith("exiting") else Verdict.NOT_STORED


def rejected(error: Exception) -> PublishRejected:
    """nsqd's refusal, as the caller gets it."""
    assert isinstance(error, ServerError)  # noqa: S101 - only nsqd rejects
    refusal = PublishRejected(error.code, error.detail)
    refusal.__cause__ = error
    return refusal


def answer_lost(error: Exception) -> OutcomeUnknown:
    """nsqd may have stored the message, as the caller gets it."""
    unknown = OutcomeUnknown(f"the answer was lost: {error}")
    unknown.__cause__ = error
    return unknown


def block_ended() -> NotSent:
    """What those get that wait for room when the block has ended."""
    return NotSent("the producer's block ended before this message was sent")
