"""Compute the delay of a failed message."""

from __future__ import annotations

from typing import Literal


def requeue_delay(
    attempts: int, *, base: float, maximum: float, strategy: Literal["linear", "exponential"] = "linear"
) -> float:
    """Return the seconds before a message that has failed ``attempts`` times is delivered again.

    ``base`` times the attempts (building client libraries, "Message Handling") or times 1, 2, 4, 8, ..., at
    most ``maximum``.
    """
    attempts = max(attempts, 1)
    # 2**64 seconds exceed any maximum, and at some attempt a float would overflow.
    factor = attempts if strategy == "linear" else 2.0 ** min(attempts - 1, 64)
    return min(base * factor, maximum)
