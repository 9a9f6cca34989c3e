"""What the flags of ``to-file`` mean together, and whether files can be written so."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

import click

from .archive import ArchiveOptions
from .directories import make_directories
from .encodings import Encoding, Gzip, Zstd
from .names import NameFormat
from .topics import Topics

__all__ = [
    "check_directories",
    "check_topics_have_files_of_their_own",
    "chosen_encoding",
    "is_same",
    "local_time",
]


def is_same(work_dir: Path, output_dir: Path) -> bool:
    """Whether both are one directory, however they are written."""
    return work_dir.resolve() == output_dir.resolve()


def check_topics_have_files_of_their_own(topics: Topics, names: NameFormat, options: ArchiveOptions) -> None:
    """Topics may append to one file together, but not when the one that ends first moves it away."""
    several = topics.are_listed or len(set(topics.named)) > 1
    if several and options.moves and not options.exclusive and "<TOPIC>" not in names.filename_format:
        raise click.UsageError(
            f"--filename-format={names.filename_format!r} gives all topics one file, which --work-dir moves: "
            "add <TOPIC>"
        )


def local_time() -> datetime:
    """Now, in the time zone of this machine."""
    return datetime.now().astimezone()


def chosen_encoding(*, gzip: bool, gzip_level: int, zstd: bool, zstd_level: int) -> Encoding | None:
    """How files are compressed; None for not at all."""
    if gzip and zstd:
        raise click.UsageError("use --gzip or --zstd, not both")
    if gzip:
        return Gzip(gzip_level)
    return Zstd(zstd_level) if zstd else None


def check_directories(options: ArchiveOptions) -> None:
    """Say at once what would stop the first message."""
    for directory in dict.fromkeys((options.output_dir, options.work_dir)):
        try:
            make_directories(directory)
        except OSError as error:
            raise click.ClickException(f"cannot make directory {directory}: {error.strerror}") from error
        if not os.access(directory, os.W_OK | os.X_OK):
            raise click.ClickException(f"cannot write to directory {directory}: permission denied")
    if options.output_dir.stat().st_dev != options.work_dir.stat().st_dev:
        raise click.ClickException(
            f"--work-dir={options.work_dir} and --output-dir={options.output_dir} are on different file "
            "systems: finished files are moved without copying, so both must be on one"
        )
