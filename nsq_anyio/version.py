"""The version of this package. The installed metadata contains it too, but reading it is slow."""

from __future__ import annotations

VERSION = "0.1.0"
