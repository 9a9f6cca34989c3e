"""Messages in memory that may be on disk as well, and who has them."""

from __future__ import annotations

from enum import Enum, auto
from typing import Protocol, TypeVar

from .records import Record, Storable

NOT_PINNED = -1
"""The ``pin`` of a message that the files need not keep."""


class Item(Storable, Protocol):
    """A message in memory.

    :ivar pin: its number among all that were read; `NOT_PINNED` if the files need not keep it
    """

    pin: int


ItemT = TypeVar("ItemT", bound=Item)


class Purpose(Enum):
    """Why a message is written."""

    PUBLISHED = auto()
    """Its publisher waits, and learns of a failure."""
    KEPT = auto()
    """Nobody else has it."""
    COPIED = auto()
    """The files of its topic have it until it is written."""
    HELD = auto()
    """Its publisher waits, and it is deferred in memory."""


class Owner(Protocol[ItemT]):
    """The topic or channel whose queue it is."""

    def restored(self, record: Record) -> ItemT:
        """Return a message that was read."""
        ...

    @property
    def is_waiting(self) -> bool:
        """Whether it would take a message at once."""
        ...

    def available(self) -> None:
        """Messages can be taken, or fetched."""
        ...

    def not_written(self, item: ItemT, purpose: Purpose) -> None:
        """A message could not be written."""
        ...
