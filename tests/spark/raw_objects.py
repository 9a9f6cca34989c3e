"""What a spool consists of in an object store or in HDFS, as it is: to look at it and to harm it."""

from __future__ import annotations

from abc import ABC, abstractmethod

import obstore

from nsq_anyio.storage.object_stores import object_store
from nsq_anyio.storage.place import Place, storage_of
from nsq_anyio.storage.remote import RemotePlace
from nsq_anyio.storage.webhdfs import WebHdfs


class Raw(ABC):
    """The objects or files of a spool, by their names below its place."""

    @abstractmethod
    def sizes(self) -> dict[str, int]:
        """Their names, in order, and their sizes."""

    @abstractmethod
    def _remove(self, key: str) -> None: ...

    @abstractmethod
    def _get(self, key: str) -> bytes: ...

    @abstractmethod
    def _put(self, key: str, content: bytes) -> None: ...

    def names(self) -> list[str]:
        """Their names, in order."""
        return list(self.sizes())

    def remove(self, key: str) -> None:
        self._remove(key)

    def truncate(self, key: str) -> None:
        """Half of one."""
        content = self._get(key)
        self._put(key, content[: len(content) // 2])

    def flip(self, key: str) -> None:
        """One bit in the middle."""
        content = bytearray(self._get(key))
        content[len(content) // 2] ^= 1
        self._put(key, bytes(content))


class Objects(Raw):
    """The objects of a spool, with the markers."""

    def __init__(self, place: Place) -> None:
        assert isinstance(place, RemotePlace)
        self._place = place
        self._store = object_store(place.root).connect(place.root, give_up=10)

    def sizes(self) -> dict[str, int]:
        """See `Raw.sizes`."""
        found = obstore.list(self._store, self._place.key).collect()  # pyright: ignore[reportUnknownMemberType] - its Arrow variant
        return dict(
            sorted((each["path"].removeprefix(f"{self._place.key}/"), each["size"]) for each in found)
        )

    def _remove(self, key: str) -> None:
        obstore.delete(self._store, self._key(key))

    def _get(self, key: str) -> bytes:
        return obstore.get(self._store, self._key(key)).bytes().to_bytes()

    def _put(self, key: str, content: bytes) -> None:
        obstore.put(self._store, self._key(key), content)

    def _key(self, key: str) -> str:
        return f"{self._place.key}/{key}"


class Files(Raw):
    """The files of a spool in HDFS."""

    def __init__(self, place: RemotePlace) -> None:
        self._place = place
        self._storage = storage_of(place)

    def sizes(self) -> dict[str, int]:
        """See `Raw.sizes`."""
        files = list(self._storage.files(self._place))
        return {
            str(file).removeprefix(f"{self._place}/"): self._storage.status(file).size
            for file in sorted(files, key=str)
        }

    def _remove(self, key: str) -> None:
        self._storage.remove(self._file(key))

    def _get(self, key: str) -> bytes:
        return bytes(self._storage.get(self._file(key)))

    def _put(self, key: str, content: bytes) -> None:
        self._storage.replace(self._file(key), content)

    def _file(self, key: str) -> RemotePlace:
        place = self._place
        for name in key.split("/"):
            place /= name
        return place


def raw(place: Place) -> Raw:
    """Return what a spool consists of, whatever it is in."""
    if isinstance(place, RemotePlace) and isinstance(storage_of(place), WebHdfs):
        return Files(place)
    return Objects(place)
