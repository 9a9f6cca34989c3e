"""``metrics``: counts, sums and quantiles of JSON bodies, by key and time window."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name in programs for Spark
from pyspark.sql.streaming.readwriter import DataStreamWriter

from ...errors import InvalidOption
from ...options.checks import check_seconds
from ..options import write_options
from .query import SKIPPED, OnProgress, Option, Source, Summary, Trigger, comma_separated, run

_QUANTILE_ACCURACY = 10_000
"""The rank of a quantile is off by at most 1/10000 of the count."""

_JSON_OPTIONS = {"timeZone": "UTC"}

# A name that may stand between the quotes of $['...'] in Spark's paths.
_FIELD = re.compile(r"[^.'?\\]+")


def metrics(
    spark: SparkSession,
    *,
    topic: str,
    channel: str,
    key: str,
    checkpoint: str,
    spool_dir: str,
    value: str | None = None,
    window: float = 60.0,
    lateness: float = 60.0,
    quantiles: Sequence[float] = (0.5, 0.95, 0.99),
    output: str | None = None,
    output_topic: str | None = None,
    output_nsqd: str | Sequence[str] | None = None,
    nsqlookupd: str | Sequence[str] | None = None,
    nsqd: str | Sequence[str] | None = None,
    trigger: Trigger = "available-now",
    options: Mapping[str, Option] | None = None,
    on_progress: OnProgress | None = None,
    stop: threading.Event | None = None,
) -> Summary:
    """Count the messages of a channel for each key and window; with ``value``, sum it and take quantiles.

    A message belongs to the window in which nsqd received it, and is counted once even if it is delivered
    twice. Without an output, windows are printed whenever they change. With an output, each window is written
    once, when no more messages for it are expected; so the newest windows wait for the next run.

    Bodies that are not JSON, or lack the key, are counted as skipped.

    :param key: the field to group by, such as ``country`` or ``user.country``
    :param checkpoint: the directory for Spark's checkpoint, used by this pipeline only
    :param spool_dir: a directory that the driver and all executors share, as a path or URL
    :param value: the field to sum; messages without a number in it are only counted
    :param window: the length of a window in seconds, 1 or more; default 60
    :param lateness: the seconds for which a window waits for late messages, 0 or more; default 60
    :param quantiles: the quantiles of ``value``, each 0 to 1, in columns such as ``p50``; default 0.5, 0.95
        and 0.99
    :param output: a directory for Parquet files, as a path or URI that Spark knows
    :param output_topic: an NSQ topic that gets a JSON object for each key and window; not with ``output``
    :param output_nsqd: the nsqds to publish to; required with ``output_topic``
    :param nsqlookupd: URLs of the nsqlookupds that know the nsqds; give either this or ``nsqd``
    :param nsqd: addresses as ``host:port``
    :param trigger: when to run batches; default ``available-now``
    :param options: more options of ``format("nsq")``
    :param on_progress: called after each batch
    :param stop: set it from another thread to end the pipeline
    :raises InvalidOption: for a value out of range
    :raises PipelineFailed: if Spark's job fails; the text names the cause
    """
    source = Source(
        topic=topic,
        channel=channel,
        nsqlookupd=nsqlookupd,
        nsqd=nsqd,
        spool_dir=spool_dir,
        options=options,
    )
    measures = Measures(key=key, value=value, window=window, lateness=lateness, quantiles=tuple(quantiles))
    sink = _sink(output, output_topic, comma_separated(output_nsqd))
    table = measures.of(source.load(spark))
    return run(
        sink(table), source, checkpoint=checkpoint, trigger=trigger, on_progress=on_progress, stop=stop
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """The measures of `metrics`; the fields are its arguments.

    :raises InvalidOption: for a value out of range
    """

    key: str
    value: str | None = None
    window: float = 60.0
    lateness: float = 60.0
    quantiles: tuple[float, ...] = (0.5, 0.95, 0.99)

    def __post_init__(self) -> None:
        _check_field("key", self.key)
        if self.value is not None:
            _check_field("value", self.value)
        check_seconds("window", self.window, 1)
        check_seconds("lateness", self.lateness, 0)
        _check_quantiles(self.quantiles)

    def of(self, messages: DataFrame) -> DataFrame:
        """Return ``start, end, key, count`` and, with a value, ``sum, p50, ...`` of a stream of messages."""
        body = F.try_parse_json(F.col("body").cast("string"))
        fields = {"key": F.try_variant_get(body, _path(self.key), "string")}
        columns = [F.col("window.start"), F.col("window.end"), F.col("key"), F.col("count")]
        sums = [F.count(F.lit(1)).alias("count")]
        if self.value is not None:
            fields["value"] = F.try_variant_get(body, _path(self.value), "double")
            sums.append(F.sum("value").alias("sum"))
            sums.append(
                F.percentile_approx("value", list(self.quantiles), _QUANTILE_ACCURACY).alias("quantiles")
            )
            columns.append(F.col("sum"))
            columns += [
                F.col("quantiles")[place].alias(_quantile_name(quantile))
                for place, quantile in enumerate(self.quantiles)
            ]
        keyed = (
            messages.withWatermark("timestamp", _interval(self.lateness))
            # An id is unique only on its nsqd.
            .dropDuplicatesWithinWatermark(["nsqd", "id"])
            .withColumns(fields)
            .observe(SKIPPED, F.count_if(F.col("key").isNull()).alias(SKIPPED))
            .where(F.col("key").isNotNull())
        )
        window = F.window("timestamp", _interval(self.window)).alias("window")
        return keyed.groupBy(window, "key").agg(*sums).select(columns)


def _interval(seconds: float) -> str:
    return f"{round(seconds * 1000)} milliseconds"


def _check_field(option: str, dotted: str) -> None:
    if not all(map(_FIELD.fullmatch, dotted.split("."))):
        raise InvalidOption(
            f"{option}={dotted!r} is not valid: use the name of a field, or names joined by dots, "
            "without ', ? and \\"
        )


def _path(dotted: str) -> str:
    return "$" + "".join(f"['{name}']" for name in dotted.split("."))


def _check_quantiles(quantiles: Sequence[float]) -> None:
    for quantile in quantiles:
        if not 0 <= quantile <= 1 or math.isnan(quantile):
            raise InvalidOption(f"quantile {quantile!r} is not valid: use 0 to 1")
    if not quantiles or len(set(map(_quantile_name, quantiles))) != len(quantiles):
        raise InvalidOption(f"quantiles={tuple(quantiles)!r} is not valid: use one or more, each once")


def _quantile_name(quantile: float) -> str:
    return f"p{quantile * 100:g}".replace(".", "_")


def _sink(output: str | None, topic: str | None, nsqd: str | None) -> Callable[[DataFrame], DataStreamWriter]:
    """Return a function that makes the writer for the chosen output.

    :raises InvalidOption: if outputs exclude each other, or a part of one is missing
    """
    if output is None and topic is None and nsqd is None:
        # The console can show open windows again; a file or a topic takes no corrections.
        return lambda table: (
            table.writeStream.format("console").option("truncate", "false").outputMode("update")
        )
    if output is not None and topic is None and nsqd is None:
        return lambda table: table.writeStream.format("parquet").option("path", output)
    if output is not None or topic is None or nsqd is None:
        raise InvalidOption(
            f"output={output!r}, output_topic={topic!r} and output_nsqd={nsqd!r} exclude each other: "
            "set output, or both output_topic and output_nsqd, or none to print"
        )
    addressed = {"topic": topic, "nsqd": nsqd}
    write_options(addressed)
    return lambda table: (
        table.select(F.to_json(F.struct("*"), _JSON_OPTIONS).alias("body"))
        .writeStream.format("nsq")
        .options(**addressed)
    )
