"""A client of Spark Connect that does not have this package: ``python connect_client.py TASK``."""

from __future__ import annotations

import importlib.util
import json
import sys
from typing import Any

from pyspark.sql import SparkSession


def main(argument: str) -> None:
    """Read a topic in all ways and publish its messages, then print what was seen as JSON."""
    assert importlib.util.find_spec("nsq_anyio") is None
    task: dict[str, Any] = json.loads(argument)
    read: dict[str, str] = task["read"]
    directory: str = task["directory"]
    spark = SparkSession.builder.remote(task["url"]).getOrCreate()
    found: dict[str, Any] = {}
    found["peeked"] = spark.read.format("nsq").options(**read, peek="true").load().count()
    rows = spark.readStream.format("nsq").options(**read, spoolDir=f"{directory}/spool").load()
    query = rows.writeStream.format("parquet").option("path", f"{directory}/out")
    query = query.option("checkpointLocation", f"{directory}/checkpoint").trigger(availableNow=True)
    found["ended"] = query.start().awaitTermination(100)
    stored = spark.read.parquet(f"{directory}/out").select("body")
    found["stored"] = stored.distinct().count()
    stored.write.format("nsq").mode("append").options(**task["write"]).save()
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
