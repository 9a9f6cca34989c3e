"""Holds the bytes of an incomplete frame until the others arrive."""

from __future__ import annotations

HEADER_LENGTH = 8
"""The bytes with a frame's size and its type, without which nothing is known of it."""


class FrameBuffer:
    """What decoders of frames hold between two pieces of received bytes."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []  # joined once the frame is complete
        self._held = 0
        self._needed = HEADER_LENGTH

    @property
    def buffered(self) -> int:
        """How many bytes of an incomplete frame are held; 0 between frames."""
        return self._held

    @property
    def missing(self) -> int:
        """The fewest bytes that can complete the next frame. That many bytes complete one frame at most."""
        return self._needed - self._held

    def _joined(self, data: bytes) -> bytes:
        """Return what is held with ``data`` behind it; nothing while that cannot complete a frame."""
        self._parts.append(data)
        self._held += len(data)
        return b"" if self._held < self._needed else b"".join(self._parts)

    def _hold(self, data: bytes, position: int, needed: int) -> None:
        """Hold what follows ``position``.

        :param needed: how many bytes from there on can complete a frame
        """
        self._held = len(data) - position
        self._parts = [data[position:]] if self._held else []
        self._needed = needed
