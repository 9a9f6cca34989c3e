"""Checks of the directories at the start, so that an error does not wait for the first file."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import click

from ...storage.place import Place
from ..in_thread import in_thread
from .finished_files import check_store, make_directories
from .leftovers import WorkDirUnusable, own_directory, send_leftovers
from .rotation import FileOptions


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

    :raises click.ClickException: if they cannot
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
    """For a URL, lock the work directory during the block, and first move the files of a killed process.

    :raises click.ClickException: if the directory is locked or holds other files, or a file cannot be moved
    """
    with ExitStack() as stack:
        if not isinstance(options.output_dir, Path):
            try:
                stack.enter_context(own_directory(options.work_dir))
                in_thread(partial(send_leftovers, options.work_dir, options.output_dir))
            except WorkDirUnusable as error:
                raise click.ClickException(str(error)) from error
            except OSError as error:
                raise click.ClickException(f"cannot use --work-dir={options.work_dir}: {error}") from error
        yield
