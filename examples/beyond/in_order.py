"""Bookings in the order of their account: a message waits until the one before it is booked."""

import os
import sqlite3
from contextlib import closing

import anyio
import anyio.to_thread

import nsq_anyio as nsq

MOST_WAITING = 100  # messages that this program holds at a time
PATIENCE = 5.0  # the seconds for which it holds one, less than nsqd's message timeout
PAUSE = 1.0  # the seconds for which nsqd then holds it
turns: dict[tuple[str, int], anyio.Event] = {}


def connect() -> sqlite3.Connection:
    """Open the database of the accounts."""
    database = sqlite3.connect(os.environ["DATABASE"], timeout=30, isolation_level="IMMEDIATE")
    database.execute("PRAGMA synchronous = FULL")  # what is committed outlives a power cut
    return database


def create_tables() -> None:
    """Create the tables that are missing."""
    with closing(connect()) as database, database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE IF NOT EXISTS accounts (account TEXT PRIMARY KEY, last INTEGER)")
        database.execute("CREATE TABLE IF NOT EXISTS bookings (account TEXT, number INTEGER, text BLOB)")


def book(account: str, number: int, text: bytes) -> bool:
    """Book, unless that was done before; return False if it is not the turn of this number yet."""
    with closing(connect()) as database, database:
        found = database.execute("SELECT last FROM accounts WHERE account = ?", (account,)).fetchone()
        (last,) = found or (0,)
        if number > last + 1:
            return False
        new = "INSERT INTO accounts VALUES (?, ?) ON CONFLICT DO UPDATE SET last = ?2 WHERE last = ?2 - 1"
        if number > last and database.execute(new, (account, number)).rowcount:
            database.execute("INSERT INTO bookings VALUES (?, ?, ?)", (account, number, text))
        return True


async def handle(message: nsq.Message) -> None:
    """Book when it is the turn of this message; if that takes too long, let nsqd hold it for a while."""
    account, number = message.headers["account"], int(message.headers["number"])
    turn = turns[account, number] = anyio.Event()
    try:
        with anyio.move_on_after(PATIENCE):
            while not await anyio.to_thread.run_sync(book, account, number, message.payload):
                await turn.wait()
            if following := turns.get((account, number + 1)):
                following.set()
            return
    finally:
        turns.pop((account, number), None)
    raise nsq.Requeue(delay=PAUSE, backoff=False)


async def main() -> None:
    """Book until SIGINT or SIGTERM."""
    await anyio.to_thread.run_sync(create_tables)
    options = nsq.ConsumerOptions(max_attempts=0)  # a message that is given up would be a gap
    nsqds = os.environ["NSQD"].split(",")
    await nsq.serve(handle, "bookings", "book", nsqd=nsqds, concurrency=MOST_WAITING, options=options)


if __name__ == "__main__":
    anyio.run(main)
