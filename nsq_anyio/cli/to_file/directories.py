"""Checks of the directories at the start, and the files that a killed process has left there.

With a URL as the output directory, a file is on this machine alone until it is in the storage. Its messages
are finished nevertheless: if they waited for the end of the file, nsqd would deliver them again. So the next
process first moves the files that a killed process has left, up to the last whole line or member. The lock
of the work directory keeps other processes from writing them. The mark shows that all files there belong to
this command.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path

import click

from ...errors import NSQError
from ...files import locked_file
from ...storage.place import Place
from ...storage.remote import RemotePlace
from ..in_thread import in_thread
from .encodings import whole_length
from .finished_files import check_store, make_directories, make_parent, move_exclusively
from .rotation import FileOptions

OWN = ".nsq-anyio-to-file"
"""The file that marks a directory as this command's; it is locked."""

_log = logging.getLogger("nsq_anyio.to_file")


class WorkDirUnusable(NSQError):
    """The directory is in use by another process, or holds other files."""


@contextmanager
def locked_directory(path: Path) -> Generator[None]:
    """Mark and lock a directory for the length of the block; Windows has no such lock.

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
    # The messages of a partial line or member at the end were not synced, so they were not finished.
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


def chosen_work_dir(work_dir: Path | None, output_dir: Place) -> Path:
    """Return the directory of unfinished files.

    :raises click.UsageError: if it is required and not given
    """
    if isinstance(output_dir, Path):
        return output_dir if work_dir is None or work_dir.resolve() == output_dir.resolve() else work_dir
    if work_dir is None:
        raise click.UsageError(
            f"--output-dir={output_dir} needs --work-dir, a directory of this machine in which files are "
            "written before they are moved"
        )
    return work_dir


def check_directories(options: FileOptions) -> None:
    """Make the directories, and check that files can be written and moved there.

    :raises click.ClickException: if not
    """
    _check_directory(options.work_dir)
    if not isinstance(options.output_dir, Path):
        try:
            in_thread(partial(check_store, options.output_dir))
        except OSError as error:
            raise click.ClickException(f"cannot write to {error}") from error
        return
    _check_directory(options.output_dir)
    if options.output_dir.stat().st_dev != options.work_dir.stat().st_dev:
        raise click.ClickException(
            f"--work-dir={options.work_dir} and --output-dir={options.output_dir} are on different file "
            "systems: finished files are moved without copying, so both must be on one"
        )


def _check_directory(directory: Path) -> None:
    try:
        make_directories(directory)
    except OSError as error:
        raise click.ClickException(f"cannot make directory {directory}: {error.strerror}") from error
    if not os.access(directory, os.W_OK | os.X_OK):
        raise click.ClickException(f"cannot write to directory {directory}: permission denied")


@contextmanager
def leftovers_moved(options: FileOptions) -> Generator[None]:
    """With a URL, lock the work directory for the block, and first move the files of a killed process.

    :raises click.ClickException: if the directory is locked or holds other files, or a file cannot be moved
    """
    with ExitStack() as stack:
        if not isinstance(options.output_dir, Path):
            try:
                stack.enter_context(locked_directory(options.work_dir))
                in_thread(partial(send_leftovers, options.work_dir, options.output_dir))
            except WorkDirUnusable as error:
                raise click.ClickException(str(error)) from error
            except OSError as error:
                raise click.ClickException(f"cannot use --work-dir={options.work_dir}: {error}") from error
        yield
