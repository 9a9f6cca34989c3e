"""``nsqd.dat``: the topics and channels of an nsqd, and which of them are paused.

If the file is damaged, nsqd would refuse to start; if it is missing, nsqd would forget its topics. This
server finds the topics by the files of their queues instead.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from ...names import is_ephemeral, is_valid_name
from .queue_files import bad_path, queue_names

_logger = logging.getLogger(__name__)

# As in nsqd: on Windows, file names cannot contain colons.
_SEPARATOR = ";" if os.name == "nt" else ":"


class _DamagedError(Exception):
    pass


@dataclass(slots=True)
class StoredTopic:
    """A topic in ``nsqd.dat``.

    :ivar channels: whether each channel is paused, by its name
    """

    is_paused: bool = False
    channels: dict[str, bool] = field(default_factory=dict[str, bool])


def topics_path(directory: Path) -> Path:
    """Return the path of the file."""
    return directory / "nsqd.dat"


def queue_name(topic: str, channel: str | None = None) -> str:
    """Return the name of the queue of a topic, or of a channel."""
    return topic if channel is None else f"{topic}{_SEPARATOR}{channel}"


def format_topics(topics: Mapping[str, StoredTopic], version: str) -> bytes:
    """Return the content of the file, without ephemeral topics and channels."""
    content = {
        "topics": [
            {
                "name": name,
                "paused": topic.is_paused,
                # Go writes null for an empty list.
                "channels": [
                    {"name": channel, "paused": is_paused}
                    for channel, is_paused in topic.channels.items()
                    if not is_ephemeral(channel)
                ]
                or None,
            }
            for name, topic in topics.items()
            if not is_ephemeral(name)
        ]
        or None,
        "version": version,
    }
    return json.dumps(content, separators=(",", ":")).encode()


def load_topics(directory: Path) -> dict[str, StoredTopic]:
    """Return the topics; names that are not valid are left out.

    :raises OSError: if the directory or the file cannot be read
    """
    path = topics_path(directory)
    found = queue_names(os.listdir(directory))  # noqa: PTH208
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        if found:
            _logger.warning("%s is missing; the topics are those whose files are there", path)
        return _by_files(found)
    try:
        return _parse(data)
    except (_DamagedError, ValueError, RecursionError) as error:
        _logger.warning(
            "%s is damaged, and saved as %s; the topics are those whose files are there, none is paused: %s",
            path,
            bad_path(path).name,
            error,
        )
        path.replace(bad_path(path))
        return _by_files(found)


def _by_files(names: Iterable[str]) -> dict[str, StoredTopic]:
    topics: dict[str, StoredTopic] = {}
    for name in names:
        topic, separator, channel = name.partition(_SEPARATOR)
        if is_valid_name(topic) and (is_valid_name(channel) or not separator):
            stored = topics.setdefault(topic, StoredTopic())
            if separator:
                stored.channels[channel] = False
    return topics


def _parse(data: bytes) -> dict[str, StoredTopic]:
    topics: dict[str, StoredTopic] = {}
    content: object = json.loads(data.decode("utf-8", "replace"))
    if not isinstance(content, dict):
        raise _DamagedError("it is not an object")
    for topic in _objects(cast("dict[str, object]", content), "topics"):
        name = _name(topic, "topic")
        if name is None:
            continue
        stored = topics.setdefault(name, StoredTopic())
        stored.is_paused = _is_paused(topic)
        for channel in _objects(topic, "channels"):
            channel_name = _name(channel, "channel")
            if channel_name is not None:
                stored.channels[channel_name] = _is_paused(channel)
    return topics


def _objects(content: dict[str, object], key: str) -> Iterator[dict[str, object]]:
    value = content.get(key)
    if value is None:
        return
    if not isinstance(value, list):
        raise _DamagedError(f"{key} is not a list")
    for element in cast("list[object]", value):
        if not isinstance(element, dict):
            raise _DamagedError(f"{key} has an element that is not an object")
        yield cast("dict[str, object]", element)


def _name(content: dict[str, object], kind: str) -> str | None:
    name = content.get("name")
    if not isinstance(name, str):
        raise _DamagedError(f"a {kind} has no name")
    if is_valid_name(name):
        return name
    _logger.warning("nsqd.dat: %s %r is left out, because its name is not valid", kind, name)
    return None


def _is_paused(content: dict[str, object]) -> bool:
    value = content.get("paused", False)
    if not isinstance(value, bool):
        raise _DamagedError(f"paused is {value!r}")
    return value
