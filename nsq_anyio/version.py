"""The version of this package. The installed metadata has it too, but takes long to read."""

from __future__ import annotations

__all__ = ["VERSION"]

VERSION = "0.1.0"
