"""Publish rows that cannot be processed as dead letters: ``dead_letters.py NSQLOOKUPD DIRECTORY``.

``nsq-anyio dead-letter list --topic clicks.dead`` shows them, and ``retry`` publishes their messages again.
"""

import sys
import time
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's world uses

from nsq_anyio.envelope import encode
from nsq_anyio.spark import session

nsqlookupd, directory = sys.argv[1:]


@F.udf(returnType="binary", useArrow=False)
def dead_letter(body: bytes, error: str, id_: str, timestamp: datetime, attempts: int, nsqd: str) -> bytes:
    """Return the message in an envelope that tells why it is dead; ``raw``: its body is unchanged."""
    headers = {
        "nsq-dead-body": "raw",
        "nsq-dead-reason": "discarded",
        "nsq-dead-error": error,
        "nsq-dead-attempts": str(attempts),
        "nsq-dead-timestamp": str(int(timestamp.timestamp() * 1_000_000) * 1_000),
        "nsq-dead-time": str(time.time_ns()),
        "nsq-dead-topic": "clicks",
        "nsq-dead-channel": "strict",
        "nsq-dead-nsqd": nsqd,
        "nsq-dead-id": id_,
    }
    return encode(bytes(body), headers)


def store(rows: DataFrame, batch: int) -> None:
    """Write the rows of a batch; a batch that Spark runs again replaces its files."""
    rows.persist()
    good, bad = rows.where("click.bad IS NULL"), rows.where("click.bad IS NOT NULL")
    files = good.select("nsqd", "id", "click.page").write.mode("overwrite")
    files.parquet(f"{directory}/clicks/batch={batch}")
    error = F.lit("not a click in JSON")
    letters = bad.select(dead_letter("body", error, "id", "timestamp", "attempts", "nsqd").alias("body"))
    letters.write.format("nsq").options(nsqlookupd=nsqlookupd, topic="clicks.dead").mode("append").save()
    rows.unpersist()


click = F.from_json(
    F.col("body").cast("string"), "page STRING, bad STRING", {"columnNameOfCorruptRecord": "bad"}
)
query = (
    session()
    .readStream.format("nsq")
    .options(nsqlookupd=nsqlookupd, topic="clicks", channel="strict", spoolDir=f"{directory}/spool")
    .load()
    .withColumn("click", click)
    .writeStream.foreachBatch(store)
    .option("checkpointLocation", f"{directory}/checkpoint")
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
