"""Files that go to a storage: they are moved whole, nothing is replaced, and what is left is moved later."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from nsq_anyio.cli.main import cli
from nsq_anyio.cli.to_file.directories import OWN, WorkDirUnusable, locked_directory, send_leftovers
from nsq_anyio.cli.to_file.encodings import Encoding, Gzip
from nsq_anyio.cli.to_file.file_names import NameFormat
from nsq_anyio.cli.to_file.rotation import FileOptions, RotatingFile, Rotation

from .fake_store import OUTPUT, Store, store
from .rotation_setup import Setup, setup

__all__ = ["setup", "store"]


def archive(
    setup: Setup, work: Path, *, rotation: Rotation | None = None, encoding: Encoding | None = None
) -> RotatingFile:
    options = FileOptions(
        output_dir=OUTPUT,
        work_dir=work,
        encoding=encoding,
        rotation=rotation or Rotation(),
        skip_empty_files=False,
    )
    names = NameFormat("<TOPIC>/<DATETIME><REV>", "%H", "", "", options.numbered).of_topic("t")
    return RotatingFile(names, options, clock=lambda: setup.now, monotonic=setup.seconds)


def send(writing: RotatingFile) -> None:
    for file in writing.take_ended():
        file.move()


def test_a_file_is_put_when_it_ends(setup: Setup, store: Store, tmp_path: Path) -> None:
    writing = archive(setup, tmp_path, rotation=Rotation(size=3))
    writing.write([b"a", b"b"])
    writing.sync()
    assert store.files == {}
    assert setup.files(tmp_path) == {"t/04-000000": b"a\nb\n"}
    writing.write([b"c"])
    send(writing)
    assert store.files == {f"{OUTPUT}/t/04-000000": b"a\nb\n"}
    writing.close()
    send(writing)
    assert store.files[f"{OUTPUT}/t/04-000001"] == b"c\n"
    assert setup.files(tmp_path) == {}


def test_a_name_that_is_taken_is_not_replaced(setup: Setup, store: Store, tmp_path: Path) -> None:
    store.files[f"{OUTPUT}/t/04-000000"] = b"earlier"
    writing = archive(setup, tmp_path)
    writing.write([b"a"])
    store.files[f"{OUTPUT}/t/04-000001"] = b"meanwhile"
    writing.close()
    send(writing)
    assert list(store.files.values()) == [b"earlier", b"meanwhile", b"a\n"]
    assert f"{OUTPUT}/t/04-000002" in store.files


def test_what_cannot_be_put_stays(setup: Setup, store: Store, tmp_path: Path) -> None:
    writing = archive(setup, tmp_path)
    writing.write([b"a"])
    store.failure = FileExistsError(17, "the server has lost its mind")
    writing.close()
    with pytest.raises(OSError, match="lost its mind") as failure:
        send(writing)
    assert not isinstance(failure.value, FileExistsError), "the next number would be tried for ever"
    for part in (f"{OUTPUT}/t/04-000000", f"{tmp_path}/t/04-000000 stays"):
        assert part in str(failure.value)
    assert setup.files(tmp_path) == {"t/04-000000": b"a\n"}


def test_what_was_left_is_moved(store: Store, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    for name in (OWN, "one.gz", "t/two.gz"):
        (tmp_path / name).write_bytes(f"{name}\n".encode())
    store.files[f"{OUTPUT}/t/two.gz"] = b"another"
    send_leftovers(tmp_path, OUTPUT)
    assert store.files == {
        f"{OUTPUT}/one.gz": b"one.gz\n",
        f"{OUTPUT}/t/two.gz": b"another",
        f"{OUTPUT}/t/left-1.two.gz": b"t/two.gz\n",
    }
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [OWN]


def test_what_was_not_synced_is_not_moved(store: Store, tmp_path: Path) -> None:
    member = Gzip().encode(b"one\n")
    (tmp_path / "half.gz").write_bytes(member + member[:-1])
    (tmp_path / "half").write_bytes(b"one\ntw")
    (tmp_path / "nothing.gz").write_bytes(member[:3])
    send_leftovers(tmp_path, OUTPUT)
    assert store.files == {f"{OUTPUT}/half": b"one\n", f"{OUTPUT}/half.gz": member}
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_waits_to_be_moved_is_not_used_again(setup: Setup, store: Store, tmp_path: Path) -> None:
    writing = archive(setup, tmp_path)
    writing.write([b"a"])
    setup.passes(3600)
    writing.write([b"b"])
    setup.passes(-3600)
    writing.write([b"c"])
    writing.close()
    send(writing)
    assert store.files == {
        f"{OUTPUT}/t/04-000000": b"a\n",
        f"{OUTPUT}/t/05-000000": b"b\n",
        f"{OUTPUT}/t/04-000001": b"c\n",
    }


def test_a_directory_has_one_owner_after_another(tmp_path: Path) -> None:
    with locked_directory(tmp_path):
        (tmp_path / "file").touch()
        with pytest.raises(WorkDirUnusable, match="in use by another process"), locked_directory(tmp_path):
            pass
    with locked_directory(tmp_path):
        pass


def test_files_of_others_are_not_moved(tmp_path: Path) -> None:
    (tmp_path / "letter").touch()
    with pytest.raises(WorkDirUnusable, match="name an empty directory"), locked_directory(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["letter"]


def test_compressed_files_are_put_too(setup: Setup, store: Store, tmp_path: Path) -> None:
    writing = archive(setup, tmp_path, encoding=Gzip(1))
    writing.write([b"a"])
    writing.close()
    send(writing)
    (content,) = store.files.values()
    assert content.startswith(b"\x1f\x8b")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--output-dir=s3://bucket/archive"], "s3://bucket/archive needs --work-dir"),
        (["--output-dir=ftp://host/archive"], "Invalid value for '--output-dir': use the absolute path"),
        (["--output-dir=s3://key:secret@bucket/archive"], "credentials come from the environment"),
        (["--output-dir=s3://bucket"], "name a directory in s3://bucket"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused(arguments: list[str], problem: str) -> None:
    result = CliRunner().invoke(
        cli, ["to-file", "--topic=t", "--nsqd-tcp-address=127.0.0.1:1", *arguments], standalone_mode=True
    )
    assert result.exit_code == 2
    assert problem in " ".join(result.output.split())


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "nsq_anyio.storage.objects", None)
    arguments = ["--topic=t", "--nsqd-tcp-address=127.0.0.1:1", "--output-dir=gs://none/archive"]
    result = CliRunner().invoke(cli, ["to-file", *arguments, f"--work-dir={tmp_path}"])
    assert result.exit_code == 1
    assert "pip install 'nsq-anyio[object-store]'" in result.output
