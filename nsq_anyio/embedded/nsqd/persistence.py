"""The start and the end of an nsqd with a data path, which restore and store its messages."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from ..data_path.deferred_file import Delay, delays_path, read_delays, write_delays
from ..data_path.disk import DataPathUnusable, Disk, locked
from ..data_path.disk_queue import QueueLimits
from ..data_path.jobs import Job, Work
from ..data_path.queue_files import MIN_SIZE, Record, replace_file
from ..data_path.topic_list import StoredTopic, format_topics, load_topics, queue_name, topics_path
from ..identity import NSQ_VERSION
from .broker import Broker
from .channel import Channel
from .nsqd_options import NsqdOptions

_NANOSECONDS = 1_000_000_000


@asynccontextmanager
async def open_disk(path: str | os.PathLike[str], options: NsqdOptions) -> AsyncGenerator[Disk]:
    """Lock a data path for the length of the block; at its end, store all messages, if `restore` was called.

    :raises DataPathUnusable: if the path does not exist, or another nsqd uses it; at the end, if not
        everything could be stored
    """
    limits = QueueLimits(
        max_bytes_per_file=options.max_bytes_per_file,
        max_size=options.max_msg_size + MIN_SIZE,
        sync_every=options.sync_every,
    )
    with locked(Path(path)):
        disk = Disk(Path(path), limits, options.sync_timeout)
        try:
            yield disk
        finally:
            await disk.close()


@dataclass(slots=True)
class _Found:
    """The topics and delays that are on disk at the start."""

    topics: dict[str, StoredTopic]
    deferred: dict[str, list[tuple[Delay, Record]]] = field(
        default_factory=dict[str, list[tuple[Delay, Record]]]
    )


async def restore(broker: Broker, disk: Disk) -> None:
    """Create the topics and channels that are on disk, with their messages.

    :raises DataPathUnusable: if the files cannot be read, or nothing can be written
    """
    keeps_deferred = broker.options.keep_deferred
    try:
        found = await anyio.to_thread.run_sync(_load, disk, keeps_deferred)
    except OSError as error:
        raise DataPathUnusable(disk.directory, f"{error.strerror}: {error.filename}") from error
    broker.restore(found.topics)
    now, clock = time.time_ns(), anyio.current_time()
    for topic in broker.topics.values():
        for channel in topic.channels.values():
            for delay, record in found.deferred.get(queue_name(topic.name, channel.name), ()):
                left = min(delay.left, delay.due - now)
                if channel.disk is not None and left > 0:
                    channel.disk.hold(record, clock + left / _NANOSECONDS)
    disk.serve(broker.list_topics, partial(_store_all, broker, disk))


def _load(disk: Disk, keeps_deferred: bool) -> _Found:
    directory = disk.directory
    found = _Found(load_topics(directory))
    # This also shows whether the directory can be written.
    replace_file(topics_path(directory), format_topics(found.topics, NSQ_VERSION), sync=True)
    disk.open(
        queue_name(name, channel)
        for name, topic in found.topics.items()
        for channel in (None, *topic.channels)
    )
    if keeps_deferred:
        for delay in read_delays(directory):
            record = disk.read_at(delay.queue, delay.place)
            if record is not None and record.id == delay.id:
                found.deferred.setdefault(delay.queue, []).append((delay, record))
    else:
        delays_path(directory).unlink(missing_ok=True)
    return found


def _store_all(broker: Broker, disk: Disk, work: Work) -> None:
    """Add all messages in memory to the last work."""
    jobs: dict[Channel, Job] = {}
    for topic in broker.topics.values():
        if topic.disk is not None:
            topic.disk.store_all()
        for channel in topic.channels.values():
            if channel.disk is not None:
                jobs[channel] = disk.job_of(channel.disk.backend)
    if broker.options.keep_deferred:
        work.afterwards = partial(_write_delays, disk.directory, jobs, time.time_ns(), anyio.current_time())


def _write_delays(directory: Path, jobs: dict[Channel, Job], now: int, clock: float) -> None:
    delays: list[Delay] = []
    for channel, job in jobs.items():
        if channel.disk is None or not channel.deferred:
            continue
        places = dict(zip(map(id, job.appends), job.places, strict=False))
        for message, until in channel.deferred.items():
            place = places.get(id(message)) or channel.disk.backend.place_of(message)
            if place is not None:
                left = round((until - clock) * _NANOSECONDS)
                delays.append(Delay(channel.disk.backend.queue.name, message.id, now + left, place, left))
    write_delays(directory, delays)
