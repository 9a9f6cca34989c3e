"""``archive``: write every message of a topic to files, by date and hour."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias, get_args

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name in programs for Spark

from ...errors import InvalidOption
from .query import OnProgress, Option, Source, Summary, Trigger, run

# By default, JSON timestamps have only milliseconds and the session's time zone, and the Parquet writer keeps
# 100 rows of a page or row group in memory before it first checks their size.
_OPTIONS: dict[str, dict[str, str]] = {
    "parquet": {"parquet.page.size.row.check.min": "4", "parquet.block.size.row.check.min": "4"},
    "json": {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "timeZone": "UTC"},
}
# Given explicitly, because JSON has no types.
_COLUMNS = {
    "parquet": "body BINARY, timestamp TIMESTAMP, date DATE, hour INT",
    "json": "body STRING, body_base64 STRING, timestamp TIMESTAMP, date DATE, hour INT",
}
_SECONDS_OF_DAY = 86_400
_SECONDS_OF_HOUR = 3_600

Format: TypeAlias = Literal["parquet", "json"]
"""``json`` has one line for each message, with the body as text, or as ``body_base64`` if it is not UTF-8."""


def archive(
    spark: SparkSession,
    *,
    topic: str,
    channel: str,
    output: str,
    checkpoint: str,
    spool_dir: str,
    nsqlookupd: str | Sequence[str] | None = None,
    nsqd: str | Sequence[str] | None = None,
    format: Format = "parquet",
    trigger: Trigger = "available-now",
    options: Mapping[str, Option] | None = None,
    on_progress: OnProgress | None = None,
    stop: threading.Event | None = None,
) -> Summary:
    """Write the messages of a channel to files, in directories ``date=YYYY-MM-DD/hour=H`` of UTC.

    Date and hour are the time when nsqd received the message. Nothing is lost if the pipeline is killed: run
    it again with the same ``checkpoint`` and ``spool_dir``. A message that nsqd delivered twice is stored
    twice, with the same ``id``.

    :param output: the directory for the files, as a path or URI that Spark knows
    :param checkpoint: the directory for Spark's checkpoint, used by this pipeline only
    :param spool_dir: a directory that the driver and all executors share, as a path or URL
    :param nsqlookupd: URLs of the nsqlookupds that know the nsqds; give either this or ``nsqd``
    :param nsqd: addresses as ``host:port``
    :param format: the format of the files; default ``parquet``
    :param trigger: when to run batches; default ``available-now``
    :param options: more options of ``format("nsq")``
    :param on_progress: called after each batch
    :param stop: set it from another thread to end the pipeline
    :raises InvalidOption: for a value out of range
    :raises PipelineFailed: if Spark's job fails; the text names the cause
    """
    check_format(format)
    source = Source(
        topic=topic,
        channel=channel,
        nsqlookupd=nsqlookupd,
        nsqd=nsqd,
        spool_dir=spool_dir,
        options=options,
    )
    rows = archived(source.load(spark), format)
    writer = rows.writeStream.format(format).options(path=output, **_OPTIONS[format])
    writer = writer.partitionBy("date", "hour")
    return run(writer, source, checkpoint=checkpoint, trigger=trigger, on_progress=on_progress, stop=stop)


def check_format(format: str) -> None:
    """Refuse a format that an archive cannot have.

    :raises InvalidOption: naming the choices
    """
    if format not in get_args(Format):
        choices = " or ".join(map(repr, get_args(Format)))
        raise InvalidOption(f"format={format!r} is not valid: use {choices}")


def archived(messages: DataFrame, format: Format) -> DataFrame:
    """Return the columns of an archive, with ``date`` and ``hour`` in UTC."""
    # By arithmetic, because Spark's functions for dates use the session's time zone.
    seconds = F.unix_seconds("timestamp")
    days = F.floor(seconds / _SECONDS_OF_DAY)
    dated = messages.withColumns(
        {
            "date": F.date_from_unix_date(days.cast("int")),
            "hour": F.floor((seconds - days * _SECONDS_OF_DAY) / _SECONDS_OF_HOUR).cast("int"),
        }
    )
    if format == "parquet":
        return dated
    text = F.try_validate_utf8(F.col("body").cast("string"))
    # Spark omits null fields in JSON, so each line has one of the two.
    return dated.withColumn("body_base64", F.when(text.isNull(), F.base64("body"))).withColumn("body", text)


def read_archive(spark: SparkSession, input: str, format: Format) -> DataFrame:
    """Return the columns of an archive that `replay` needs: ``body, timestamp, date, hour``.

    :raises InvalidOption: if its files have another format
    """
    reader = spark.read.format(format).options(**_OPTIONS[format]).schema(_COLUMNS[format])
    archive = reader.load(input)
    # Spark finds no rows when it reads Parquet as JSON. When it reads JSON as Parquet, its error names no
    # remedy.
    files = archive.inputFiles()
    for other in get_args(Format):
        if other != format and files and all(f".{other}" in file for file in files):
            raise InvalidOption(
                f"{input} is an archive of format {other}, not {format}: use --format {other} "
                f"(format={other!r} of the function)"
            )
    if format == "parquet":
        return archive
    body = F.coalesce(F.unbase64("body_base64"), F.encode("body", "utf-8"))
    return archive.withColumn("body", body).drop("body_base64")
