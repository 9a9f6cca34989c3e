"""What the pipelines that read NSQ have in common: the source, its lag, and the start of the query."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from ...errors import InvalidOption, NSQError
from ...options.checks import check_seconds
from ..depth import channel_depths
from ..given_options import read_options
from ..source import NsqDataSource
from ..stream_reader import NsqStreamReader
from .failure import spark_errors_explained
from .progress import OnProgress, Summary, follow

Trigger: TypeAlias = Literal["available-now"] | float
"""When to run batches. ``available-now`` reads the messages that wait at the start, and ends. A number is the
seconds from the start of one batch to the start of the next, until the pipeline is stopped."""

Option: TypeAlias = str | int | float | bool

_log = logging.getLogger("nsq_anyio.spark")


class Source:
    """A channel of NSQ, with the options of ``format("nsq")``, checked before Spark plans anything."""

    def __init__(
        self,
        *,
        topic: str,
        channel: str,
        nsqlookupd: str | Sequence[str] | None,
        nsqd: str | Sequence[str] | None,
        spool_dir: str,
        options: Mapping[str, Option] | None,
    ) -> None:
        self._texts = option_texts(
            {
                "topic": topic,
                "channel": channel,
                "nsqlookupd": comma_separated(nsqlookupd),
                "nsqd": comma_separated(nsqd),
                "spoolDir": spool_dir,
            },
            options,
        )
        self._options = read_options(self._texts)
        NsqStreamReader(self._options)  # which refuses the options of batch reads

    def load(self, spark: SparkSession) -> DataFrame:
        """Return the stream of the channel's messages.

        :raises PipelineFailed: if Spark refuses the source
        """
        spark.dataSource.register(NsqDataSource)
        with spark_errors_explained():
            return spark.readStream.format("nsq").options(**self._texts).load()

    def lag(self) -> int | None:
        """Return the number of messages that wait in the channel; None if no server answers."""
        try:
            return sum(depth.rows for depth in channel_depths(self._options))
        except NSQError as error:
            # The lag is only shown; the query itself fails if it has to.
            _log.warning("cannot determine the lag: %s", error)
            return None


def comma_separated(addresses: str | Sequence[str] | None) -> str | None:
    """Join addresses for the options of ``format("nsq")``; None if there are none."""
    return addresses if isinstance(addresses, str) else ",".join(addresses or ()) or None


def option_texts(given: Mapping[str, Option | None], more: Mapping[str, Option] | None) -> dict[str, str]:
    """Return the options that are set as strings, which is how Spark passes them on.

    :raises InvalidOption: for an option that is in both, in any case
    """
    texts = {key: _text(value) for key, value in given.items() if value is not None}
    known = {key.lower(): key for key in given}
    for key, value in (more or {}).items():
        if key.lower() in known:
            raise InvalidOption(
                f"option {key}={value!r} is not valid here: {known[key.lower()]} has its own argument"
            )
        texts[key] = _text(value)
    return texts


def _text(value: Option) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def run(
    writer: DataStreamWriter,
    source: Source,
    *,
    checkpoint: str,
    trigger: Trigger,
    on_progress: OnProgress | None,
    stop: threading.Event | None,
) -> Summary:
    """Start the query and follow it to its end.

    :raises InvalidOption: for a trigger that is not valid
    :raises PipelineFailed: if the query fails
    """
    writer = writer.option("checkpointLocation", checkpoint)
    if trigger == "available-now":
        writer = writer.trigger(availableNow=True)
    elif isinstance(trigger, str):
        raise InvalidOption(f"trigger={trigger!r} is not valid: use 'available-now' or seconds")
    else:
        check_seconds("trigger", trigger, 0)
        writer = writer.trigger(processingTime=f"{round(trigger * 1000)} milliseconds")
    source.lag()  # it tells of a channel that is new, before the query creates it in another process
    with spark_errors_explained():
        query = writer.start()
    return follow(query, lag=source.lag, on_progress=on_progress, stop=stop)
