"""An inbox: the id of each message, and what the message changes, in one transaction."""

import os
import sqlite3
import time
from contextlib import closing

import anyio
import anyio.to_thread

import nsq_anyio as nsq


def connect() -> sqlite3.Connection:
    """Open the database of the bills."""
    database = sqlite3.connect(os.environ["DATABASE"], timeout=30)
    database.execute("PRAGMA synchronous = FULL")  # what is committed outlives a power cut
    return database


def create_tables() -> None:
    """Create the tables that are missing."""
    with closing(connect()) as database, database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE IF NOT EXISTS inbox (id TEXT PRIMARY KEY, at REAL)")
        database.execute("CREATE TABLE IF NOT EXISTS bills (number INTEGER)")


def bill(message: nsq.Message) -> None:
    """Bill an order once, however often its message comes; a plain function runs in a thread."""
    with closing(connect()) as database, database:  # it commits, or rolls back if anything raises
        known = (message.headers["id"], time.time())
        if database.execute("INSERT INTO inbox VALUES (?, ?) ON CONFLICT DO NOTHING", known).rowcount:
            database.execute("INSERT INTO bills VALUES (?)", (int(message.payload),))


async def main() -> None:
    """Bill orders until SIGINT or SIGTERM."""
    await anyio.to_thread.run_sync(create_tables)
    await nsq.serve(
        bill, "orders", "billing", nsqd=os.environ["NSQD"], concurrency=4, dead_letter="{topic}.dead"
    )


if __name__ == "__main__":
    anyio.run(main)
