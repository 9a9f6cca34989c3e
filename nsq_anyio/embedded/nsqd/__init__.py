"""The embedded nsqd."""

from __future__ import annotations

from .server import EmbeddedNsqd, nsqd

__all__ = ["EmbeddedNsqd", "nsqd"]
