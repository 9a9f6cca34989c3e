"""Why something of a spool is not there: Spark has committed its batch, or it was lost."""

from __future__ import annotations

from ..storage.place import Place, storage_of
from .spool_errors import AttemptSuperseded, SpoolDamaged, SpoolError, as_spool_error
from .spool_files import committed


def record_of(partition: Place) -> Place:
    """Return the directory with the records of a partition's chunks."""
    return partition.with_name(f"{partition.name}.record")


def check_not_committed(partition: Place) -> None:
    """Check that Spark has not committed the batch of a partition.

    :raises AttemptSuperseded: if it has
    :raises SpoolError: if the spool cannot be read
    """
    epoch = partition.parent
    with as_spool_error(epoch.parent):
        is_committed = epoch.name.isdecimal() and int(epoch.name) <= committed(epoch.parent)
    if is_committed:
        raise AttemptSuperseded(
            partition, "Spark has committed this batch: another attempt has done the work of this one"
        )


def why_gone(partition: Place) -> SpoolError | None:
    """Return the error for the outermost directory of a partition that is missing; None if none is."""
    epoch = partition.parent
    spool = epoch.parent
    storage = storage_of(partition)
    with as_spool_error(spool):
        if not storage.is_directory(spool):
            return SpoolError(
                storage.marker_of(spool),
                "is missing: spoolDir must be a path that the driver and all executors share, and "
                "must outlive the query",
            )
    try:
        check_not_committed(partition)
    except AttemptSuperseded as superseded:
        return superseded
    with as_spool_error(spool):
        lost = storage.missing([epoch, partition, record_of(partition)])
    return missing(lost[0]) if lost else None


def missing(directory: Place) -> SpoolDamaged:
    """Return the error for a directory that the driver has made, and that is missing.

    :raises SpoolError: if its storage cannot be read
    """
    storage = storage_of(directory)
    with as_spool_error(directory):
        is_something_else = storage.marker_of(directory) == directory and storage.exists(directory)
    what = "is not a directory" if is_something_else else "is missing"
    return SpoolDamaged(storage.marker_of(directory), f"{what}, and the rows stored in it are lost")
