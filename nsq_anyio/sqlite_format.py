"""The format of an SQLite file: the program that has made it, and the version of its tables."""

from __future__ import annotations

import sqlite3
from pathlib import Path


def has_tables(connection: sqlite3.Connection, path: Path, *, application: int, version: int) -> bool:
    """Return whether the file has its tables; a new or empty file has none. Nothing is written.

    :param path: the file of the connection
    :param application: the number of the program, which SQLite keeps as ``application_id``
    :raises sqlite3.DatabaseError: if the file is no database, or one of another program or version
    """

    def value(query: str) -> int:
        found: int = connection.execute(query).fetchone()[0]
        return found

    if not value("SELECT count(*) FROM sqlite_master"):
        # SQLite takes what is shorter than a page for empty.
        if path.stat().st_size and not value("PRAGMA page_count"):
            raise sqlite3.DatabaseError("it is no database of SQLite; name another file")
        return False
    if value("PRAGMA application_id") != application:
        raise sqlite3.DatabaseError("it is a database of another program; name another file")
    found = value("PRAGMA user_version")
    if found != version:
        raise sqlite3.DatabaseError(
            f"it has version {found}, and this release knows version {version}; update nsq-anyio, or name "
            "another file"
        )
    return True
