"""What a hierarchical namespace of Azure is known to add, since no server at hand has one.

A put makes the directories around an object. They stay when it is deleted, and are listed, until they are
deleted themselves; one that is not empty cannot be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import obstore
import pytest
from obstore.exceptions import GenericError


class Hierarchy:
    """The directories that exist, by their names."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.directories: set[str] = set()
        self._real = {name: getattr(obstore, name) for name in ("put", "delete", "list_with_delimiter")}
        for name in self._real:
            patch.setattr(obstore, name, getattr(self, name))

    def put(self, client: Any, key: str, content: bytes, **options: Any) -> Any:
        done = self._real["put"](client, key, content, **options)
        names = key.split("/")[:-1]
        self.directories |= {"/".join(names[:length]) for length in range(1, len(names) + 1)}
        return done

    def list_with_delimiter(self, client: Any, prefix: str) -> Any:
        found = self._real["list_with_delimiter"](client, prefix)
        inside = {each for each in self.directories if each.rpartition("/")[0] == prefix}
        return {**found, "common_prefixes": sorted(inside | set(found["common_prefixes"]))}

    def delete(self, client: Any, keys: Sequence[str]) -> None:
        for key in keys:
            if key not in self.directories:
                self._real["delete"](client, [key])
            elif self._is_empty(client, key):
                self.directories.remove(key)
            else:
                raise GenericError("status code: 409 Conflict: <Code>DirectoryIsNotEmpty</Code>")

    def _is_empty(self, client: Any, key: str) -> bool:
        has_directories = any(each.startswith(f"{key}/") for each in self.directories)
        objects = obstore.list(client, key).collect()  # pyright: ignore[reportUnknownMemberType] - its Arrow variant
        return not has_directories and not objects
