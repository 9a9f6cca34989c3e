"""A storage does what it is asked for, and its answer does not arrive."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from nsq_anyio.storage.interface import Entry, StorageFailure
from nsq_anyio.storage.objects import ObjectStorage
from nsq_anyio.storage.place import Place, place_of, storage_of
from nsq_anyio.storage.remote import RemotePlace, RemoteStorage
from nsq_anyio.storage.webhdfs import WebHdfs
from nsq_anyio.testing import PlainFaultProxy, fault_proxy_in_thread

from .bad_storages import forgetful_hdfs, running_careless_store
from .conftest import new_name
from .nsqds import wait_until
from .storages import SETTINGS, Server, environment_of_s3

LIMIT = 30.0
_ADDRESS = re.compile(r"(127\.0\.0\.1|localhost):\d+")

pytestmark = pytest.mark.timeout(180)  # HDFS takes its time to start


@dataclass(frozen=True, slots=True)
class Case:
    """A request in a directory that has a file ``old``.

    :ivar send: sends it
    :ivar has_begun: whether the storage has done a part of it
    :ivar is_done: whether it has done all, given what `send` has returned
    """

    send: Callable[[RemoteStorage, RemotePlace], object]
    has_begun: Callable[[Any, RemotePlace], bool]
    is_done: Callable[[Any, RemotePlace, object], bool]


CASES = {
    "create": Case(
        lambda storage, place: storage.create(place / "new", b"content"),
        lambda storage, place: storage.exists(place / "new"),
        # The name is taken then: by this file, as its content shows.
        lambda storage, place, is_new: is_new is False and storage.get(place / "new") == b"content",
    ),
    "replace": Case(
        lambda storage, place: storage.replace(place / "old", b"newer"),
        lambda storage, place: storage.get(place / "old") == b"newer",
        lambda storage, place, _: storage.get(place / "old") == b"newer",
    ),
    "prove": Case(
        lambda storage, place: storage.verify_exclusive_put(place),
        lambda storage, place: len(storage.entries(place)) > 1,
        lambda storage, place, _: len(storage.entries(place)) == 1,
    ),
    "make": Case(
        lambda storage, place: storage.make(place / "1", place / "2"),
        lambda storage, place: len(storage.missing([place / "1", place / "2"])) < 2,
        lambda storage, place, _: storage.missing([place / "1", place / "2"]) == [],
    ),
    "remove": Case(
        lambda storage, place: storage.remove(place / "old"),
        lambda storage, place: not storage.exists(place / "old"),
        lambda storage, place, _: not storage.exists(place / "old"),
    ),
}


@contextmanager
def behind_proxy(
    place: RemotePlace, monkeypatch: pytest.MonkeyPatch
) -> Generator[tuple[RemoteStorage, PlainFaultProxy]]:
    """A client of the storage of a place, and the proxy that it reaches the storage through."""
    settings = {name: value for name, value in os.environ.items() if name.startswith(SETTINGS)}
    found = _ADDRESS.search(" ".join([place.root, *settings.values()]))
    assert found
    with fault_proxy_in_thread(found[0]) as proxy, monkeypatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value.replace(found[0], proxy.address))
        kind = WebHdfs if isinstance(storage_of(place), WebHdfs) else ObjectStorage
        yield kind(place.root.replace(found[0], proxy.address)), proxy


@pytest.mark.parametrize(
    ("store", "name"),
    [
        *((store, name) for store in ("s3", "gcs", "azure") for name in CASES),
        # To write a file takes two requests: see the test below.
        *(("hdfs", name) for name in ("make", "remove")),
    ],
    indirect=["store"],
)
@pytest.mark.parametrize("end", [PlainFaultProxy.reset, PlainFaultProxy.cut], ids=["reset", "cut"])
def test_a_request_is_sent_again(
    store: Place, name: str, end: Callable[[PlainFaultProxy], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    assert isinstance(store, RemotePlace)
    storage: Any = storage_of(store)
    storage.put(store / "old", b"content")
    with behind_proxy(store, monkeypatch) as (client, proxy), ThreadPoolExecutor(1) as thread:
        proxy.to_client.delay = LIMIT
        sent = thread.submit(case.send, client, store)
        wait_until(lambda: case.has_begun(storage, store), "the storage to do it", LIMIT)
        proxy.to_client.delay = 0
        end(proxy)
        assert case.is_done(storage, store, sent.result(LIMIT))


@pytest.mark.parametrize("method", ["PUT", "GET"])
def test_another_datanode_is_asked_for_when_one_says_nothing(method: str) -> None:
    with forgetful_hdfs() as (address, content):
        storage = WebHdfs(f"webhdfs://{address}")
        place = RemotePlace(f"webhdfs://{address}", ("spools", "name"))
        if method == "PUT":
            storage.replace(place, b"content")
            assert content == [b"content", b"content"]
        else:
            assert storage.get(place) == b"content"


def test_a_datanode_that_stays_silent_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nsq_anyio.storage.webhdfs.GIVE_UP", 0.2)
    with forgetful_hdfs(silent=1000) as (address, _), pytest.raises(StorageFailure) as caught:
        WebHdfs(f"webhdfs://{address}").get(RemotePlace(f"webhdfs://{address}", ("spools", "name")))
    assert f"a datanode of HDFS cannot be reached: RemoteProtocolError at {address}" in str(caught.value)


READS: dict[str, Callable[[Any, RemotePlace], object]] = {
    "get": lambda storage, place: storage.get(place / "old") == b"content" * 1000,
    "entries": lambda storage, place: storage.entries(place) == [Entry("old", is_directory=False)],
    "files": lambda storage, place: list(storage.files(place)) == [place / "old"],
    "exists": lambda storage, place: storage.exists(place) and storage.exists(place / "old"),
}


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("store", ["s3", "gcs", "azure"], indirect=True)
def test_an_answer_that_ends_in_its_middle_is_asked_for_again(
    store: Place, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(store, RemotePlace)
    storage_of(store).replace(store / "old", b"content" * 1000)
    with behind_proxy(store, monkeypatch) as (client, proxy), ThreadPoolExecutor(1) as thread:
        proxy.to_client.cut_after = 500
        read = thread.submit(READS[name], client, store)
        wait_until(lambda: proxy.accepted > 1 or read.done(), "a second try", LIMIT)
        proxy.to_client.cut_after = None
        assert read.result(LIMIT)
        assert proxy.accepted > 1
        assert proxy.accepted > 1


def test_a_store_that_is_away_for_some_seconds_is_waited_for(
    s3: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = place_of(f"{s3.root}/{new_name()}")
    assert isinstance(place, RemotePlace)
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    with behind_proxy(place, monkeypatch) as (client, proxy), ThreadPoolExecutor(1) as thread:
        proxy.refuse()
        made = thread.submit(client.make, place)
        with pytest.raises(TimeoutError):
            made.result(8)
        proxy.listen()
        made.result(LIMIT)
        assert client.is_directory(place)


def test_a_large_object_has_more_time_than_a_small_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nsq_anyio.storage.objects.GIVE_UP", 0.2)
    monkeypatch.setattr("nsq_anyio.storage.objects.TIMEOUT", 0.1)
    monkeypatch.setattr("nsq_anyio.storage.objects.LARGE", 1000)
    monkeypatch.setattr("nsq_anyio.storage.objects.SLOWEST", 100.0)
    with running_careless_store(delay=2.0) as address:
        for name, value in {**environment_of_s3(address), "AWS_TIMEOUT": "1 second"}.items():
            monkeypatch.setenv(name, value)
        place = RemotePlace("s3://bucket", ("name",))
        with pytest.raises(StorageFailure, match="S3 cannot be used: Timeout"):
            ObjectStorage("s3://bucket").create(place, b"x" * 2000)
        monkeypatch.delenv("AWS_TIMEOUT")
        assert ObjectStorage("s3://bucket").create(place, b"x" * 2000)
