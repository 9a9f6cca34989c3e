"""A client of Spark Connect, for which Spark starts the server: ``python -m tests.spark.jvm.connect TASK``.

In a process of its own, because one process cannot have a session of both kinds.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from nsq_anyio.spark import NsqDataSource

_LIMIT = 100


def main(argument: str) -> None:
    """Read as a batch and as a stream, join a stream with itself, and write; leave what was seen as JSON."""
    fields: dict[str, Any] = json.loads(argument)
    read: dict[str, str] = fields["read"]
    directory = Path(fields["directory"])
    spark = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.dataSource.register(NsqDataSource)
    found: dict[str, Any] = {"client": type(spark).__module__}

    found["peeked"] = spark.read.format("nsq").options(**read, peek="true").load().count()

    stream = {**read, "spoolDir": str(directory / "spool"), "maxRowsPerBatch": "500", "maxWait": "0.5"}
    rows = spark.readStream.format("nsq").options(**stream).load()
    both = rows.alias("one").join(rows.alias("other"), "body").select("body").writeStream.format("noop")
    joined = both.option("checkpointLocation", str(directory / "joined")).trigger(availableNow=True).start()
    try:
        joined.awaitTermination(_LIMIT)
    except Exception as error:
        found["refused"] = str(error)

    output = str(directory / "output")
    files = rows.writeStream.format("parquet").option("path", output)
    query = files.option("checkpointLocation", str(directory / "checkpoint")).trigger(availableNow=True)
    found["ended"] = query.start().awaitTermination(_LIMIT)
    found["rows"] = spark.read.parquet(output).select("body").distinct().count()

    stored = spark.read.parquet(output).select("body")
    stored.write.format("nsq").mode("append").options(**fields["write"]).save()
    spark.stop()
    (directory / "found").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
