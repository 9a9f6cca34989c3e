"""Compute the delay of a failed message."""

from __future__ import annotations

__all__ = ["requeue_delay"]


def requeue_delay(attempts: int, *, base: float, maximum: float) -> float:
    """Return the seconds before a message that has failed ``attempts`` times is delivered again.

    ``base`` times the attempts (building client libraries, "Message Handling"), at most ``maximum``.
    """
    return min(base * max(attempts, 1), maximum)
