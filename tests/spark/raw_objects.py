"""The objects of a spool in an object store as they are, to look at them and to harm them."""

from __future__ import annotations

import obstore

from nsq_anyio.spark.storage.object_stores import object_store
from nsq_anyio.spark.storage.place import Place
from nsq_anyio.spark.storage.remote import RemotePlace

__all__ = ["Objects"]


class Objects:
    """The objects of a spool below a place, with the markers."""

    def __init__(self, place: Place) -> None:
        assert isinstance(place, RemotePlace)
        self._place = place
        self._store = object_store(place.root).connect(place.root, give_up=10)

    def sizes(self) -> dict[str, int]:
        """Their names below the spool, in order, and their sizes."""
        found = obstore.list(self._store, self._place.key).collect()  # pyright: ignore[reportUnknownMemberType] - its Arrow variant
        return dict(
            sorted((each["path"].removeprefix(f"{self._place.key}/"), each["size"]) for each in found)
        )

    def names(self) -> list[str]:
        """Their names below the spool, in order."""
        return list(self.sizes())

    def remove(self, key: str) -> None:
        obstore.delete(self._store, self._key(key))

    def truncate(self, key: str) -> None:
        """Half of an object."""
        content = obstore.get(self._store, self._key(key)).bytes().to_bytes()
        obstore.put(self._store, self._key(key), content[: len(content) // 2])

    def flip(self, key: str) -> None:
        """One bit in the middle."""
        content = bytearray(obstore.get(self._store, self._key(key)).bytes())
        content[len(content) // 2] ^= 1
        obstore.put(self._store, self._key(key), bytes(content))

    def _key(self, key: str) -> str:
        return f"{self._place.key}/{key}"
