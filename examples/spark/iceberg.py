"""Keep each message of a topic exactly once in an Iceberg table: ``iceberg.py NSQLOOKUPD DIRECTORY``.

It needs ``pip install 'pyiceberg[pyarrow,sql-sqlite]'`` on the driver; the catalog is an SQLite file here.
"""

import sys

from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import DataFrame

from nsq_anyio.spark import session

nsqlookupd, directory = sys.argv[1:]
catalog = SqlCatalog("lake", uri=f"sqlite:///{directory}/catalog.db", warehouse=f"file://{directory}/lake")
catalog.create_namespace_if_not_exists("nsq")
last = "nsq.last-batch"  # a property of the table: the number of the last batch that it has


def store(rows: DataFrame, batch: int) -> None:
    """Append a batch and note its number in one commit of Iceberg, unless the table has the batch."""
    found = rows.select("nsqd", "id", "timestamp", "body").toArrow()
    table = catalog.create_table_if_not_exists("nsq.clicks", found.schema)
    if int(table.properties.get(last, -1)) >= batch:
        return  # committed before Spark noted it
    with table.transaction() as transaction:
        transaction.append(found)
        transaction.set_properties({last: str(batch)})


messages = (
    session()
    .readStream.format("nsq")
    .options(nsqlookupd=nsqlookupd, topic="clicks", channel="iceberg", spoolDir=f"{directory}/spool")
    .load()
)
query = (
    messages.withWatermark("timestamp", "7 days")
    .dropDuplicatesWithinWatermark(["nsqd", "id"])
    .writeStream.foreachBatch(store)
    .option("checkpointLocation", f"{directory}/checkpoint")
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
