"""``nsq-anyio pipeline``: archive, metrics and replay on Spark."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import click

from ..command import UtilityCommand, quiet_command_flags
from ..flags.kinds import Integer, Number, in_order

__all__ = ["archive", "metrics", "pipeline", "replay", "spark_option"]

_FORMATS = click.Choice(["parquet", "json"])


def _time(_: click.Context, parameter: click.Parameter, text: str | None) -> datetime | None:
    """Read ISO 8601; whether it has a time zone is checked where it is used."""
    try:
        return None if text is None else datetime.fromisoformat(text)
    except ValueError:
        remedy = "use a time such as 2026-01-31T09:00Z"
        raise click.BadParameter(f"{text!r} is not valid: {remedy}", param=parameter) from None


def _assignments(_: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    """Read ``KEY=VALUE`` of a repeatable option.

    :raises click.BadParameter: for anything else
    """
    pairs = [text.partition("=") for text in texts]
    for (key, equals, _value), text in zip(pairs, texts, strict=True):
        if not key or not equals:
            raise click.BadParameter(f"{text!r} is not valid: use KEY=VALUE", param=parameter)
    return {key: value for key, _equals, value in pairs}


spark_option = click.option(
    "--option",
    "options",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_assignments,
    help='An option of format("nsq"), such as compression=snappy; repeatable.',
)
"""``--option``, as a dict ``options``."""

_reading = in_order(
    click.option("--topic", required=True, help="The topic to read."),
    click.option("--channel", required=True, help="The channel to read it through."),
    click.option("--nsqlookupd", multiple=True, metavar="URL", help="Finds the nsqds; repeatable."),
    click.option("--nsqd", multiple=True, metavar="HOST:PORT", help="Instead of --nsqlookupd; repeatable."),
    click.option(
        "--state",
        type=click.Path(file_okay=False, path_type=Path),
        help="A directory for this pipeline alone. Run again with the same one, it goes on where it was.",
    ),
    click.option("--checkpoint", metavar="URI", help="Spark's part of the state, if it is elsewhere."),
    click.option("--spool-dir", metavar="PATH", help="The spool's part; all executors share it."),
    click.option(
        "--every",
        type=Number(min=0),
        metavar="SECONDS",
        help="Start a batch this often, until interrupted; without it, read what waits, and end.",
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
    click.option(
        "--json", "as_json", is_flag=True, help="Print one line of JSON instead of display and table."
    ),
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
    """Turn what `_reading` takes into what the functions take."""
    if state is None and (checkpoint is None or spool_dir is None):
        raise click.UsageError("missing option '--state', or both '--checkpoint' and '--spool-dir'")
    if state is not None:
        # As a URI: Spark takes a bare path for one of the cluster's own file system.
        checkpoint = checkpoint or (state.absolute() / "checkpoint").as_uri()
        spool_dir = spool_dir or str(state.absolute() / "spool")
    trigger = "available-now" if every is None else every
    return {"checkpoint": checkpoint, "spool_dir": spool_dir, "trigger": trigger, **others}


def _run(name: str, *, backend: str, **arguments: Any) -> None:
    del backend  # Spark's tasks have event loops of their own
    from .run import run_pipeline

    run_pipeline(name, **arguments)


@click.group()
def pipeline() -> None:
    """Run a pipeline on Spark, here or on a cluster; needs Java 17 or later."""


@pipeline.command(
    cls=UtilityCommand,
    epilog="""\b
Example:
  nsq-anyio pipeline archive --topic clicks --channel archive \\
    --nsqlookupd http://127.0.0.1:4161 --state state --output clicks""",
)
@_reading
@click.option("--output", required=True, metavar="URI", help="The directory to write to.")
@click.option("--format", type=_FORMATS, default="parquet", show_default=True, help="Of the files.")
@_running
def archive(**given: Any) -> None:
    """Keep a topic's messages in files, in directories date=YYYY-MM-DD/hour=H of UTC."""
    _run("archive", **_arguments(**given))


@pipeline.command(
    cls=UtilityCommand,
    epilog="""\b
Example:
  nsq-anyio pipeline metrics --topic clicks --channel metrics \\
    --nsqlookupd http://127.0.0.1:4161 --state state --key country --value ms --every 10""",
)
@_reading
@click.option("--key", required=True, metavar="FIELD", help="The field of the JSON body to group by, as a.b.")
@click.option("--value", metavar="FIELD", help="The field to sum, and to take quantiles of.")
@click.option(
    "--window",
    type=Number(),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a window is.",
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
@click.option("--output", metavar="URI", help="Write Parquet files there, instead of printing.")
@click.option("--output-topic", metavar="TOPIC", help="Publish lines of JSON there, instead of printing.")
@click.option("--output-nsqd", multiple=True, metavar="HOST:PORT", help="For --output-topic; repeatable.")
@_running
def metrics(**given: Any) -> None:
    """Count JSON messages by key and window of time; sum a value and take its quantiles."""
    _run("metrics", **_arguments(**given))


@pipeline.command(
    cls=UtilityCommand,
    epilog="""\b
Example:
  nsq-anyio pipeline replay --input clicks --topic clicks-again \\
    --nsqd 127.0.0.1:4150 --rate 1000 --since 2026-01-31T09:00Z""",
)
@click.option("--input", required=True, metavar="URI", help="The output of an archive.")
@click.option("--topic", required=True, help="The topic to publish to.")
@click.option("--nsqd", multiple=True, required=True, metavar="HOST:PORT", help="To publish to; repeatable.")
@click.option("--rate", type=Integer(min=1), help="Messages per second at most.  [default: no bound]")
@click.option("--since", metavar="TIME", callback=_time, help="The first time that counts.")
@click.option("--until", metavar="TIME", callback=_time, help="The first time that does not count any more.")
@click.option("--format", type=_FORMATS, default="parquet", show_default=True, help="Of the archive.")
@_running
def replay(**given: Any) -> None:
    """Publish an archive to a topic again, oldest messages first."""
    _run("replay", **given)
