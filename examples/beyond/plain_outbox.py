"""An outbox: orders and their messages in one transaction, and the program that publishes the messages."""

import os
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from uuid import uuid4

import anyio
import anyio.to_thread

import nsq_anyio as nsq


def connect() -> sqlite3.Connection:
    """Open the database of the shop."""
    database = sqlite3.connect(os.environ["DATABASE"], timeout=30)
    database.execute("PRAGMA synchronous = FULL")  # what is committed outlives a power cut
    return database


def create_tables() -> None:
    """Create the tables that are missing."""
    with closing(connect()) as database, database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE IF NOT EXISTS orders (number INTEGER PRIMARY KEY)")
        columns = "place INTEGER PRIMARY KEY, id TEXT UNIQUE, topic TEXT, body BLOB"
        database.execute(f"CREATE TABLE IF NOT EXISTS outgoing ({columns})")


def place_order(number: int) -> None:
    """Save an order and its message, or neither of them; the shop calls this."""
    with closing(connect()) as database, database:
        database.execute("INSERT INTO orders VALUES (?)", (number,))
        message = (uuid4().hex, "orders", b"%d" % number)
        database.execute("INSERT INTO outgoing (id, topic, body) VALUES (?, ?, ?)", message)


def waiting() -> list[tuple[str, str, bytes]]:
    """Return the oldest messages that are not published yet."""
    with closing(connect()) as database:
        return database.execute("SELECT id, topic, body FROM outgoing ORDER BY place LIMIT 100").fetchall()


def delete(ids: Iterable[str]) -> None:
    """Forget messages that nsqd has stored."""
    with closing(connect()) as database, database:
        database.executemany("DELETE FROM outgoing WHERE id = ?", [(each,) for each in ids])


async def main() -> None:
    """Publish what was committed, until the program is ended in whatever way."""
    await anyio.to_thread.run_sync(create_tables)
    async with nsq.produce(os.environ["NSQD"]) as producer:
        while True:
            published: list[str] = []
            try:
                for id, topic, body in await anyio.to_thread.run_sync(waiting):
                    await producer.publish(topic, body, headers={"id": id})
                    published.append(id)
            except nsq.PublishError as error:
                print("trying again:", error, flush=True)
            await anyio.to_thread.run_sync(delete, published)
            if not published:
                await anyio.sleep(0.5)


if __name__ == "__main__":
    anyio.run(main)
