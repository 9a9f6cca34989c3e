"""What a spool needs of its storage: the same suite for a directory, object stores and HDFS."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from nsq_anyio.storage.interface import MARKER, Entry, Storage
from nsq_anyio.storage.objects import ObjectStorage
from nsq_anyio.storage.place import Place, storage_of
from nsq_anyio.storage.remote import RemotePlace, RemoteStorage
from nsq_anyio.storage.webhdfs import WebHdfs

pytestmark = pytest.mark.timeout(180)  # HDFS takes its time to start

RIVALS = 64
OBJECT_STORES = ("s3", "gcs", "azure", "hierarchical")

on_each = pytest.mark.parametrize("store", ["posix", *OBJECT_STORES, "hdfs"], indirect=True)
remote = pytest.mark.parametrize("store", [*OBJECT_STORES, "hdfs"], indirect=True)
on_objects = pytest.mark.parametrize("store", OBJECT_STORES, indirect=True)


def names(directory: Place) -> list[str]:
    return sorted(entry.name for entry in storage_of(directory).entries(directory))


def remote_storage(place: Place) -> RemoteStorage:
    storage = storage_of(place)
    assert isinstance(storage, RemoteStorage)
    return storage


def another_client(place: Place) -> Storage[Any]:
    """A storage with connections of its own, where there are any."""
    storage = storage_of(place)
    if isinstance(storage, RemoteStorage):
        assert isinstance(place, RemotePlace)
        return WebHdfs(place.root) if isinstance(storage, WebHdfs) else ObjectStorage(place.root)
    return storage


@on_each
def test_a_file_is_put_whole_and_never_replaced(store: Place) -> None:
    storage = storage_of(store)
    for content in (b"", b"first", b"x" * 3_000_000):
        target = store / f"{len(content)}"
        assert storage.put(target, content[:7], memoryview(content)[7:])
        assert not storage.put(target, b"second")
        assert storage.get(target) == content
        assert storage.status(target).size == len(content)
    storage.sync(store)
    assert names(store) == ["0", "3000000", "5"]


@on_each
def test_of_many_puts_at_once_one_wins(store: Place) -> None:
    """Half of them on a client of its own, as processes have."""
    storage = storage_of(store)
    other = another_client(store)
    barrier = threading.Barrier(RIVALS)

    def put(number: int) -> bool:
        barrier.wait(30)
        return (storage, other)[number % 2].put(
            store / "name", b"%d" % number * 1_000, record=store / f"r{number}"
        )

    with ThreadPoolExecutor(RIVALS) as threads:
        won = [number for number, is_mine in enumerate(threads.map(put, range(RIVALS))) if is_mine]
    assert len(won) == 1
    assert storage.get(store / "name") == b"%d" % won[0] * 1_000
    assert names(store) == ["name", f"r{won[0]}"]


@on_each
def test_nothing_is_put_where_no_directory_is(store: Place) -> None:
    storage = storage_of(store)
    with pytest.raises(FileNotFoundError):
        storage.put(store / "missing" / "name", b"content")
    with pytest.raises(FileNotFoundError):
        storage.put_empty(store / "missing" / "name")
    with pytest.raises(FileNotFoundError):
        storage.entries(store / "missing")
    assert not storage.exists(store / "missing")
    assert names(store) == []


@on_each
def test_what_is_taken_out_takes_nothing_more(store: Place) -> None:
    storage = storage_of(store)
    storage.make(store / "1")
    storage.make(store / "1" / "0", store / "1" / "0.record")
    assert storage.put(store / "1" / "0" / "name", b"content", record=store / "1" / "0.record" / "record")
    left = storage.take_out(store / "1")
    with pytest.raises(FileNotFoundError):
        storage.put(store / "1" / "0" / "other", b"content")
    assert not storage.is_directory(store / "1")
    storage.delete(left)
    assert storage.taken_out(store) == []
    assert names(store) == []
    with pytest.raises(FileNotFoundError):
        storage.take_out(store / "1")


@on_each
def test_a_directory_with_directories_alone_is_deleted(store: Place) -> None:
    storage = storage_of(store)
    storage.make(store / "1")
    storage.make(store / "1" / "0", store / "1" / "1")
    storage.delete(storage.take_out(store / "1"))
    assert names(store) == []
    assert not storage.exists(store / "1")


@on_each
def test_a_killed_deletion_is_found_again(store: Place) -> None:
    storage = storage_of(store)
    storage.make(store / "1")
    storage.put(store / "1" / "name", b"content")
    storage.take_out(store / "1")
    for left in [*storage.taken_out(store), *(store / name for name in names(store))]:
        if storage.exists(left):
            storage.delete(left)
    assert names(store) == []


@on_each
def test_directories_are_made_and_missed(store: Place) -> None:
    storage = storage_of(store)
    made = [store / f"{number}" for number in range(40)]
    for _ in range(2):
        storage.make(*made)
    assert storage.missing([*made, store / "40", store / "41"]) == [store / "40", store / "41"]
    storage.make(store / "deep" / "inside", parents=True)
    assert storage.is_directory(store / "deep")
    assert storage.is_directory(store / "deep" / "inside")
    assert Entry("7", is_directory=True) in storage.entries(store)
    assert storage.entries(store / "7") == []
    storage.remove_directory(store / "7")
    assert storage.missing(made) == [store / "7"]


@on_each
def test_files_are_listed_and_removed(store: Place) -> None:
    storage = storage_of(store)
    storage.make(store / "1")
    storage.put(store / "1" / "inside", b"")
    storage.put(store / "beside", b"")
    assert Entry("beside", is_directory=False) in storage.entries(store)
    assert sorted(storage.files(store)) == [store / "1" / "inside", store / "beside"]
    assert storage.exists(store / "1")
    assert storage.exists(store / "beside")
    assert not storage.exists(store / "bes")
    assert not storage.is_directory(store / "beside")
    for _ in range(2):
        storage.remove(store / "1" / "inside", store / "beside")
    assert list(storage.files(store)) == []
    with pytest.raises(FileNotFoundError):
        storage.get(store / "beside")
    with pytest.raises(FileNotFoundError):
        storage.status(store / "beside")
    assert list(storage.files(store / "missing")) == []


@on_each
def test_marks_and_leases_are_written_again(store: Place) -> None:
    storage = storage_of(store)
    for _ in range(2):
        storage.put_empty(store / "mark")
    assert storage.get(store / "mark") == b""
    for content in (b"first", b"second"):
        storage.replace(store / "lease", content)
        assert storage.get(store / "lease") == content
    before = storage.status(store / "lease").modified
    assert abs(storage.time(store) - before) < 20
    time.sleep(1.1)  # S3 tells whole seconds
    storage.renew(store / "lease", b"second")
    assert storage.status(store / "lease").modified > before
    storage.remove(store / "lease")
    storage.renew(store / "lease", b"again")
    assert storage.get(store / "lease") == b"again"
    assert names(store) == ["lease", "mark"]


@on_each
def test_a_storage_that_keeps_a_taken_name_is_accepted(store: Place) -> None:
    storage_of(store).verify_exclusive_put(store)
    assert names(store) == []


@remote
def test_a_put_whose_answer_was_lost_has_won(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = remote_storage(store)
    create = type(storage).create

    def create_twice(self: RemoteStorage, target: RemotePlace, content: bytes) -> bool:
        create(self, target, content)
        return create(self, target, content)

    monkeypatch.setattr(type(storage), "create", create_twice)
    assert storage.put(store / "name", b"content", record=store / "record")
    assert not storage.put(store / "name", b"other")
    assert names(store) == ["name", "record"]


@remote
def test_a_name_that_is_taken_and_free_again_is_tried_again(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = remote_storage(store)
    create = type(storage).create
    refusals = [False, False]

    def refuse(self: RemoteStorage, target: RemotePlace, content: bytes) -> bool:
        return refusals.pop() if refusals else create(self, target, content)

    monkeypatch.setattr(type(storage), "create", refuse)
    assert storage.put(store / "name", b"content")
    refusals[:] = [False] * 9
    with pytest.raises(OSError, match="the name is taken, and then it is not"):
        storage.put(store / "other", b"content")


@on_objects
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_late_put_into_a_directory_that_is_deleted_meanwhile_has_lost(
    store: Place, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Its number is free again, since the chunk that had taken it is deleted."""
    storage = storage_of(store)
    storage.make(store / "1")
    storage.put(store / "1" / "name", b"first")
    create = ObjectStorage.create
    pending: list[Callable[[], None]] = [lambda: storage.delete(storage.take_out(store / "1"))]

    def act_and_create(self: ObjectStorage, target: RemotePlace, content: bytes) -> bool:
        if moment == "before" and pending:
            pending.pop()()
        is_new = create(self, target, content)
        if moment == "after" and pending:
            pending.pop()()
        return is_new

    target = store / "1" / ("name" if moment == "before" else "other")
    monkeypatch.setattr(ObjectStorage, "create", act_and_create)
    with pytest.raises(FileNotFoundError):
        storage.put(target, b"late")


@on_objects
def test_markers_are_deleted_before_anything_else(store: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = storage_of(store)
    storage.make(store / "1")
    storage.make(store / "1" / "0")
    storage.put(store / "1" / "0" / "name", b"content")
    removed: list[str] = []
    remove = ObjectStorage.remove

    def remember(self: ObjectStorage, *files: RemotePlace) -> None:
        removed.extend(file.name for file in files)
        remove(self, *files)

    monkeypatch.setattr(ObjectStorage, "remove", remember)
    storage.delete(storage.take_out(store / "1"))
    assert removed == [MARKER, MARKER, "name"]


@pytest.mark.parametrize("store", ["hdfs"], indirect=True)
def test_a_rename_whose_answer_was_lost_has_been_done(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = remote_storage(store)
    assert isinstance(storage, WebHdfs)
    storage.make(store / "1")
    ask = storage.client.ask

    def ask_twice(method: str, path: str, operation: str, **parameters: str) -> object:
        if operation == "RENAME":
            ask(method, path, operation, **parameters)
        return ask(method, path, operation, **parameters)

    monkeypatch.setattr(storage.client, "ask", ask_twice)
    assert storage.put(store / "name", b"content")
    left = storage.take_out(store / "1")
    assert storage.is_directory(left)
    assert not storage.exists(store / "1")
