"""What the exit code of a command says."""

from __future__ import annotations

__all__ = ["FAILED", "OUTPUT_CLOSED", "PARTIAL", "SIGNALLED"]

FAILED = 1
"""It could not do what was asked, and said why on stderr. Code 2, click's own, is a wrong command line."""

PARTIAL = 3
"""Some servers did what was asked and others failed, or only a part of the input was handled."""

SIGNALLED = 128
"""Plus the number of the signal that ended it: 130 for SIGINT, 143 for SIGTERM, as shells count it."""

OUTPUT_CLOSED = 141
"""Whoever read its output went away; what a program shows that SIGPIPE ends."""
