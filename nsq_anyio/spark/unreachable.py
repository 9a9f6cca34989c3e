"""What a task does if its nsqd cannot be reached, because it is gone, has moved, or is down for a while.

The plan of a batch is an upper bound. So the partition of such an nsqd ends with the rows that are stored,
and the other messages wait in nsqd. If the task failed instead, the query would fail at every start, and the
rows of all other nsqds would not reach the sink. But if no nsqd can be reached, the task tries its own for
another ``connectTimeout``, and then fails: probably this machine is cut off, or the options are wrong.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial

import anyio
import anyio.to_thread

from ..address import nsqd_addresses
from ..connection import NoMessages, open_connection, prepared
from ..errors import ConnectionFailed, NSQError, ProtocolError, TLSFailed
from ..options import ConnectionOptions
from ..storage.place import Place, storage_of
from .chunks import Partition
from .fill import fill
from .options import ReadOptions
from .spool_errors import as_spool_error

_SUFFIX = ".unreachable"

_log = logging.getLogger("nsq_anyio.spark")


async def fill_unless_unreachable(
    options: ReadOptions,
    nsqd: str,
    rows: int,
    partition: Partition,
    *,
    max_bytes: int | None,
    others: Iterable[str],
) -> None:
    """Fill a partition as `fill` does; if its nsqd cannot be reached, end it with the rows that are stored.

    :param others: the other nsqds of the query. If none of them can be reached either, and no rows of the
        batch are stored, the error is raised
    :raises NSQError: as `fill`
    """
    try:
        await fill(options, nsqd, rows, partition, max_bytes=max_bytes)
    except TLSFailed:
        raise  # the nsqd was reached
    except (ConnectionFailed, ProtocolError) as error:
        is_anything_stored = await anyio.to_thread.run_sync(_has_chunks, partition.path.parent)
        if not is_anything_stored and not await _is_any_reachable(options, set(others) - {nsqd}):
            # The only nsqd may have been started again.
            await fill(options, nsqd, rows, partition, max_bytes=max_bytes)
            return
        _log.warning("%s: the batch ends without its messages, which a later batch reads", error)
        await anyio.to_thread.run_sync(_note, partition, str(error))
        await fill(options, nsqd, 0, partition)


def why_unreachable(partition: Partition) -> str | None:
    """Return why the nsqd of a partition could not be reached; None if it could."""
    try:
        return storage_of(partition.path).get(_mark(partition)).decode(errors="replace")
    except OSError:
        return None


def _note(partition: Partition, reason: str) -> None:
    # Only for the driver's log; the partition itself does not depend on it.
    try:
        storage_of(partition.path).replace(_mark(partition), reason.encode())
    except OSError as error:
        _log.warning("cannot note in the spool that an nsqd is unreachable: %s", error)


def _mark(partition: Partition) -> Place:
    return partition.path.with_name(partition.path.name + _SUFFIX)


def _has_chunks(epoch: Place) -> bool:
    """Return whether any task of the batch has reached its nsqd; such a task has stored a chunk."""
    with as_spool_error(epoch):
        return any(file.name.endswith(".arrow") for file in storage_of(epoch).files(epoch))


async def _is_any_reachable(options: ReadOptions, nsqds: Iterable[str]) -> bool:
    connection = await anyio.to_thread.run_sync(options.consumer_connection)
    found: list[str] = []
    with anyio.move_on_after(options.connect_timeout):
        async with anyio.create_task_group() as tasks:

            async def ask(nsqd: str) -> None:
                if await _is_reachable(nsqd, connection):
                    found.append(nsqd)
                    tasks.cancel_scope.cancel()

            for nsqd in nsqds:
                tasks.start_soon(partial(ask, nsqd))
    return bool(found)


async def _is_reachable(nsqd: str, options: ConnectionOptions) -> bool:
    try:
        (address,) = nsqd_addresses(nsqd)
        async with open_connection(address, prepared(options), NoMessages()):
            return True
    except NSQError as error:
        _log.warning("another nsqd of the query cannot be reached either: %s", error)
        return False
