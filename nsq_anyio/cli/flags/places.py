"""Flags that take the path of a directory, or its URL in a storage."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...errors import InvalidOption

if TYPE_CHECKING:
    from ...storage.place import Place


class DirectoryOrURL(click.Path):
    """The path of a directory, its ``file:`` URI, or its URL in an object store or HDFS."""

    def __init__(self) -> None:
        super().__init__(file_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Place:  # type: ignore[override] # a URL is no path
        """Return the place; refuse URLs of other kinds, and files."""
        from ...storage.place import place_of

        try:
            place = place_of(value)
        except InvalidOption as error:
            self.fail(str(error), param, ctx)
        if not isinstance(place, Path):
            return place
        super().convert(place, param, ctx)
        return place
