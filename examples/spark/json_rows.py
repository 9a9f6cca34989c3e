"""Parse JSON by a schema, and keep what does not parse beside it: ``json_rows.py NSQLOOKUPD DIRECTORY``."""

import sys

from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from nsq_anyio.spark import session

nsqlookupd, directory = sys.argv[1:]
messages = (
    session()
    .readStream.format("nsq")
    .options(nsqlookupd=nsqlookupd, topic="clicks", channel="json", spoolDir=f"{directory}/spool")
    .load()
)
click = F.from_json(
    F.col("body").cast("string"),
    "page STRING, ms INT, bad STRING",
    {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "bad"},
)
rows = messages.select("nsqd", "id", "timestamp", click.alias("click"))
query = (
    rows.select("nsqd", "id", "timestamp", "click.*")
    .writeStream.format("parquet")
    .option("path", f"{directory}/clicks")
    .option("checkpointLocation", f"{directory}/checkpoint")
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
