"""How long a failed message waits."""

from __future__ import annotations

__all__ = ["requeue_delay"]


def requeue_delay(attempts: int, *, base: float, maximum: float) -> float:
    """Seconds until a message that has failed ``attempts`` times is offered again.

    A multiple of the attempts (building client libraries, "Message Handling"), bounded by ``maximum``.
    """
    return min(base * max(attempts, 1), maximum)
