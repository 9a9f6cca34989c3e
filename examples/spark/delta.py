"""Keep each message of a topic exactly once in a Delta table: ``delta.py NSQLOOKUPD DIRECTORY``.

It needs delta-spark on the driver and the executors; docs/spark-recipes.md has the command.
"""

import sys

from pyspark.sql import DataFrame

from nsq_anyio.spark import session

nsqlookupd, directory = sys.argv[1:]
table = f"delta.`{directory}/clicks`"
spark = session(
    config={
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
)
spark.sql(
    f"CREATE TABLE IF NOT EXISTS {table} (nsqd STRING, id STRING, timestamp TIMESTAMP, body BINARY) "
    "USING delta"
)


def store(rows: DataFrame, _batch: int) -> None:
    """Insert the messages that the table does not have."""
    new = rows.select("nsqd", "id", "timestamp", "body").dropDuplicates(["nsqd", "id"])
    new.createOrReplaceTempView("new")
    rows.sparkSession.sql(
        f"MERGE INTO {table} AS kept USING new ON kept.nsqd = new.nsqd AND kept.id = new.id "
        "WHEN NOT MATCHED THEN INSERT *"
    )


query = (
    spark.readStream.format("nsq")
    .options(nsqlookupd=nsqlookupd, topic="clicks", channel="delta", spoolDir=f"{directory}/spool")
    .load()
    .writeStream.foreachBatch(store)
    .option("checkpointLocation", f"{directory}/checkpoint")
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
