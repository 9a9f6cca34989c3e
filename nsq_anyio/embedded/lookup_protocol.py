"""The parts of nsqlookupd's protocol V1 that both sides write."""

from __future__ import annotations

import struct

MAGIC_V1 = b"  V1"

_SIZE = struct.Struct(">i")


def frame(body: bytes) -> bytes:
    """Return ``body`` with its size in front, as V1 sends replies and the body of IDENTIFY."""
    return _SIZE.pack(len(body)) + body
