"""The file that preserves the due times of deferred messages across a restart.

nsqd stores deferred messages without their delay, so that they are delivered at once after a restart. This
file, which real nsqds ignore, adds the due time of each message, and its place on disk. A line is a JSON
array: the name of the queue, the message's id in hexadecimal, the due time in Unix nanoseconds, the number of
the file, the position there, and the nanoseconds that were left of the delay. The last bounds the delay in
case the clock was set back.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, cast

from .queue_files import Place, replace_file

_logger = logging.getLogger(__name__)


class Delay(NamedTuple):
    """The due time of a deferred message.

    :ivar queue: the name of its queue
    :ivar due: in Unix nanoseconds
    :ivar left: the rest of the delay when nsqd ended, in nanoseconds
    """

    queue: str
    id: bytes
    due: int
    place: Place
    left: int


def delays_path(directory: Path) -> Path:
    """Return the path of the file."""
    return directory / "nsq-anyio.deferred"


def write_delays(directory: Path, delays: Iterable[Delay]) -> None:
    """Replace the file.

    :raises OSError: if that fails
    """
    lines = [
        json.dumps([delay.queue, delay.id.hex(), delay.due, *delay.place, delay.left]) for delay in delays
    ]
    replace_file(delays_path(directory), "".join(f"{line}\n" for line in lines).encode(), sync=True)


def read_delays(directory: Path) -> list[Delay]:
    """Return the delays; damaged lines are left out.

    :raises OSError: if the file exists and cannot be read
    """
    path = delays_path(directory)
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    delays: list[Delay] = []
    damaged = 0
    for line in lines:
        try:
            delays.append(_parse(line))
        except (ValueError, RecursionError):
            damaged += 1
    if damaged:
        _logger.warning("%s: %d lines are damaged; the messages there come without delay", path, damaged)
    return delays


def _parse(line: bytes) -> Delay:
    match cast("list[object]", json.loads(line)):
        case [str(queue), str(message_id), int(due), int(file), int(position), int(left)]:
            return Delay(queue, bytes.fromhex(message_id), due, (file, position), left)
        case [str(queue), str(message_id), int(due), int(file), int(position)]:  # of an older version
            return Delay(queue, bytes.fromhex(message_id), due, (file, position), due)
        case _:
            raise ValueError("not the delay of a message")
