"""What both sides of nsqlookupd's protocol V1 write."""

from __future__ import annotations

import struct

__all__ = ["MAGIC_V1", "frame"]

MAGIC_V1 = b"  V1"

_SIZE = struct.Struct(">i")


def frame(body: bytes) -> bytes:
    """``body`` behind its size, as protocol V1 frames replies and the body of IDENTIFY."""
    return _SIZE.pack(len(body)) + body
