"""A decoder of received bytes into runs of message frames, without an object for each message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from .codec import message_offsets
from .frames import FRAME_MESSAGE, HEADER_LENGTH, Frame, FrameBuffer, frame_header, refusal

_SIZE_LENGTH = 4

_LARGEST_FRAME = 2**30
"""The offsets of a frame of this size, and of the bytes received with it, still fit into 32 bits."""

SourceT = TypeVar("SourceT")
RunT = TypeVar("RunT")


class RunDecoder(FrameBuffer, Generic[SourceT, RunT]):
    """Turns received bytes into runs of messages and other frames, however the bytes are split.

    :param make_run: called as ``make_run(source, data, offsets)`` for one or more consecutive message frames
        in ``data``, with the ``source`` that was given to `feed`. ``offsets`` are 32-bit integers: the start
        of each frame, then the end of the last one
    :param max_frame_size: the largest size that a frame may announce, in bytes; at most 1 GiB is accepted
    """

    def __init__(
        self, make_run: Callable[[SourceT, bytes, memoryview], RunT], *, max_frame_size: int
    ) -> None:
        super().__init__()
        self._make_run = make_run
        self._max_frame_size = min(max_frame_size, _LARGEST_FRAME)

    def feed(self, data: bytes, source: SourceT) -> tuple[list[RunT], list[Frame]]:
        """Decode all frames that ``data`` completes: runs of messages, and the other frames, each in order.

        :raises FrameTooLarge: if a frame announces more than ``max_frame_size``
        :raises ProtocolError: for an unknown frame type, or a frame too short for its type
        """
        if self._parts and not (data := self._joined(data)):
            return [], []
        runs: list[RunT] = []
        frames: list[Frame] = []
        position, end, max_size = 0, len(data), self._max_frame_size
        needed = HEADER_LENGTH
        while end - position >= HEADER_LENGTH:
            size, frame_type = frame_header(data, position)
            if (error := refusal(size, frame_type, max_size)) is not None:
                raise error
            stop = position + _SIZE_LENGTH + size
            if stop > end:
                needed = _SIZE_LENGTH + size
                break
            if frame_type == FRAME_MESSAGE:
                offsets = _offsets(data, position, max_size)
                stop = offsets[-1]
                run = data
                if 2 * (stop - position) < len(data):
                    # A few messages must not keep the whole received chunk in memory.
                    run = data[position:stop]
                    offsets = _offsets(run, 0, max_size)
                runs.append(self._make_run(source, run, offsets))
            else:
                frames.append((frame_type, data[position + HEADER_LENGTH : stop]))
            position = stop
        self._hold(data, position, needed)
        return runs, frames


def _offsets(data: bytes, position: int, max_frame_size: int) -> memoryview:
    return memoryview(message_offsets(data, position, max_frame_size)).cast("i")
