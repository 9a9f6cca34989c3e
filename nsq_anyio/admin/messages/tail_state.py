"""What viewers of a tail are given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class TailState:
    """What viewers are told beside the messages.

    :ivar phase: ``draining``: it would take messages from others, which nobody has confirmed; ``gone``: no
        nsqd has the topic; ``closed``: the application ends
    :ivar connected: the addresses of the nsqds whose messages come
    :ivar left_out: the nsqds whose messages do not come, each with the reason
    :ivar waiting: in the phase ``draining``, how many messages it would take at once
    :ivar sample_rate: which part of the messages nsqd sends, in percent; 0 for all
    :ivar received: messages that come in a second
    :ivar shown: how many of these are shown
    :ivar is_paused: whether nsqd passes on no messages of the topic
    :ivar takes: whether it takes messages that nobody else gets
    :ivar problem: why it ended
    """

    phase: Literal["starting", "live", "draining", "gone", "failed", "closed"] = "starting"
    connected: Sequence[str] = ()
    left_out: Sequence[tuple[str, str]] = ()
    waiting: int = 0
    sample_rate: int = 0
    received: float = 0.0
    shown: float = 0.0
    is_paused: bool = False
    takes: bool = False
    problem: str = ""

    @property
    def estimated(self) -> float:
        """About how many messages the topic gets in a second."""
        return self.received * 100 / (self.sample_rate or 100)

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self.phase not in ("starting", "live")


@dataclass(frozen=True, slots=True)
class Piece:
    """Some messages, rendered.

    :ivar number: how many messages there were up to the last of these
    """

    number: int
    html: str
