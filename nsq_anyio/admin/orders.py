"""What somebody asks the application to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeGuard, get_args

Action = Literal["create", "delete", "empty", "pause", "unpause", "tombstone"]

_ACTIONS = frozenset(get_args(Action))


def is_action(text: str) -> TypeGuard[Action]:
    """Return whether ``text`` names an action."""
    return text in _ACTIONS


@dataclass(frozen=True, slots=True)
class Order:
    """An action, and what it is for. The names are valid.

    :ivar action: what to do
    :ivar topic: the topic
    :ivar channel: its channel; empty for the topic itself
    :ivar node: the name of the nsqd on which to tombstone the topic; otherwise empty
    """

    action: Action
    topic: str
    channel: str = ""
    node: str = ""

    @property
    def name(self) -> str:
        """The name of the channel, or else of the topic."""
        return self.channel or self.topic

    @property
    def deletes(self) -> bool:
        """Whether a topic or channel is gone afterwards, and its consumers are disconnected."""
        return self.action in ("delete", "tombstone")

    @property
    def discards(self) -> bool:
        """Whether messages are gone afterwards."""
        return self.deletes or self.action == "empty"
