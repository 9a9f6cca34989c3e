"""Tells how many sent bytes the peer has not acknowledged."""

from __future__ import annotations

import socket
import struct
import sys

__all__ = ["unacknowledged"]

_INT = struct.Struct("i")

if sys.platform == "linux":
    import fcntl
    import termios

    def unacknowledged(sock: socket.SocketType) -> int:
        """Return how many bytes the system holds for the peer; always 0 where the system does not tell."""
        (count,) = _INT.unpack(fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(_INT.size)))
        return int(count)

else:

    def unacknowledged(sock: socket.SocketType) -> int:  # noqa: ARG001
        """Return how many bytes the system holds for the peer; always 0 where the system does not tell."""
        return 0
