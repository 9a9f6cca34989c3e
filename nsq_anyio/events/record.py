"""What all records are."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar

__all__ = [
    "Event",
]


@dataclass(frozen=True, slots=True)
class Event:
    """The root of all records; `level` is the one it is logged with."""

    level: ClassVar[int] = logging.DEBUG
