"""The body of ``MPUB`` and of ``/mpub?binary=true``, and what nsqd's configuration allows."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import ServerError
from .receive_buffer import EndOfInput, Reading, ReceiveBuffer


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What nsqd's configuration allows clients: sizes in bytes, ``max_defer_ms`` in milliseconds."""

    max_msg_size: int = 1024 * 1024
    max_body_size: int = 5 * 1024 * 1024
    max_rdy_count: int = 2500
    max_defer_ms: int = 3_600_000


def decode_bodies(payload: bytes, limits: Limits) -> list[bytes]:
    """Decode the messages of a binary ``/mpub``, in the format of ``MPUB``.

    :raises ServerError: for messages that ``MPUB`` would refuse
    """
    buffer = ReceiveBuffer(payload)
    buffer.end()
    steps = read_bodies(buffer, limits)
    try:
        # The input has ended, so the decoder runs to its end.
        next(steps)
    except StopIteration as done:
        bodies: list[bytes] = done.value
        return bodies
    raise AssertionError("a decoder waited for bytes after the end of the input")


def read_bodies(buffer: ReceiveBuffer, limits: Limits) -> Reading[list[bytes]]:
    """Read the messages one by one, and check each as soon as its size has arrived.

    :raises ServerError: in nsqd's words, for messages that nsqd refuses
    """
    try:
        count = yield from buffer.size()
    except EndOfInput:
        raise ServerError("E_BAD_BODY", "MPUB failed to read message count") from None
    # The most that fit: the count has 4 bytes, and each message 4 bytes of size and at least 1 of body.
    if not 0 < count <= (limits.max_body_size - 4) // 5:
        raise ServerError("E_BAD_BODY", f"MPUB invalid message count {count}")
    bodies: list[bytes] = []
    for index in range(count):
        try:
            size = yield from buffer.size()
        except EndOfInput:
            raise ServerError("E_BAD_MESSAGE", f"MPUB failed to read message({index}) body size") from None
        if size <= 0:
            raise ServerError("E_BAD_MESSAGE", f"MPUB invalid message({index}) body size {size}")
        if size > limits.max_msg_size:
            raise ServerError("E_BAD_MESSAGE", f"MPUB message too big {size} > {limits.max_msg_size}")
        try:
            bodies.append((yield from buffer.exactly(size)))
        except EndOfInput:
            raise ServerError("E_BAD_MESSAGE", "MPUB failed to read message body") from None
    return bodies
