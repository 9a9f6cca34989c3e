"""Bounds of the message pages, which protect this process, the nsqds and browsers, in this order."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageBounds:
    """The bounds.

    :ivar shown_per_second: messages of a topic that are shown in a second
    :ivar received_per_second: messages of a topic that are asked for in a second, by sampling
    :ivar kept: messages of a topic that are kept for new and slow viewers
    :ivar tails: topics that are tailed at the same time
    :ivar viewers: viewers of all tails together
    :ivar jobs: jobs on dead letters that run at the same time
    :ivar letters: dead letters that are listed
    """

    shown_per_second: int = 20
    received_per_second: int = 500
    kept: int = 100
    tails: int = 20
    viewers: int = 100
    jobs: int = 4
    letters: int = 100
