"""The click command of ``nsq-anyio to-file``, with its flags and checks of their combinations."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...errors import InvalidOption
from ..command import UtilityCommand, command_flags
from ..flags.connection import ConsumerFlags, connection_flags
from ..flags.fields import Flags, flag, go_switch, shared, takes
from ..flags.kinds import Integer, duration, pattern
from ..flags.names import complete_channel, complete_topic
from ..flags.source import Source, source_flags

if TYPE_CHECKING:
    from ...re2_pattern import Pattern
    from ...storage.place import Place
    from .encodings import Encoding
    from .file_names import NameFormat
    from .rotation import FileOptions
    from .topics import Topics


class DirectoryOrURL(click.Path):
    """The path of a directory, its ``file:`` URI, or its URL in an object store or HDFS."""

    def __init__(self) -> None:
        super().__init__(file_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Place:  # type: ignore[override] # a URL is no path
        """Return the directory or URL; refuse other kinds of URLs, and files."""
        from ...storage.place import place_of

        try:
            place = place_of(value)
        except InvalidOption as error:
            self.fail(str(error), param, ctx)
        if not isinstance(place, Path):
            return place
        super().convert(place, param, ctx)
        return place


class ToFileFlags(Flags):
    """The flags of ``nsq-anyio to-file``."""

    topics: Sequence[str] = flag(
        "A topic to archive; repeatable.", "--topic", multiple=True, shell_complete=complete_topic
    )
    topic_pattern: Pattern | None = flag(
        "Archive only topics whose names match, anywhere in the name: of the given topics, or else of all "
        "that the nsqlookupds list.",
        type=pattern,
    )
    topic_refresh: float = flag(
        "How often to ask the nsqlookupds for new topics, if no --topic is given.",
        type=duration,
        default="1m",
    )
    channel: str = flag(
        "The channel to consume from, of each topic.",
        shell_complete=complete_channel,
        default="nsq_to_file",
    )
    source: Source = shared(source_flags)
    output_dir: Place = flag(
        "The directory for finished files, or its URL in an object store or HDFS.",
        type=DirectoryOrURL(),
        default="/tmp",  # noqa: S108 - as nsq_to_file
    )
    work_dir: Path | None = flag(
        "The directory for unfinished files, on the same file system.  [default: --output-dir; required for "
        "a URL]",
        type=click.Path(file_okay=False, path_type=Path),
    )
    filename_format: str = flag(
        "The files' names, with <TOPIC>, <HOST>, <PID>, <DATETIME> and <REV>, a number that is incremented "
        "if a file exists; a / begins a subdirectory.",
        default="<TOPIC>.<HOST><REV>.<DATETIME>.log",
    )
    datetime_format: str = flag(
        "The format of <DATETIME>, as for strftime. When its value changes, the next file begins.",
        default="%Y-%m-%d_%H",
    )
    utc: bool = go_switch("Use UTC for <DATETIME>, not local time.")
    host_identifier: str = flag(
        "The format of <HOST>, with <SHORT_HOST> and <HOSTNAME>.  [default: <SHORT_HOST>]", default=""
    )
    gzip: bool = go_switch("Compress with gzip; each sync ends a member.")
    gzip_level: int = flag("The level of --gzip.", type=Integer(1, 9), default=6)
    zstd: bool = go_switch("Compress with zstd; each sync ends a frame. Needs the extra zstd.")
    zstd_level: int = flag("The level of --zstd.", type=Integer(1, 22), default=3)
    skip_empty_files: bool = go_switch("Create a file only when there is a message for it.")
    rotate_size: int = flag(
        "End a file once it is larger than this, before compression; 0: never.",
        type=Integer(min=0),
        default=0,
        show_default=True,
        metavar="BYTES",
    )
    rotate_interval: float = flag("End a file after this time; 0: never.", type=duration, default="0")
    sync_interval: float = flag(
        "The longest time between syncs, which finish the messages. A sync comes sooner when "
        "--max-in-flight messages wait for it, or half of nsqd's message timeout is over.",
        type=duration,
        default="30s",
    )
    http_client_connect_timeout: float = flag(
        "The timeout to connect to an nsqlookupd for its topics.", type=duration, default="2s"
    )
    http_client_request_timeout: float = flag(
        "The timeout of an nsqlookupd's answer, once connected.", type=duration, default="5s"
    )
    log_prefix: str | None = flag("Without effect: lines of the log name their logger.", hidden=True)
    consumer: ConsumerFlags = shared(connection_flags("consumer"))
    backend: str = shared(command_flags)


@click.command(
    "to-file",
    cls=UtilityCommand,
    epilog="""\b
Example:
    nsq-anyio to-file --topic clicks --lookupd-http-address 127.0.0.1:4161 \\
      --output-dir /var/log/nsq --gzip""",
)
@takes(ToFileFlags)
def to_file(flags: ToFileFlags) -> None:
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
    from ...names import check_channel
    from ...transport.tls_context import client_context, tls_options
    from ..clients import consume_from
    from ..event_loop import run_draining
    from ..reach import once_reachable
    from .directories import check_directories, chosen_work_dir, leftovers_moved
    from .file_names import NameFormat
    from .rotation import FileOptions, RotatingFile, Rotation
    from .topic import Syncing
    from .topics import Archiver, Topics

    if flags.log_prefix is not None:
        click.echo("note: --log-prefix has no effect", err=True)
    check_channel(flags.channel)
    tls = tls_options(flags.consumer.options.lookupd_tls)
    chosen = Topics(
        named=tuple(flags.topics),
        pattern=flags.topic_pattern,
        nsqlookupds=flags.source.nsqlookupd or (),
        refresh_interval=flags.topic_refresh,
        timeout=flags.http_client_connect_timeout + flags.http_client_request_timeout,
        ssl_context=None if tls is None else client_context(tls),
    )
    options = FileOptions(
        output_dir=flags.output_dir,
        work_dir=chosen_work_dir(flags.work_dir, flags.output_dir),
        encoding=_chosen_encoding(flags),
        rotation=Rotation(flags.rotate_size, flags.rotate_interval),
        skip_empty_files=flags.skip_empty_files,
    )
    suffix = options.encoding.suffix if options.encoding else ""
    syncing = Syncing(flags.sync_interval, flags.consumer.max_in_flight)
    names = NameFormat(
        flags.filename_format, flags.datetime_format, flags.host_identifier, suffix, options.numbered
    )
    clock = partial(datetime.now, UTC) if flags.utc else _local_time
    names.of_topic("topic").at(clock())  # raises now if the format is invalid
    _check_topics_have_files_of_their_own(chosen, names, options)
    check_directories(options)
    consuming = partial(
        consume_from,
        flags.source,
        flags.consumer.never_giving_up(),
        channel=flags.channel,
        max_in_flight=flags.consumer.max_in_flight,
    )
    archiver = Archiver(
        chosen,
        consuming,
        lambda topic: RotatingFile(names.of_topic(topic), options, clock=clock, monotonic=time.monotonic),
        syncing,
    )
    with leftovers_moved(options):
        run_draining(once_reachable(flags.source, flags.consumer, archiver.run), flags.backend)


def _check_topics_have_files_of_their_own(topics: Topics, names: NameFormat, options: FileOptions) -> None:
    """Refuse topics that share a file if files are moved: the first topic to end would move it away."""
    several = topics.are_listed or len(set(topics.named)) > 1
    if several and options.moves and not options.exclusive and "<TOPIC>" not in names.filename_format:
        raise click.UsageError(
            f"--filename-format={names.filename_format!r} gives all topics one file, which --work-dir moves: "
            "add <TOPIC>"
        )


def _local_time() -> datetime:
    return datetime.now().astimezone()


def _chosen_encoding(flags: ToFileFlags) -> Encoding | None:
    """Return the compression of files; None for no compression."""
    from .encodings import Gzip, Zstd

    if flags.gzip and flags.zstd:
        raise click.UsageError("use --gzip or --zstd, not both")
    if flags.gzip:
        return Gzip(flags.gzip_level)
    return Zstd(flags.zstd_level) if flags.zstd else None
