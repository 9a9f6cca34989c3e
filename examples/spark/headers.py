"""Keep messages by a header, each with its trace: ``headers.py NSQLOOKUPD DIRECTORY``."""

import sys

from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from nsq_anyio.spark import session

nsqlookupd, directory = sys.argv[1:]
messages = (
    session()
    .readStream.format("nsq")
    .options(nsqlookupd=nsqlookupd, topic="clicks", channel="headers", spoolDir=f"{directory}/spool")
    .option("headers", True)
    .load()
)
readable = messages.where("headers IS NOT NULL")  # null: an envelope that cannot be read
query = (
    readable.select(
        F.col("body").cast("string"),
        F.coalesce("headers.tenant", F.lit("none")).alias("tenant"),
        F.col("headers.traceparent").alias("traceparent"),
    )
    .writeStream.format("parquet")
    .partitionBy("tenant")
    .option("path", f"{directory}/clicks")
    .option("checkpointLocation", f"{directory}/checkpoint")
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
