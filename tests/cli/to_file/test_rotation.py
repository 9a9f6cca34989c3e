"""The files of a topic: what is in them, and what they are called."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from nsq_anyio.cli.to_file.encodings import Gzip
from nsq_anyio.cli.to_file.rotation import Rotation

from .rotation_setup import Setup, setup

__all__ = ["setup"]


def test_a_line_for_each_message_as_soon_as_written(setup: Setup) -> None:
    archive = setup.archive()
    archive.write([b"a", b"\0\xff"])
    assert setup.files() == {"t.04": b"a\n\0\xff\n"}
    archive.write([b"b"])
    archive.sync()
    archive.close()
    assert setup.files() == {"t.04": b"a\n\0\xff\nb\n"}


def test_directories_may_be_numbered(setup: Setup, tmp_path: Path) -> None:
    for body in (b"a", b"b"):
        archive = setup.archive(work=tmp_path / "work", filename_format="<TOPIC>/<REV>/x")
        archive.write([body])
        if body == b"b":
            (setup.output / "t/-000001/x").write_bytes(b"meanwhile")
        archive.close()
    assert setup.files() == {"t/-000000/x": b"a\n", "t/-000001/x": b"meanwhile", "t/-000002/x": b"b\n"}


def test_a_file_that_exists_is_appended_to(setup: Setup) -> None:
    for body in (b"a", b"b"):
        archive = setup.archive()
        archive.write([body])
        archive.close()
    assert setup.files() == {"t.04": b"a\nb\n"}


def test_a_line_that_was_cut_does_not_damage_the_next(setup: Setup) -> None:
    setup.output.mkdir()
    (setup.output / "t.04").write_bytes(b"a\ncut in the mid")
    archive = setup.archive()
    archive.write([b"b"])
    archive.write([b"c"])
    archive.close()
    assert setup.files() == {"t.04": b"a\ncut in the mid\nb\nc\n"}


def test_synced_is_on_the_disk_with_its_name(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def noting(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noting)
    archive = setup.archive(filename_format="a/b/<TOPIC>")
    archive.write([b"a"])
    output = setup.output
    made = [str(path) for path in (output.parent, output, output / "a")]
    assert synced == made  # each new directory's entry, in the directory above
    archive.sync()
    assert synced == [*made, str(output / "a/b/t"), str(output / "a/b")]
    archive.sync()
    assert len(synced) == len(made) + 2  # nothing new, nothing to do
    archive.write([b"b"])
    archive.sync()
    assert synced[len(made) + 2 :] == [str(output / "a/b/t")]
    archive.close()


def test_a_new_name_begins_a_new_file(setup: Setup) -> None:
    archive = setup.archive()
    archive.write([b"a"])
    setup.passes(3600)
    archive.write([b"b"])
    archive.close()
    assert setup.files() == {"t.04": b"a\n", "t.05": b"b\n"}


def test_rotation_by_size_splits_a_batch(setup: Setup) -> None:
    archive = setup.archive(rotation=Rotation(size=5))
    archive.write([b"aa", b"bb", b"cc", b"dddddddd"])
    archive.write([b"e"])
    archive.write([b"ffff", b"g"])
    archive.close()
    # As the real one has it: a file is full once it is larger, so the last message reaches beyond.
    assert setup.files() == {
        "t.04-000000": b"aa\nbb\n",
        "t.04-000001": b"cc\ndddddddd\n",
        "t.04-000002": b"e\nffff\n",
        "t.04-000003": b"g\n",
    }


def test_a_full_file_that_exists_is_not_appended_to(setup: Setup) -> None:
    setup.output.mkdir()
    (setup.output / "t.04-000000").write_bytes(b"123456")
    (setup.output / "t.04-000001").write_bytes(b"1234\n")
    archive = setup.archive(rotation=Rotation(size=5))
    archive.write([b"a", b"b"])
    archive.close()
    assert setup.files() == {
        "t.04-000000": b"123456",
        "t.04-000001": b"1234\na\n",
        "t.04-000002": b"b\n",
    }


def test_rotation_by_interval_never_appends(setup: Setup) -> None:
    setup.output.mkdir()
    (setup.output / "t.04-000000").write_bytes(b"")
    archive = setup.archive(rotation=Rotation(interval=60))
    archive.write([b"a"])
    setup.passes(60)
    archive.write([b"b"])
    setup.passes(0.5)
    archive.write([b"c"])
    archive.close()
    assert setup.files() == {"t.04-000000": b"", "t.04-000001": b"a\nb\n", "t.04-000002": b"c\n"}


def test_numbers_begin_anew_with_a_new_name(setup: Setup) -> None:
    archive = setup.archive(rotation=Rotation(size=1))
    archive.write([b"a", b"b"])
    setup.passes(3600)
    archive.write([b"c"])
    archive.close()
    assert list(setup.files()) == ["t.04-000000", "t.04-000001", "t.05-000000"]


def test_empty_files_mark_the_hours(setup: Setup) -> None:
    archive = setup.archive()
    archive.tick()
    archive.tick()
    assert setup.files() == {"t.04": b""}
    setup.passes(3600)
    archive.tick()
    archive.close()
    assert setup.files() == {"t.04": b"", "t.05": b""}


def test_empty_files_are_skipped(setup: Setup) -> None:
    archive = setup.archive(skip_empty_files=True)
    archive.tick()
    archive.close()
    assert not setup.output.exists()
    archive.write([b"a"])
    setup.passes(3600)
    archive.tick()  # ends the file
    assert archive.path is None
    archive.close()
    assert setup.files() == {"t.04": b"a\n"}


def test_each_sync_ends_a_member(setup: Setup) -> None:
    archive = setup.archive(encoding=Gzip())
    archive.write([b"a"])
    archive.write([b"b"])
    assert setup.files() == {"t.04-000000.gz": b""}
    archive.sync()
    first = setup.files()["t.04-000000.gz"]
    assert gzip.decompress(first) == b"a\nb\n"
    archive.write([b"c"])
    archive.close()
    (whole,) = setup.files().values()
    assert whole.startswith(first)
    assert gzip.decompress(whole) == b"a\nb\nc\n"


def test_an_empty_compressed_file_can_be_read(setup: Setup) -> None:
    archive = setup.archive(encoding=Gzip())
    archive.tick()
    archive.close()
    (content,) = setup.files().values()
    assert content
    assert gzip.decompress(content) == b""


def test_finished_files_are_moved(setup: Setup, tmp_path: Path) -> None:
    work = tmp_path / "work"
    archive = setup.archive(work=work, filename_format="<TOPIC>/<DATETIME><REV>")
    archive.write([b"a"])
    archive.sync()
    assert (setup.files(), setup.files(work)) == ({}, {"t/04-000000": b"a\n"})
    archive.close()
    assert (setup.files(), setup.files(work)) == ({"t/04-000000": b"a\n"}, {})
    archive.write([b"b"])
    archive.close()
    assert setup.files() == {"t/04-000000": b"a\n", "t/04-000001": b"b\n"}


def test_moves_overwrite_nothing(setup: Setup, tmp_path: Path) -> None:
    setup.output.mkdir()
    (setup.output / "t.04-000000").write_bytes(b"before")
    archive = setup.archive(work=tmp_path / "work")
    archive.write([b"a"])
    assert archive.path == tmp_path / "work" / "t.04-000001"  # what is taken already is passed over
    (setup.output / "t.04-000001").write_bytes(b"meanwhile")
    archive.close()
    archive.write([b"b"])
    archive.close()
    assert setup.files() == {
        "t.04-000000": b"before",
        "t.04-000001": b"meanwhile",
        "t.04-000002": b"a\n",
        "t.04-000003": b"b\n",
    }
    assert setup.files(tmp_path / "work") == {}


def test_the_work_of_a_killed_process_goes_on(setup: Setup, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "t.04-000000").write_bytes(b"a\ncut")
    archive = setup.archive(work=work)
    archive.write([b"b"])
    archive.close()
    assert setup.files() == {"t.04-000000": b"a\ncut\nb\n"}


def test_a_file_in_place_of_a_directory(setup: Setup) -> None:
    setup.output.write_bytes(b"")
    with pytest.raises(FileExistsError, match="output"):
        setup.archive().write([b"a"])
