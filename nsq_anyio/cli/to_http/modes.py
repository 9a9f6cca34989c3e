"""Which of several endpoints gets a message."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

__all__ = ["MODES", "Mode"]

Mode: TypeAlias = Literal["hostpool", "round-robin", "epsilon-greedy", "least-outstanding", "all"]

MODES: tuple[str, ...] = get_args(Mode)
