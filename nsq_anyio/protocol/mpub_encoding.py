"""Encodes the body of ``MPUB``. `codec` chooses between this, the reference, and the same compiled."""

from __future__ import annotations

import struct
from collections.abc import Sequence

__all__ = ["encode_bodies", "plain_size"]

_pack_size = struct.Struct(">I").pack


def plain_size(bodies: Sequence[object], max_size: int) -> int | None:
    """Return the size of all bodies together; None unless each is a bytes of 1 to ``max_size`` bytes.

    It looks at all of them at once: a call for each took a tenth of the time of an MPUB of 100 messages.
    """
    if set(map(type, bodies)) != {bytes}:
        return None
    sizes: list[int] = list(map(len, bodies))  # type: ignore[arg-type]
    return sum(sizes) if min(sizes) > 0 and max(sizes) <= max_size else None


def encode_bodies(bodies: Sequence[bytes]) -> bytes:
    """Return the body of ``MPUB`` and of ``/mpub?binary=true``: a count, then each message with its size."""
    parts = [b""] * (2 * len(bodies))
    parts[::2] = map(_pack_size, map(len, bodies))
    parts[1::2] = bodies
    return _pack_size(len(bodies)) + b"".join(parts)
