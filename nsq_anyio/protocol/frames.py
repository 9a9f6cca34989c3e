"""The frames that nsqd sends: ``[int32 size][int32 type][data]``, big endian; size counts type and data.

A message frame's data is ``[int64 timestamp ns][uint16 attempts][16-byte id][body]``.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable
from typing import Generic, TypeVar

from ..errors import FrameTooLarge, ProtocolError

MAGIC_V2 = b"  V2"
HEARTBEAT = b"_heartbeat_"
MESSAGE_ID_LENGTH = 16

FRAME_RESPONSE = 0
FRAME_ERROR = 1
FRAME_MESSAGE = 2

Frame = tuple[int, bytes]
"""A response or error frame: its type and its data."""

OK: Frame = (FRAME_RESPONSE, b"OK")
"""The answer to a publish, and to some other commands."""

HEADER_LENGTH = 8
"""The length of a frame's size and type."""

_HEADER = struct.Struct(">ii")
_MESSAGE_HEADER = struct.Struct(">iiqH16s")
_MESSAGE_HEADER_LENGTH = _MESSAGE_HEADER.size
_SIZE_LENGTH = 4
_TYPE_LENGTH = 4
_MIN_MESSAGE_SIZE = _MESSAGE_HEADER_LENGTH - _SIZE_LENGTH

frame_header: Callable[[bytes, int], tuple[int, int]] = _HEADER.unpack_from
"""Return the size that a frame announces, and its type."""

_HTTP = int.from_bytes(b"HTTP")
_HTTP_HINT = "the answer starts like HTTP; nsqd's TCP port (4150) is not its HTTP port (4151)"

SourceT = TypeVar("SourceT")
MessageT = TypeVar("MessageT")


def encode_frame(frame_type: int, data: bytes) -> bytes:
    """Encode a response or error frame."""
    return _HEADER.pack(_TYPE_LENGTH + len(data), frame_type) + data


def encode_message_frame(timestamp: int, attempts: int, message_id: bytes, body: bytes) -> bytes:
    """Encode a message frame.

    :param timestamp: in nanoseconds
    :param attempts: 0 to 65535
    :param message_id: 16 bytes
    """
    size = _MIN_MESSAGE_SIZE + len(body)
    return _MESSAGE_HEADER.pack(size, FRAME_MESSAGE, timestamp, attempts, message_id) + body


_OK_FRAME = encode_frame(*OK)


class FrameBuffer:
    """The base of frame decoders: holds an incomplete frame between two pieces of received bytes."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []  # joined once the frame is complete
        self._held = 0
        self._needed = HEADER_LENGTH

    @property
    def buffered(self) -> int:
        """The bytes of an incomplete frame that are held; 0 between frames."""
        return self._held

    @property
    def missing(self) -> int:
        """The fewest bytes that can complete the next frame. That many bytes complete one frame at most."""
        return self._needed - self._held

    def _joined(self, data: bytes) -> bytes:
        """Return the held bytes followed by ``data``; b"" while they cannot complete a frame."""
        self._parts.append(data)
        self._held += len(data)
        return b"" if self._held < self._needed else b"".join(self._parts)

    def _hold(self, data: bytes, position: int, needed: int) -> None:
        """Hold the bytes after ``position``.

        :param needed: the fewest bytes after ``position`` that can complete a frame
        """
        self._held = len(data) - position
        self._parts = [data[position:]] if self._held else []
        self._needed = needed


class FrameDecoder(FrameBuffer, Generic[SourceT, MessageT]):
    """Turns received bytes into messages and other frames, however the bytes are split.

    :param make_message: called as ``make_message(source, timestamp, attempts, id, body)`` for each
        message frame, with the ``source`` that was given to `feed`
    :param max_frame_size: the largest size that a frame may announce, in bytes
    """

    def __init__(
        self,
        make_message: Callable[[SourceT, int, int, bytes, bytes], MessageT],
        *,
        max_frame_size: int,
    ) -> None:
        super().__init__()
        self._make_message = make_message
        self._max_frame_size = max_frame_size

    def feed(self, data: bytes, source: SourceT) -> tuple[list[MessageT], list[Frame]]:
        """Decode all frames that ``data`` completes: messages, and the other frames, each in order.

        :raises FrameTooLarge: if a frame announces more than ``max_frame_size``
        :raises ProtocolError: for an unknown frame type, or a frame too short for its type
        """
        if self._parts:
            if not (data := self._joined(data)):
                return [], []
        elif data == _OK_FRAME:  # the usual chunk while one task publishes; it is within any limit
            return [], [OK]

        messages: list[MessageT] = []
        frames: list[Frame] = []
        make_message = self._make_message
        add_message = messages.append
        unpack = _MESSAGE_HEADER.unpack_from
        max_size = self._max_frame_size
        position = 0
        end = len(data)

        # The first loop decodes answers to publishes, and the second one messages, with one unpack each.
        # Incomplete frames, other types and sizes out of bounds fall through to the third part.
        while True:
            while data.startswith(_OK_FRAME, position):
                frames.append(OK)
                position += len(_OK_FRAME)

            while end - position >= _MESSAGE_HEADER_LENGTH:
                size, frame_type, timestamp, attempts, message_id = unpack(data, position)
                stop = position + _SIZE_LENGTH + size
                if frame_type != FRAME_MESSAGE or stop > end or not _MIN_MESSAGE_SIZE <= size <= max_size:
                    break
                body = data[position + _MESSAGE_HEADER_LENGTH : stop]
                add_message(make_message(source, timestamp, attempts, message_id, body))
                position = stop

            if end - position < HEADER_LENGTH:
                needed = HEADER_LENGTH
                break
            size, frame_type = _HEADER.unpack_from(data, position)
            if (error := refusal(size, frame_type, max_size)) is not None:
                raise error
            stop = position + _SIZE_LENGTH + size
            if stop > end:
                needed = _SIZE_LENGTH + size
                break
            if frame_type == FRAME_MESSAGE:
                continue
            frames.append((frame_type, data[position + HEADER_LENGTH : stop]))
            position = stop

        self._hold(data, position, needed)
        return messages, frames


def message_offsets(data: bytes, position: int, max_frame_size: int) -> bytes:
    """Find the consecutive message frames in ``data`` that begin at ``position``.

    The run ends before the first frame that is incomplete, of another type, or invalid.

    :param data: at most 2147483647 bytes
    :return: native 32-bit integers: the start of each frame, then the end of the last one; only ``position``
        if there is no frame
    """
    offsets = [position]
    add = offsets.append
    unpack = _HEADER.unpack_from
    end = len(data)
    last = end - _MESSAGE_HEADER_LENGTH
    while position <= last:
        size, frame_type = unpack(data, position)
        position += _SIZE_LENGTH + size
        if frame_type != FRAME_MESSAGE or position > end or not _MIN_MESSAGE_SIZE <= size <= max_frame_size:
            break
        add(position)
    return array("i", offsets).tobytes()


def refusal(size: int, frame_type: int, max_frame_size: int) -> ProtocolError | None:
    """Return the error for a frame's header that breaks the protocol; None if it does not."""
    if size == _HTTP:
        return ProtocolError(f"this is not nsqd's TCP port: {_HTTP_HINT}")
    if size > max_frame_size:
        return FrameTooLarge(size, max_frame_size)
    least = _MIN_MESSAGE_SIZE if frame_type == FRAME_MESSAGE else _TYPE_LENGTH
    if size < least:
        return ProtocolError(f"a frame of type {frame_type} announced {size} bytes, fewer than {least}")
    if frame_type not in (FRAME_RESPONSE, FRAME_ERROR, FRAME_MESSAGE):
        return ProtocolError(
            f"unknown frame type {frame_type}: the peer is not nsqd or the stream is damaged"
        )
    return None
