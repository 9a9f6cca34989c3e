"""The options of ``format("nsq")``: what may be set for reading and for writing, and what follows from it."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias, get_args

from ..names import check_channel, check_topic
from ..options import ConnectionOptions, ConsumerOptions, ProducerOptions, PublishMode
from ..options.declaration import declared, documented
from ..options.kinds import Choice, Flag, Integer, Seconds, Value
from ..storage.place import spool_location
from .access import ACCESS_OPTIONS, CONNECTION_OPTIONS, Access, PassThrough, is_pass_through
from .option_texts import (
    Parsed,
    TextOption,
    pass_through_options,
    text_options,
    url_list,
)

CreateChannel: TypeAlias = Literal["true", "everywhere", "false"]


@documented
@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions(Access):
    """How to read from NSQ. It is pickled."""

    topic: Annotated[str, Parsed(parse=check_topic)]
    """The topic to read."""
    channel: Annotated[str, Parsed(parse=check_channel)]
    """Its channel."""
    nsqd_http: Annotated[tuple[str, ...], Parsed(parse=url_list)] = field(default=(), repr=False)
    """The HTTP URLs of the ``nsqds``, in the same order; never shown (default ())."""
    spool_dir: Annotated[str | None, Parsed(parse=spool_location)] = None
    """Where spools are kept: the absolute path of a directory that the driver and executors share, or a URL
    of S3, GCS, Azure or HDFS; None for no spool (default None).
    """
    max_rows_per_batch: Annotated[int, Integer(low=1, unit="rows")] = 1_000_000
    """The most rows of a micro-batch, over all partitions (rows: 1 or more; default 1000000)."""
    max_bytes_per_batch: Annotated[int | None, Integer(low=1, special=(None,), unit="bytes")] = None
    """The most bytes of bodies in a batch; None for no limit (bytes: 1 or more or None; default None)."""
    min_partitions: Annotated[int | None, Integer(low=1, special=(None,), unit="partitions")] = None
    """The fewest partitions of a batch, if it has as many rows; None for one per nsqd (partitions: 1 or more
    or None; default None).
    """
    max_rows_per_partition: Annotated[int | None, Integer(low=1, special=(None,), unit="rows")] = None
    """The rows above which a partition is split; None for no limit (rows: 1 or more or None; default None).
    """
    max_in_flight: Annotated[int, Integer(low=1, unit="messages")] = 5_000
    """The most messages in flight of one partition, on up to 4 connections, since nsqd bounds those of each
    by its --max-rdy-count (messages: 1 or more; default 5000).
    """
    max_wait: Annotated[float, Seconds(low=0.01)] = 1.0
    """The time without a message after which a partition ends (seconds: 0.01 or more; default 1)."""
    msg_timeout: Annotated[float | None, declared(ConnectionOptions)["msg_timeout"]] = None
    poll_interval: Annotated[float, Seconds(low=0.001)] = 1.0
    """The time after which an idle stream asks again for the depth (seconds: 0.001 or more; default 1)."""
    share_channel: Annotated[bool, Flag()] = False
    """Whether streams of one application may share the channel, so that each gets a part (default False)."""
    create_channel: Annotated[CreateChannel, Choice(choices=get_args(CreateChannel))] = "true"
    """Whether to create a missing channel: wherever the topic is, also on nsqds without it, or never ('true',
    'everywhere' or 'false'; default 'true').
    """
    headers: Annotated[bool, Flag()] = False
    """Whether envelopes are opened: into a column ``headers``, and payloads as bodies (default False)."""
    peek: Annotated[bool, Flag()] = False
    """Whether a batch read gives all messages back (default False)."""
    drain: Annotated[bool, Flag()] = False
    """Whether a batch read without a spool may finish messages whose rows may get lost (default False)."""
    max_rows: Annotated[int | None, Integer(low=1, special=(None,), unit="rows")] = None
    """The most rows of a batch read; None for all messages that wait when it begins (rows: 1 or more or None;
    default None).
    """

    @property
    def https_urls(self) -> tuple[str, ...]:
        """The URLs of the servers that are reached over https."""
        return tuple(url for url in (*self.nsqlookupds, *self.nsqd_http) if url.startswith("https:"))

    def consumer_connection(self) -> ConnectionOptions:
        """Return the options of a partition's connection. It reads files, so call it in the task.

        :raises InvalidOption: if a file cannot be read or used
        """
        return self.connection_options(msg_timeout=self.msg_timeout)

    def consumer_options(self) -> ConsumerOptions:
        """Return the options of a partition's consumer: no limit of attempts, and no backoff."""
        return ConsumerOptions(max_attempts=0, max_backoff_duration=0)


@documented
@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions(Access):
    """How to write to NSQ. It is pickled."""

    topic: Annotated[str | None, Parsed(parse=check_topic)] = None
    """The topic of all rows; None to use the column ``topic`` (default None)."""
    mode: Annotated[PublishMode, declared(ProducerOptions)["mode"]] = "round_robin"
    batch_rows: Annotated[int, Integer(low=1, unit="rows")] = 2_000
    """The most rows in one MPUB (rows: 1 or more; default 2000)."""
    batch_bytes: Annotated[int, Integer(low=1, unit="bytes")] = 1024 * 1024
    """The most bytes in one MPUB; a single row may exceed it (bytes: 1 or more; default 1 MiB)."""
    max_in_flight: Annotated[int, Integer(low=1, unit="rows")] = 16_000
    """The most rows of one task that await nsqd's response (rows: 1 or more; default 16000)."""
    publish_timeout: Annotated[float, declared(ProducerOptions)["publish_timeout"]] = 60.0
    resend_unknown: Annotated[bool, Flag()] = True
    """Whether to publish rows again if nsqd's response was lost, so that nsqd may have them twice; otherwise
    the task fails, and Spark publishes all of its rows again (default True).
    """
    max_msg_size: Annotated[int, declared(ProducerOptions)["max_msg_size"]] = 1024 * 1024
    max_body_size: Annotated[int, declared(ProducerOptions)["max_body_size"]] = 5 * 1024 * 1024
    max_defer: Annotated[float, declared(ProducerOptions)["max_defer"]] = 3600.0
    producer: Annotated[PassThrough, Value(valid=is_pass_through, use="pairs of names and values")] = ()
    """Other options of the producer (default ())."""

    def producer_options(self) -> ProducerOptions:
        """Return the options of a task's producer."""
        return ProducerOptions(
            **dict[str, Any](self.producer),
            mode=self.mode,
            resend_unknown=self.resend_unknown,
            connect_timeout=self.connect_timeout,
            publish_timeout=self.publish_timeout,
            max_outstanding=self.max_in_flight,
            max_msg_size=self.max_msg_size,
            max_body_size=self.max_body_size,
            max_defer=self.max_defer,
        )


def _listed(options: type[object]) -> list[TextOption]:
    """Return the options of a class in the order of errors: topic and channel, servers, the rest."""
    shared = declared(Access)
    own = [option for option in text_options(options) if option.field not in shared]
    return sorted((*ACCESS_OPTIONS, *own), key=lambda option: option.name not in {"topic", "channel"})


# A consumer's options are not passed on, because each partition sets its own.
READ_OPTIONS = (*_listed(ReadOptions), *CONNECTION_OPTIONS)
WRITE_OPTIONS = (
    *_listed(WriteOptions),
    *CONNECTION_OPTIONS,
    *pass_through_options(ProducerOptions, "producer", declared(WriteOptions)),
)
