"""The click commands of ``nsq-anyio pipeline``, with their flags."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from ..command import UtilityCommand, quiet_command_flags
from ..flags.addresses import lookupd_http_flag, nsqd_tcp_flag
from ..flags.fields import Flags, flag, shared, switch, takes
from ..flags.kinds import Integer, Number
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


SPARK_OPTIONS = flag(
    'An option of format("nsq"), such as compression=snappy; repeatable.',
    "--option",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_assignments,
)
"""``--option``, as a dict."""

_MASTER = flag("Spark's master.  [default: local[*]]", metavar="URL")
_CONF = flag(
    "An option of Spark itself; repeatable.", multiple=True, metavar="KEY=VALUE", callback=_assignments
)
_AS_JSON = switch("Print one line of JSON instead of a table.", "--json")
_BACKEND = shared(quiet_command_flags)


class _ReadingFlags(Flags):
    topic: str = flag("The topic to read.", required=True, shell_complete=complete_topic)
    channel: str = flag("The channel to read from.", required=True, shell_complete=complete_channel)
    nsqlookupd: Sequence[str] = lookupd_http_flag("An nsqlookupd that lists the nsqds; repeatable.")
    nsqd: Sequence[str] = nsqd_tcp_flag(
        "An nsqd to read from, instead of --lookupd-http-address; repeatable."
    )
    state: Path | None = flag(
        "A directory for this pipeline alone. A pipeline that is run again with it resumes.",
        type=click.Path(file_okay=False, path_type=Path),
    )
    checkpoint: str | None = flag("Spark's part of the state, if not below --state.", metavar="URI")
    spool_dir: str | None = flag(
        "The spool's part of the state, if not below --state; all executors share it.", metavar="DIR"
    )
    every: float | None = flag(
        "Start a batch this often, until interrupted.  [default: read the waiting messages, then exit]",
        type=Number(min=0),
        metavar="SECONDS",
    )


def _arguments(
    *,
    state: Path | None,
    checkpoint: str | None,
    spool_dir: str | None,
    every: float | None,
    **others: Any,
) -> dict[str, Any]:
    """Turn the values of `_ReadingFlags` into arguments of the pipelines' functions."""
    if state is None and (checkpoint is None or spool_dir is None):
        raise click.UsageError("missing option '--state', or both '--checkpoint' and '--spool-dir'")
    if state is not None:
        # As a URI: Spark would look for a bare path on the cluster's default file system.
        checkpoint = checkpoint or (state.absolute() / "checkpoint").as_uri()
        spool_dir = spool_dir or str(state.absolute() / "spool")
    trigger = "available-now" if every is None else every
    return {"checkpoint": checkpoint, "spool_dir": spool_dir, "trigger": trigger, **others}


def _run(name: str, *, backend: str, **arguments: Any) -> None:
    del backend  # Spark's tasks run their own event loops
    from .run import run_pipeline

    run_pipeline(name, **arguments)


@click.group(cls=SentenceGroup)
def pipeline() -> None:
    """Run a pipeline on Spark, locally or on a cluster; needs Java 17 or later."""


class _ArchiveFlags(_ReadingFlags):
    output: str = flag("The directory to write to.", required=True, metavar="URI")
    format: str = flag("The format of the files.", type=_FORMATS, default="parquet")
    options: dict[str, str] = SPARK_OPTIONS
    master: str | None = _MASTER
    conf: dict[str, str] = _CONF
    as_json: bool = _AS_JSON
    backend: str = _BACKEND


@pipeline.command(
    cls=UtilityCommand,
    epilog="""\b
Example:
  nsq-anyio pipeline archive --topic clicks --channel archive \\
    --lookupd-http-address 127.0.0.1:4161 --state state --output clicks""",
)
@takes(_ArchiveFlags)
def archive(flags: _ArchiveFlags) -> None:
    """Archive a topic's messages in files, in directories date=YYYY-MM-DD/hour=H in UTC."""
    _run("archive", **_arguments(**vars(flags)))


class _MetricsFlags(_ReadingFlags):
    key: str = flag("The field of the JSON body to group by, such as a.b.", required=True, metavar="FIELD")
    value: str | None = flag("The field to sum and to compute quantiles of.", metavar="FIELD")
    window: float = flag("The length of a window.", type=Number(), default=60.0, metavar="SECONDS")
    lateness: float = flag(
        "How long a window waits for late messages.", type=Number(), default=60.0, metavar="SECONDS"
    )
    quantiles: Sequence[float] = flag(
        "Repeatable.", "--quantile", type=Number(0, 1), multiple=True, default=(0.5, 0.95, 0.99)
    )
    output: str | None = flag("The directory to write Parquet files to, instead of printing.", metavar="URI")
    output_topic: str | None = flag(
        "The topic to publish lines of JSON to, instead of printing.",
        metavar="TOPIC",
        shell_complete=complete_topic,
    )
    output_nsqd: Sequence[str] = nsqd_tcp_flag(
        "An nsqd that --output-topic is published to; repeatable.", prefix="output-"
    )
    options: dict[str, str] = SPARK_OPTIONS
    master: str | None = _MASTER
    conf: dict[str, str] = _CONF
    as_json: bool = _AS_JSON
    backend: str = _BACKEND


@pipeline.command(
    cls=UtilityCommand,
    epilog="""\b
Example:
  nsq-anyio pipeline metrics --topic clicks --channel metrics \\
    --lookupd-http-address 127.0.0.1:4161 --state state \\
    --key country --value ms --every 10""",
)
@takes(_MetricsFlags)
def metrics(flags: _MetricsFlags) -> None:
    """Count JSON messages by key and time window; sum a value and compute its quantiles."""
    _run("metrics", **_arguments(**vars(flags)))


class _ReplayFlags(Flags):
    input: str = flag("The output of an archive.", required=True, metavar="URI")
    topic: str = flag("The topic to publish to.", required=True, shell_complete=complete_topic)
    nsqd: Sequence[str] = nsqd_tcp_flag("An nsqd to publish to; repeatable.", required=True)
    rate: int | None = flag("The most messages per second.  [default: no limit]", type=Integer(min=1))
    since: datetime | None = flag("Publish messages from this time on.", metavar="TIME", callback=_time)
    until: datetime | None = flag(
        "Publish messages from before this time only.", metavar="TIME", callback=_time
    )
    format: str = flag("The format of the archive.", type=_FORMATS, default="parquet")
    options: dict[str, str] = SPARK_OPTIONS
    master: str | None = _MASTER
    conf: dict[str, str] = _CONF
    as_json: bool = _AS_JSON
    backend: str = _BACKEND


@pipeline.command(
    cls=UtilityCommand,
    epilog="""\b
Example:
  nsq-anyio pipeline replay --input clicks --topic clicks-again \\
    --nsqd-tcp-address 127.0.0.1:4150 --rate 1000 --since 2026-01-31T09:00Z""",
)
@takes(_ReplayFlags)
def replay(flags: _ReplayFlags) -> None:
    """Publish the messages of an archive to a topic, oldest first."""
    _run("replay", **vars(flags))
