"""An archive of a topic, and its replay: ``archive.py keep``, and ``archive.py replay TOPIC SINCE UNTIL``."""

import os
import sqlite3
import sys
from contextlib import closing
from datetime import datetime
from functools import partial

import anyio

import nsq_anyio as nsq

TABLES = """
CREATE TABLE IF NOT EXISTS messages (
    place INTEGER PRIMARY KEY, nsqd TEXT, id TEXT, timestamp INTEGER, body BLOB, UNIQUE (nsqd, id)
);
CREATE TABLE IF NOT EXISTS replays (name TEXT PRIMARY KEY, place INTEGER);
"""
STORE = "INSERT INTO messages (nsqd, id, timestamp, body) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
SOME = """
SELECT place, body FROM messages WHERE place > ? AND timestamp BETWEEN ? AND ? ORDER BY place LIMIT 100
"""


def connect() -> sqlite3.Connection:
    """Open the archive."""
    database = sqlite3.connect(os.environ["ARCHIVE"], timeout=30)
    database.execute("PRAGMA synchronous = FULL")  # what is committed outlives a power cut
    return database


def store(batch: nsq.Batch) -> None:
    """Keep messages that are not in the archive yet; they are finished when this returns."""
    with closing(connect()) as database, database:
        database.executemany(STORE, [(each.nsqd, each.id, each.timestamp, each.body) for each in batch])


async def keep() -> None:
    """Archive the topic ``clicks`` until SIGINT or SIGTERM."""
    options = nsq.ConsumerOptions(max_attempts=0)  # nothing is finished that is not in the archive
    handler = nsq.BatchHandler(store, max_size=500)
    await nsq.serve(handler, "clicks", "archive", nsqd=os.environ["NSQD"], options=options)


async def replay(topic: str, since: datetime, until: datetime) -> None:
    """Publish a part of the archive, as it came; the same replay, started again, goes on where it was."""
    name, times = f"{topic} {since} {until}", [int(each.timestamp() * 1e9) for each in (since, until)]
    with closing(connect()) as database:
        (place,) = database.execute("SELECT place FROM replays WHERE name = ?", [name]).fetchone() or [0]
        async with nsq.produce(os.environ["NSQD"]) as producer:
            while rows := database.execute(SOME, [place, *times]).fetchall():
                for _, body in rows:
                    await producer.publish(topic, body)
                place, _ = rows[-1]
                with database:
                    database.execute("REPLACE INTO replays VALUES (?, ?)", [name, place])


if __name__ == "__main__":
    with closing(connect()) as archive:
        archive.executescript(TABLES)
    if sys.argv[1] == "keep":
        anyio.run(keep)
    else:
        topic, *times = sys.argv[2:]
        anyio.run(partial(replay, topic, *map(datetime.fromisoformat, times)))
