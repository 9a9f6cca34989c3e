"""Write each message to a table of a database once: ``database.py NSQLOOKUPD DIRECTORY``.

SQLite stands for a database here: with another one, `store` connects to its server instead.
"""

import sqlite3
import sys
from contextlib import closing

from pyspark.sql import DataFrame

from nsq_anyio.spark import session

nsqlookupd, directory = sys.argv[1:]


def store(rows: DataFrame, batch: int) -> None:
    """Insert a batch and its number in one transaction, unless the number is there."""
    with closing(sqlite3.connect(f"{directory}/clicks.db")) as database, database:
        database.execute("CREATE TABLE IF NOT EXISTS batches (number INTEGER PRIMARY KEY)")
        database.execute(
            "CREATE TABLE IF NOT EXISTS clicks (nsqd TEXT, id TEXT, body BLOB, PRIMARY KEY (nsqd, id))"
        )
        if database.execute("INSERT OR IGNORE INTO batches VALUES (?)", (batch,)).rowcount == 0:
            return  # committed before Spark noted it
        found = ((row.nsqd, row.id, bytes(row.body)) for row in rows.toLocalIterator(prefetchPartitions=True))
        database.executemany("INSERT OR IGNORE INTO clicks VALUES (?, ?, ?)", found)


query = (
    session()
    .readStream.format("nsq")
    .options(nsqlookupd=nsqlookupd, topic="clicks", channel="database", spoolDir=f"{directory}/spool")
    .load()
    .writeStream.foreachBatch(store)
    .option("checkpointLocation", f"{directory}/checkpoint")
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
