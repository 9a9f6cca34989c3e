"""The record of one id, and how each operation changes it: the rules of the stores in memory and in SQLite.

The script of the store in Redis follows the same rules, and the same tests.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from .store import Claim, Claimed

DONE = "done"


def held_by(claim: Claim) -> str:
    """Return the value of an id that a delivery holds."""
    return f"held {claim.holder}"


def kept_for(claim: Claim) -> str:
    """Return the value of an id that is kept for the next delivery of a copy."""
    return f"kept {claim.message}"


class Operation(NamedTuple):
    """One call of a store's method."""

    kind: Literal["claim", "done", "release"]
    claim: Claim
    seconds: float


class Record(NamedTuple):
    """What is known of an id, until a time."""

    value: str
    until: float


def apply(operation: Operation, found: Record | None, now: float) -> tuple[Claimed, Record | None]:
    """Return the answer to an operation, and the record after it; None for no record.

    :param found: the record before it
    """
    claim, until = operation.claim, now + operation.seconds
    if found is not None and found.until <= now:
        found = None
    match operation.kind:
        case "claim":
            if found is None or found.value in (held_by(claim), kept_for(claim)):
                return Claimed("new"), Record(held_by(claim), until)
            return answer_for(found.value, found.until - now), found
        case "done":
            return Claimed("done"), Record(DONE, until)
        case "release":
            if found is not None and found.value == held_by(claim):
                found = Record(kept_for(claim), until) if operation.seconds > 0 else None
            return Claimed("new"), found


def answer_for(value: str, seconds: float) -> Claimed:
    """Return the answer to a claim of an id that has another value."""
    if value == DONE:
        return Claimed("done")
    return Claimed("held" if value.startswith("held") else "kept", seconds)
