"""A declarative pipeline of Spark that reads NSQ: a table of clicks, and counts of them by country.

Run it, where nsq-anyio is installed with its extra ``spark``, with::

    pip install 'pyspark[pipelines]'
    export PYSPARK_PYTHON=$(which python) NSQLOOKUPD=http://127.0.0.1:4161 NSQ_SPOOL=/shared/clicks-spool
    spark-pipelines run --spec examples/spark-pipeline.yml

Each run takes what waits in the channel, and ends. A body is JSON such as ``{"country": "at", "ms": 12}``.
"""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from nsq_anyio.spark import NsqDataSource

spark = SparkSession.active()
spark.dataSource.register(NsqDataSource)


@dp.table
def clicks() -> DataFrame:
    """Every message of the topic, once and for all: a streaming table."""
    messages = (
        spark.readStream.format("nsq")
        .option("topic", "clicks")
        .option("channel", "lakehouse")
        .option("nsqlookupd", os.environ["NSQLOOKUPD"])
        .option("spoolDir", os.environ["NSQ_SPOOL"])
        .load()
    )
    body = F.from_json(F.col("body").cast("string"), "country STRING, ms DOUBLE")
    parsed = messages.select("nsqd", "id", "timestamp", body.alias("click"))
    return parsed.select("nsqd", "id", "timestamp", "click.*")


@dp.materialized_view
def clicks_by_country() -> DataFrame:
    """Counts, without the duplicates that at-least-once delivery may leave in the table."""
    # By groupBy, as dropDuplicates needs the table's columns, and Spark 4.2 does not know them yet.
    clicks = spark.read.table("clicks").groupBy("nsqd", "id")
    unique = clicks.agg(F.any_value("country").alias("country"), F.any_value("ms").alias("ms"))
    return unique.groupBy("country").agg(F.count("*").alias("clicks"), F.avg("ms").alias("mean_ms"))
