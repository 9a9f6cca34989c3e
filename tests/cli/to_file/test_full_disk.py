"""What stays of a topic's files when the disk is full."""

from __future__ import annotations

import gzip
import os
import resource
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nsq_anyio.cli.to_file.encodings import Encoding, Gzip
from nsq_anyio.cli.to_file.rotation import Rotation

from .rotation_setup import Setup, setup

__all__ = ["setup"]


@contextmanager
def files_of_at_most(size: int) -> Generator[None]:
    """A full disk: the kernel refuses to write further than that. Python ignores the signal."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("encoding", [None, Gzip()])
def test_a_full_disk_leaves_what_was_synced(setup: Setup, encoding: Encoding | None) -> None:
    archive = setup.archive(encoding=encoding, rotation=Rotation(interval=60))
    archive.write([b"a"])
    archive.sync()
    before = setup.files()
    with files_of_at_most(1000), pytest.raises(OSError, match="File too large"):
        archive.write([os.urandom(10_000)])
        archive.sync()
    archive.abandon()
    assert setup.files() == before
    assert archive.path is None


def test_a_full_disk_cuts_nothing_from_a_file_that_others_may_append_to(setup: Setup) -> None:
    archive = setup.archive()
    with files_of_at_most(1000), pytest.raises(OSError, match="File too large"):
        archive.write([b"a" * 10_000])
    archive.abandon()
    assert setup.files() == {"t.04": b"a" * 1000}
    archive = setup.archive()
    archive.write([b"b"])
    archive.close()
    assert setup.files() == {"t.04": b"a" * 1000 + b"\nb\n"}


def test_a_full_disk_leaves_no_half_a_line_in_a_file_that_is_moved(setup: Setup, tmp_path: Path) -> None:
    archive = setup.archive(work=tmp_path / "work")
    archive.write([b"a", b"b"])
    archive.sync()
    with files_of_at_most(1000), pytest.raises(OSError, match="File too large"):
        archive.write([b"c" * 10_000])
    archive.abandon()
    assert setup.files() == {"t.04-000000": b"a\nb\n"}
    assert setup.files(tmp_path / "work") == {}


def test_a_full_disk_before_the_first_sync_moves_nothing(setup: Setup, tmp_path: Path) -> None:
    archive = setup.archive(work=tmp_path / "work")
    with files_of_at_most(1000), pytest.raises(OSError, match="File too large"):
        archive.write([b"c" * 10_000])
    archive.abandon()
    assert (setup.files(), setup.files(tmp_path / "work")) == ({}, {})


@pytest.mark.parametrize("left", [b"a\nhalf a li", b"a\nb\n"])
def test_a_full_disk_moves_what_a_killed_process_left_if_it_is_whole(
    setup: Setup, tmp_path: Path, left: bytes
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "t.04-000000").write_bytes(left)
    archive = setup.archive(work=work)
    with files_of_at_most(1000), pytest.raises(OSError, match="File too large"):
        archive.write([b"c" * 10_000])
    archive.abandon()
    found = {"t.04-000000": left}
    assert (setup.files(), setup.files(work)) == ((found, {}) if left.endswith(b"\n") else ({}, found))


def test_a_full_disk_cuts_nothing_that_others_wrote_against_the_rules(setup: Setup, tmp_path: Path) -> None:
    work = tmp_path / "work"
    archive = setup.archive(work=work)
    archive.write([b"a"])
    archive.sync()
    with (work / "t.04-000000").open("ab") as other:
        other.write(b"other\n")
    with files_of_at_most(1000), pytest.raises(OSError, match="File too large"):
        archive.write([b"c" * 10_000])
    archive.abandon()
    assert setup.files() == {}
    assert setup.files(work)["t.04-000000"].startswith(b"a\nother\nc")


def test_a_full_disk_at_the_first_sync_leaves_no_file(setup: Setup, tmp_path: Path) -> None:
    archive = setup.archive(encoding=Gzip(), work=tmp_path / "work")
    with files_of_at_most(1000), pytest.raises(OSError, match="File too large"):
        archive.write([os.urandom(10_000)])
        archive.sync()
    archive.abandon()
    assert (setup.files(), setup.files(tmp_path / "work")) == ({}, {})


def test_what_was_synced_is_moved_after_an_error(setup: Setup, tmp_path: Path) -> None:
    archive = setup.archive(encoding=Gzip(), work=tmp_path / "work")
    archive.write([b"a"])
    archive.sync()
    with files_of_at_most(1000), pytest.raises(OSError, match="File too large"):
        archive.write([os.urandom(10_000)])
        archive.sync()
    archive.abandon()
    assert {name: gzip.decompress(content) for name, content in setup.files().items()} == {
        "t.04-000000.gz": b"a\n"
    }
    assert setup.files(tmp_path / "work") == {}
    archive.abandon()  # nothing more to do
