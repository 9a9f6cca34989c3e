"""Files that a killed process has left in the work directory, and the lock of that directory.

Until a file is in the storage, it is on this machine alone. Its messages are finished nevertheless: if they
waited for the end of the file, nsqd would deliver them again. So the next process first moves such files, up
to the last whole line or member. The lock ensures that no other process writes them, and the mark that all
of them belong to this command.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

from ...errors import NSQError
from ...files import locked_file
from ...storage.remote import RemotePlace
from .encodings import whole_length
from .finished_files import make_parent, move_exclusively

OWN = ".nsq-anyio-to-file"
"""The file that marks a directory as this command's; it is locked."""

_log = logging.getLogger("nsq_anyio.to_file")


class WorkDirUnusable(NSQError):
    """The directory is in use by another process, or holds other files."""


@contextmanager
def own_directory(path: Path) -> Generator[None]:
    """Lock a directory for the length of the block; Windows has no such lock.

    :raises WorkDirUnusable: if another process has locked it, or it holds files and no mark
    :raises OSError: if it cannot be used otherwise
    """
    mark = path / OWN
    if not mark.exists() and any(path.iterdir()):
        raise WorkDirUnusable(
            f"--work-dir={path} has files that are not of this command, and would be moved to the URL, too: "
            "name an empty directory"
        )
    with ExitStack() as stack:
        try:
            stack.enter_context(locked_file(mark))
        except BlockingIOError as error:
            raise WorkDirUnusable(
                f"--work-dir={path} is in use by another process: give each one its own"
            ) from error
        yield


def send_leftovers(work_dir: Path, output: RemotePlace) -> None:
    """Move the files that a killed process has left; a file whose name is taken gets another name.

    :raises OSError: if a file cannot be moved; it stays
    """
    for path in sorted(work_dir.rglob("*")):
        if path.is_file() and path != work_dir / OWN:
            _send(path, output / path.relative_to(work_dir).as_posix())


def _send(path: Path, target: RemotePlace) -> None:
    # The rest may be half a line or member: it was not synced, so its messages were not finished.
    os.truncate(path, whole_length(path))
    if not path.stat().st_size:
        path.unlink()
        return
    make_parent(target)
    for number in count():
        # A prefix, because the suffix of a name says how the file is compressed.
        name = f"left-{number}.{target.name}" if number else target.name
        try:
            move_exclusively(path, target.with_name(name))
        except FileExistsError:
            continue
        _log.info("moved %s, which an earlier process had left, to %s", path, target.with_name(name))
        return
