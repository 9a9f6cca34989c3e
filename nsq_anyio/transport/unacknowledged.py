"""How far the system has come with what it was given to send."""

from __future__ import annotations

import socket
import struct
import sys

__all__ = ["unacknowledged"]

_INT = struct.Struct("i")

if sys.platform == "linux":
    import fcntl
    import termios

    def unacknowledged(sock: socket.socket) -> int:
        """How many bytes the system has that the peer has not taken; always 0 where it does not tell."""
        (count,) = _INT.unpack(fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(_INT.size)))
        return int(count)

else:

    def unacknowledged(sock: socket.socket) -> int:  # noqa: ARG001
        """How many bytes the system has that the peer has not taken; always 0 where it does not tell."""
        return 0
