"""The directory of files that go to a storage: it is one process's own, and what it has left is sent first.

A file on its way to a storage is on this machine alone, and its messages are finished. So the next process
must send what a killed one has left, and must know that nobody else writes it or has put something there.
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
"""The file by which a directory is known as one of this command's; it is locked."""

_log = logging.getLogger("nsq_anyio.to_file")


class WorkDirUnusable(NSQError):
    """The directory is in use by another process, or has files of others."""


@contextmanager
def own_directory(path: Path) -> Generator[None]:
    """Keep a directory for this process; not on Windows, where no lock is taken.

    :raises WorkDirUnusable: if another process has it, or it holds files and is not known
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
    """Move the files that a killed process has left; one whose name is taken gets another name.

    :raises OSError: if one cannot be moved; it stays
    """
    for path in sorted(work_dir.rglob("*")):
        if path.is_file() and path != work_dir / OWN:
            _send(path, output / path.relative_to(work_dir).as_posix())


def _send(path: Path, target: RemotePlace) -> None:
    # What comes after may be half a line or member: it was not synced, so its messages were not finished.
    os.truncate(path, whole_length(path))
    if not path.stat().st_size:
        path.unlink()
        return
    make_parent(target)
    for number in count():
        # In front, because the end of a name tells how the file is compressed.
        name = f"left-{number}.{target.name}" if number else target.name
        try:
            move_exclusively(path, target.with_name(name))
        except FileExistsError:
            continue
        _log.info("moved %s, which an earlier process had left, to %s", path, target.with_name(name))
        return
