"""The base of all records."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar

__all__ = [
    "Event",
]


@dataclass(frozen=True, slots=True)
class Event:
    """The root of all records; `level` is the one with which it is logged."""

    level: ClassVar[int] = logging.DEBUG
