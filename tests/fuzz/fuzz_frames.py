"""Whatever a peer sends, the client decodes it, holds it, or raises `ProtocolError`, and pairs in order.

The default suite drives the same oracle with Hypothesis. With coverage as the guide::

    pip install atheris
    python -m tests.fuzz.fuzz_frames -max_total_time=300

"""

from __future__ import annotations

import importlib
import sys

from nsq_anyio.errors import ProtocolError
from nsq_anyio.protocol.codec import Decoder, MakeDecoder, frame_decoder
from nsq_anyio.protocol.frames import HEARTBEAT
from nsq_anyio.protocol.session import Answer, ClientSession, Command, Heartbeat, Refusal, ResponseFailed

LIMIT = 256

Item = tuple[object, ...]
"""A message as ``(timestamp, attempts, id, body)``, or another frame as ``(type, data)``."""


def expected(stream: bytes) -> tuple[list[Item], int | None]:
    """Decode ``stream`` as the specification reads, slowly.

    :returns: the items, and the number of bytes that remain; None if the stream breaks the protocol there
    """
    items: list[Item] = []
    position = 0
    while len(stream) - position >= 8:
        size = int.from_bytes(stream[position : position + 4], "big", signed=True)
        frame_type = int.from_bytes(stream[position + 4 : position + 8], "big", signed=True)
        if frame_type not in {0, 1, 2} or not (30 if frame_type == 2 else 4) <= size <= LIMIT:
            return items, None
        data = stream[position + 8 : position + 4 + size]
        if len(data) < size - 4:
            break
        if frame_type == 2:
            timestamp = int.from_bytes(data[:8], "big", signed=True)
            items.append((timestamp, int.from_bytes(data[8:10], "big"), data[10:26], data[26:]))
        else:
            items.append((frame_type, data))
        position += 4 + size
    return items, len(stream) - position


def check(data: bytes, make_decoder: MakeDecoder = frame_decoder) -> None:
    """Read ``data`` as a chunk size, a number of publishes and a stream, and check all that is promised.

    :param make_decoder: the decoder under test
    :raises AssertionError: if a promise is broken
    """
    if len(data) < 2:
        return
    stream = data[2:]
    items, remains = expected(stream)
    decoder = make_decoder(_make_message, max_frame_size=LIMIT)
    step = data[0] or len(stream) or 1
    decoded = _decode(decoder, stream, step, breaks=remains is None, remains=remains or 0)
    # An error hides what came before it in its chunk, and only that.
    for kind in (4, 2):
        found = [item for item in decoded if len(item) == kind]
        wanted = [item for item in items if len(item) == kind]
        assert found == (wanted[: len(found)] if remains is None else wanted)
    _pair([item for item in decoded if len(item) == 2], data[1] % 8)


def _make_message(_source: None, timestamp: int, attempts: int, message_id: bytes, body: bytes) -> Item:
    return timestamp, attempts, message_id, body


def _decode(
    decoder: Decoder[None, Item], stream: bytes, step: int, *, breaks: bool, remains: int
) -> list[Item]:
    decoded: list[Item] = []
    for start in range(0, len(stream), step):
        try:
            messages, frames = decoder.feed(stream[start : start + step], None)
        except ProtocolError:
            assert breaks, "bytes that keep to the protocol were refused"
            return decoded
        decoded += messages
        decoded += frames
    assert not breaks, "bytes that break the protocol were not refused"
    assert decoder.buffered == remains
    return decoded


def _pair(frames: list[Item], publishes: int) -> None:
    session: ClientSession[int] = ClientSession()
    session.sending(Command.IDENTIFY, 0)
    for request in range(1, publishes + 1):
        session.sending(Command.PUB, request)
    oldest = 0
    for frame_type, data in frames:
        assert isinstance(frame_type, int)
        assert isinstance(data, bytes)
        try:
            event = session.received((frame_type, data))
        except ProtocolError:
            assert oldest > publishes
            assert frame_type == 0
            assert data != HEARTBEAT
            continue
        match event:
            case Heartbeat():
                assert (frame_type, data) == (0, HEARTBEAT)
            case ResponseFailed(message_id, error):
                assert frame_type == 1
                assert not error.fatal
                assert message_id is None or message_id in data
            case Answer(request, answer):
                assert (frame_type, answer) == (0, data)
                assert request == oldest
                oldest += 1
            case Refusal(refused, error):
                assert frame_type == 1
                assert error.fatal
                assert refused == (oldest if oldest <= publishes else None)
                oldest += 1
    assert session.abandon() == list(range(oldest, publishes + 1))


def main() -> None:
    """Run atheris until it finds something, or is stopped."""
    atheris = importlib.import_module("atheris")
    atheris.instrument_all()
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
