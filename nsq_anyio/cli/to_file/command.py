"""The command ``to-file``: its flags, and checks of their combinations."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..command import UtilityCommand, command_flags
from ..flags.connection import ConsumerFlags, connection_flags
from ..flags.kinds import Integer, boolean_option, duration, pattern
from ..flags.names import complete_channel, complete_topic
from ..flags.places import DirectoryOrURL
from ..flags.source import Source, source_flags

if TYPE_CHECKING:
    import anyio

    from ...re2_pattern import Pattern
    from ...storage.place import Place
    from .encodings import Encoding
    from .file_names import NameFormat
    from .rotation import FileOptions
    from .topics import Topics


@click.command(
    "to-file",
    cls=UtilityCommand,
    epilog="""\b
Example:
    nsq-anyio to-file --topic clicks --lookupd-http-address 127.0.0.1:4161 \\
      --output-dir /var/log/nsq --gzip""",
)
@click.option(
    "--topic", "topics", multiple=True, shell_complete=complete_topic, help="A topic to archive; repeatable."
)
@click.option(
    "--topic-pattern",
    type=pattern,
    metavar="REGEX",
    help="Archive only topics whose names match, anywhere in the name: of the given topics, or else of all "
    "that the nsqlookupds list.",
)
@click.option(
    "--topic-refresh",
    type=duration,
    default="1m",
    show_default=True,
    metavar="DURATION",
    help="How often to ask the nsqlookupds for new topics, if no --topic is given.",
)
@click.option(
    "--channel",
    shell_complete=complete_channel,
    default="nsq_to_file",
    show_default=True,
    help="The channel to consume from, of each topic.",
)
@source_flags
@click.option(
    "--output-dir",
    type=DirectoryOrURL(),
    default="/tmp",  # noqa: S108 - as nsq_to_file
    show_default=True,
    help="The directory for finished files, or its URL in an object store or HDFS.",
)
@click.option(
    "--work-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="The directory for unfinished files, on the same file system.  [default: --output-dir; required for "
    "a URL]",
)
@click.option(
    "--filename-format",
    default="<TOPIC>.<HOST><REV>.<DATETIME>.log",
    show_default=True,
    help="The files' names, with <TOPIC>, <HOST>, <PID>, <DATETIME> and <REV>, a number that is incremented "
    "if a file exists; a / begins a subdirectory.",
)
@click.option(
    "--datetime-format",
    default="%Y-%m-%d_%H",
    show_default=True,
    help="The format of <DATETIME>, as for strftime. When its value changes, the next file begins.",
)
@boolean_option("--utc", "Use UTC for <DATETIME>, not local time.")
@click.option(
    "--host-identifier",
    default="",
    help="The format of <HOST>, with <SHORT_HOST> and <HOSTNAME>.  [default: <SHORT_HOST>]",
)
@boolean_option("--gzip", "Compress with gzip; each sync ends a member.")
@click.option("--gzip-level", type=Integer(1, 9), default=6, show_default=True, help="The level of --gzip.")
@boolean_option("--zstd", "Compress with zstd; each sync ends a frame. Needs the extra zstd.")
@click.option("--zstd-level", type=Integer(1, 22), default=3, show_default=True, help="The level of --zstd.")
@boolean_option("--skip-empty-files", "Create a file only when there is a message for it.")
@click.option(
    "--rotate-size",
    type=Integer(min=0),
    default=0,
    show_default=True,
    metavar="BYTES",
    help="End a file once it is larger than this, before compression; 0: never.",
)
@click.option(
    "--rotate-interval",
    type=duration,
    default="0",
    show_default=True,
    metavar="DURATION",
    help="End a file after this time; 0: never.",
)
@click.option(
    "--sync-interval",
    type=duration,
    default="30s",
    show_default=True,
    metavar="DURATION",
    help="The longest time between syncs, which finish the messages. A sync comes sooner when "
    "--max-in-flight messages wait for it, or half of nsqd's message timeout is over.",
)
@click.option(
    "--http-client-connect-timeout",
    type=duration,
    default="2s",
    show_default=True,
    metavar="DURATION",
    help="The timeout to connect to an nsqlookupd for its topics.",
)
@click.option(
    "--http-client-request-timeout",
    type=duration,
    default="5s",
    show_default=True,
    metavar="DURATION",
    help="The timeout of an nsqlookupd's answer, once connected.",
)
@click.option("--log-prefix", hidden=True, help="Without effect: lines of the log name their logger.")
@connection_flags("consumer")
@command_flags
def to_file(
    *,
    topics: Sequence[str],
    topic_pattern: Pattern | None,
    topic_refresh: float,
    channel: str,
    source: Source,
    output_dir: Place,
    work_dir: Path | None,
    filename_format: str,
    datetime_format: str,
    utc: bool,
    host_identifier: str,
    gzip: bool,
    gzip_level: int,
    zstd: bool,
    zstd_level: int,
    skip_empty_files: bool,
    rotate_size: int,
    rotate_interval: float,
    sync_interval: float,
    http_client_connect_timeout: float,
    http_client_request_timeout: float,
    log_prefix: str | None,
    consumer: ConsumerFlags,
    backend: str,
) -> None:
    """Write the messages of topics to files, one per line.

    A message is finished only once it is on disk. Messages that are not synced when the command ends, for
    whatever reason, are delivered again. So a message may be in the files more than once, but none is
    missing.

    With a URL as --output-dir, files are put there when they end, and the next start puts what a killed
    process has left in --work-dir.

    SIGHUP closes the current files, so that other programs can rotate them. After SIGINT or SIGTERM the
    command syncs and finishes the messages it has, and exits with 0. If a file cannot be written, all topics
    are closed cleanly, and the exit code is 1.
    """
    from ...consumer import consume
    from ...names import check_channel
    from ...transport.tls_context import client_context, tls_options
    from ..event_loop import run_draining
    from ..reach import check_reachable
    from .directories import check_directories, chosen_work_dir, leftovers_moved
    from .file_names import NameFormat
    from .rotation import FileOptions, RotatingFile, Rotation
    from .topic import Syncing
    from .topics import Archiver, Topics

    if log_prefix is not None:
        click.echo("note: --log-prefix has no effect", err=True)
    check_channel(channel)
    tls = tls_options(consumer.options.lookupd_tls)
    chosen = Topics(
        named=tuple(topics),
        pattern=topic_pattern,
        nsqlookupds=source.nsqlookupd or (),
        refresh_interval=topic_refresh,
        timeout=http_client_connect_timeout + http_client_request_timeout,
        ssl_context=None if tls is None else client_context(tls),
    )
    options = FileOptions(
        output_dir=output_dir,
        work_dir=chosen_work_dir(work_dir, output_dir),
        encoding=_chosen_encoding(gzip=gzip, gzip_level=gzip_level, zstd=zstd, zstd_level=zstd_level),
        rotation=Rotation(rotate_size, rotate_interval),
        skip_empty_files=skip_empty_files,
    )
    suffix = options.encoding.suffix if options.encoding else ""
    syncing = Syncing(sync_interval, consumer.max_in_flight)
    names = NameFormat(filename_format, datetime_format, host_identifier, suffix, options.numbered)
    clock = partial(datetime.now, UTC) if utc else _local_time
    names.of_topic("topic").at(clock())  # raises now if the format is invalid
    _check_topics_have_files_of_their_own(chosen, names, options)
    check_directories(options)
    consuming = partial(
        consume,
        channel=channel,
        nsqd=source.nsqd,
        nsqlookupd=source.nsqlookupd,
        max_in_flight=consumer.max_in_flight,
        options=consumer.never_giving_up().options,
        connection=consumer.connection,
    )
    archiver = Archiver(
        chosen,
        consuming,
        lambda topic: RotatingFile(names.of_topic(topic), options, clock=clock, monotonic=time.monotonic),
        syncing,
    )

    async def run(stop: anyio.Event) -> None:
        await check_reachable(source, consumer)
        await archiver.run(stop)

    with leftovers_moved(options):
        run_draining(run, backend)


def _check_topics_have_files_of_their_own(topics: Topics, names: NameFormat, options: FileOptions) -> None:
    """Refuse topics that share a file if files are moved: the first topic to end would move it away."""
    several = topics.are_listed or len(set(topics.named)) > 1
    if several and options.moves and not options.exclusive and "<TOPIC>" not in names.filename_format:
        raise click.UsageError(
            f"--filename-format={names.filename_format!r} gives all topics one file, which --work-dir moves: "
            "add <TOPIC>"
        )


def _local_time() -> datetime:
    """Return the current time in the time zone of this machine."""
    return datetime.now().astimezone()


def _chosen_encoding(*, gzip: bool, gzip_level: int, zstd: bool, zstd_level: int) -> Encoding | None:
    """Return how files are compressed; None for no compression."""
    from .encodings import Gzip, Zstd

    if gzip and zstd:
        raise click.UsageError("use --gzip or --zstd, not both")
    if gzip:
        return Gzip(gzip_level)
    return Zstd(zstd_level) if zstd else None
