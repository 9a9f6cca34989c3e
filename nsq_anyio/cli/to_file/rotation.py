"""When the next file begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...checks import check_integer, check_seconds

__all__ = ["Rotation"]


@dataclass(frozen=True, slots=True)
class Rotation:
    """The bounds of a file; beside these, a new name begins a new file.

    :param size: bytes before compression, past which a file takes no further message; 0 for no bound
    :param interval: seconds after which a file is ended; 0 for no bound
    :raises InvalidOption: for a value out of range
    """

    size: int = 0
    interval: float = 0.0

    def __post_init__(self) -> None:
        check_integer("rotate_size", self.size, 0)
        check_seconds("rotate_interval", self.interval, 0)

    def reason(self, *, size: int, age: float) -> str | None:
        """Why a file of this size and age is to be ended; None if it is not."""
        if self.interval and age > self.interval:
            return f"it was opened {age:.0f} s ago"
        if self.is_full(size):
            return f"it has {size} bytes"
        return None

    def is_full(self, size: int) -> bool:
        """Whether a file of this size takes no further message."""
        return 0 < self.size < size

    def count_fitting(self, size: int, bodies: Sequence[bytes]) -> int:
        """How many of the messages a file of this size still takes, one at least if it is not full."""
        if not self.size:
            return len(bodies)
        count = 0
        while count < len(bodies) and not self.is_full(size):
            size += len(bodies[count]) + 1
            count += 1
        return count
