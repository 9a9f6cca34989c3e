"""A storage for tests of archives."""

from __future__ import annotations

import threading

import pytest

from nsq_anyio.storage.remote import RemotePlace

OUTPUT = RemotePlace("s3://bucket", ("archive",))


class Store:
    """As much of a storage as an archive needs."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.failure: OSError | None = None
        self.asked = 0
        self.may_answer = threading.Event()
        self.may_answer.set()

    def make_around(self, target: RemotePlace) -> None:
        assert target.parent.parts

    def exists(self, target: RemotePlace) -> bool:
        return str(target) in self.files

    def create(self, target: RemotePlace, content: bytes) -> bool:
        self.asked += 1
        assert self.may_answer.wait(10)
        if self.failure:
            raise self.failure
        return self.files.setdefault(str(target), content) is content


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    found = Store()

    def storage_of(place: RemotePlace) -> Store:
        assert place.root == OUTPUT.root
        return found

    monkeypatch.setattr("nsq_anyio.cli.to_file.finished_files.remote_storage_of", storage_of)
    return found
