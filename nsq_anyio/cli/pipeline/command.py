"""``nsq-anyio pipeline``: archive, metrics and replay on Spark."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from ..command import UtilityCommand, quiet_command_flags
from ..flags.addresses import lookupd_http_option, nsqd_tcp_option
from ..flags.kinds import Integer, Number, in_order
from ..flags.names import complete_channel, complete_topic
from ..lazy_group import SentenceGroup

_FORMATS = click.Choice(["parquet", "json"])


def _time(_: click.Context, parameter: click.Parameter, text: str | None) -> datetime | None:
    """Parse a time in ISO 8601; the pipeline checks that it has a time zone."""
    try:
        return None if text is None else datetime.fromisoformat(text)
    except ValueError:
        remedy = "use a time such as 2026-01-31T09:00Z"
        raise click.BadParameter(f"{text!r} is not valid: {remedy}", param=parameter) from None


def _assignments(_: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    """Parse the ``KEY=VALUE`` pairs of a repeatable option.

    :raises click.BadParameter: for any other text
    """
    pairs = [text.partition("=") for text in texts]
    for (key, equals, _value), text in zip(pairs, texts, strict=True):
        if not key or not equals:
            raise click.BadParameter(f"{text!r} is not valid: use KEY=VALUE", param=parameter)
    return {key: value for key, _equals, value in pairs}


spark_option: Callable[[Any], Any] = click.option(
    "--option",
    "options",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_assignments,
    help='An option of format("nsq"), such as compression=snappy; repeatable.',
)
"""``--option``, as a dict ``options``."""

_reading = in_order(
    click.option("--topic", required=True, shell_complete=complete_topic, help="The topic to read."),
    click.option(
        "--channel", required=True, shell_complete=complete_channel, help="The channel to read from."
    ),
    lookupd_http_option("An nsqlookupd that lists the nsqds; repeatable.", "nsqlookupd"),
    nsqd_tcp_option("An nsqd to read from, instead of --lookupd-http-address; repeatable.", "nsqd"),
    click.option(
        "--state",
        type=click.Path(file_okay=False, path_type=Path),
        help="A directory for this pipeline alone. A pipeline that is run again with it resumes.",
    ),
    click.option("--checkpoint", metavar="URI", help="Spark's part of the state, if not below --state."),
    click.option(
        "--spool-dir",
        metavar="DIR",
        help="The spool's part of the state, if not below --state; all executors share it.",
    ),
    click.option(
        "--every",
        type=Number(min=0),
        metavar="SECONDS",
        help="Start a batch this often, until interrupted.  [default: read the waiting messages, then exit]",
    ),
)
_running = in_order(
    spark_option,
    click.option("--master", metavar="URL", help="Spark's master.  [default: local[*]]"),
    click.option(
        "--conf",
        multiple=True,
        metavar="KEY=VALUE",
        callback=_assignments,
        help="An option of Spark itself; repeatable.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print one line of JSON instead of a table."),
    quiet_command_flags,
)


def _arguments(
    *,
    state: Path | None,
    checkpoint: str | None,
    spool_dir: str | None,
    every: float | None,
    **others: Any,
) -> dict[str, Any]:
    """Turn the flags of `_reading` into arguments of the pipelines' functions."""
    if state is None and (checkpoint is None or spool_dir is None):
        raise click.UsageError("missing option '--state', or both '--checkpoint' and '--spool-dir'")
    if state is not None:
        # As a URI: Spark takes a bare path to be on the cluster's default file system.
        checkpoint = checkpoint or (state.absolute() / "checkpoint").as_uri()
        spool_dir = spool_dir or str(state.absolute() / "spool")
    trigger = "available-now" if every is None else every
    return {"checkpoint": checkpoint, "spool_dir": spool_dir, "trigger": trigger, **others}


def _run(name: str, *, backend: str, **arguments: Any) -> None:
    del backend  # Spark's tasks have event loops of their own
    from .run import run_pipeline

    run_pipeline(name, **arguments)


@click.group(cls=SentenceGroup)
def pipeline() -> None:
    """Run a pipeline on Spark, locally or on a cluster; needs Java 17 or later."""


@pipeline.command(
    cls=UtilityCommand,
    epilog="""\b
Example:
  nsq-anyio pipeline archive --topic clicks --channel archive \\
    --lookupd-http-address 127.0.0.1:4161 --state state --output clicks""",
)
@_reading
@click.option("--output", required=True, metavar="URI", help="The directory to write to.")
@click.option(
    "--format", type=_FORMATS, default="parquet", show_default=True, help="The format of the files."
)
@_running
def archive(**given: Any) -> None:
    """Archive a topic's messages in files, in directories date=YYYY-MM-DD/hour=H in UTC."""
    _run("archive", **_arguments(**given))


@pipeline.command(
    cls=UtilityCommand,
    epilog="""\b
Example:
  nsq-anyio pipeline metrics --topic clicks --channel metrics \\
    --lookupd-http-address 127.0.0.1:4161 --state state \\
    --key country --value ms --every 10""",
)
@_reading
@click.option(
    "--key", required=True, metavar="FIELD", help="The field of the JSON body to group by, such as a.b."
)
@click.option("--value", metavar="FIELD", help="The field to sum and to compute quantiles of.")
@click.option(
    "--window",
    type=Number(),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="The length of a window.",
)
@click.option(
    "--lateness",
    type=Number(),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a window waits for late messages.",
)
@click.option(
    "--quantile",
    "quantiles",
    type=Number(0, 1),
    multiple=True,
    default=(0.5, 0.95, 0.99),
    show_default=True,
    help="Repeatable.",
)
@click.option("--output", metavar="URI", help="The directory to write Parquet files to, instead of printing.")
@click.option(
    "--output-topic",
    metavar="TOPIC",
    shell_complete=complete_topic,
    help="The topic to publish lines of JSON to, instead of printing.",
)
@nsqd_tcp_option("An nsqd that --output-topic is published to; repeatable.", "output_nsqd", prefix="output-")
@_running
def metrics(**given: Any) -> None:
    """Count JSON messages by key and time window; sum a value and compute its quantiles."""
    _run("metrics", **_arguments(**given))


@pipeline.command(
    cls=UtilityCommand,
    epilog="""\b
Example:
  nsq-anyio pipeline replay --input clicks --topic clicks-again \\
    --nsqd-tcp-address 127.0.0.1:4150 --rate 1000 --since 2026-01-31T09:00Z""",
)
@click.option("--input", required=True, metavar="URI", help="The output of an archive.")
@click.option("--topic", required=True, shell_complete=complete_topic, help="The topic to publish to.")
@nsqd_tcp_option("An nsqd to publish to; repeatable.", "nsqd", required=True)
@click.option("--rate", type=Integer(min=1), help="The most messages per second.  [default: no limit]")
@click.option("--since", metavar="TIME", callback=_time, help="Publish messages from this time on.")
@click.option("--until", metavar="TIME", callback=_time, help="Publish messages from before this time only.")
@click.option(
    "--format", type=_FORMATS, default="parquet", show_default=True, help="The format of the archive."
)
@_running
def replay(**given: Any) -> None:
    """Publish the messages of an archive to a topic, oldest first."""
    _run("replay", **given)
