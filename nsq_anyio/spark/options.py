"""The options of ``format("nsq")``, validated when a source or sink is made.

Every error names the option as it is documented, the value unless it is a secret, and what is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ..address import Address, nsqd_addresses
from ..errors import InvalidAddress, InvalidOption
from ..names import check_channel, check_topic
from ..options import ConnectionOptions, ConsumerOptions, ProducerOptions
from .access import ACCESS_OPTIONS, Access
from .option_texts import Option, choice, flag, integer, parsed, seconds, shared_directory, url_list

__all__ = ["ReadOptions", "WriteOptions", "batch_read_options", "read_options", "write_options"]

_MPUB_FRAMING = 4
"""Bytes that an MPUB takes for each message besides its body, and once for their count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions(Access):
    """How NSQ is read. It is pickled.

    :ivar nsqd_http: the URLs of the HTTP sides of ``nsqds``, in their order; never shown, as ``nsqlookupds``
    :ivar spool_dir: the absolute path of a directory that driver and executors share; None for no spool
    :ivar max_rows_per_batch: of a micro-batch, over all partitions; default 1,000,000
    :ivar max_bytes_per_batch: bodies of a micro-batch in sum; None for no bound
    :ivar min_partitions: into which a batch is split, if it has as many rows; None for one per nsqd
    :ivar max_rows_per_partition: above which a partition is split; None for no bound
    :ivar max_in_flight: messages of one partition that nsqd waits to have answered; nsqd bounds it by its
        --max-rdy-count; default 2500
    :ivar max_wait: seconds without a message after which a partition ends; default 1
    :ivar msg_timeout: seconds after which nsqd requeues an unanswered message; None takes nsqd's
    :ivar poll_interval: seconds between two questions of an idle stream for what waits; default 1
    :ivar share_channel: whether several streams of one application may read the channel, each a part; default
        False
    :ivar peek: whether a batch read puts everything back; default False
    :ivar drain: whether a batch read without a spool may finish what nobody may get; default False
    :ivar max_rows: of a batch read; None for all that waits when it begins
    """

    topic: str
    channel: str
    nsqd_http: tuple[str, ...] = field(default=(), repr=False)
    spool_dir: str | None = None
    max_rows_per_batch: int = 1_000_000
    max_bytes_per_batch: int | None = None
    min_partitions: int | None = None
    max_rows_per_partition: int | None = None
    max_in_flight: int = 2_500
    max_wait: float = 1.0
    msg_timeout: float | None = None
    poll_interval: float = 1.0
    share_channel: bool = False
    peek: bool = False
    drain: bool = False
    max_rows: int | None = None

    @property
    def https_urls(self) -> tuple[str, ...]:
        """The servers that are asked over https."""
        return tuple(url for url in (*self.nsqlookupds, *self.nsqd_http) if url.startswith("https:"))

    def consumer_connection(self) -> ConnectionOptions:
        """Return the options of a partition's connection; for tasks, as files are read.

        :raises InvalidOption: if a file cannot be read or used
        """
        return self.connection_options(msg_timeout=self.msg_timeout)

    def consumer_options(self) -> ConsumerOptions:
        """Return the options of a partition's consumer: it gives nothing up, and never slows down."""
        return ConsumerOptions(max_attempts=0, max_backoff_duration=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions(Access):
    """How NSQ is written. It is pickled.

    :ivar topic: for all rows, whatever a column ``topic`` says; None takes that column
    :ivar mode: which of several nsqds gets an MPUB, as ``ProducerOptions.mode``; default ``round_robin``
    :ivar batch_rows: the most that travel in one MPUB; default 2000
    :ivar batch_bytes: what such an MPUB takes at most; one row may exceed it; default 1 MiB
    :ivar max_in_flight: rows of one task that wait for nsqd's answer; default 16,000
    :ivar publish_timeout: seconds until nsqd must have answered; default 60
    :ivar resend_unknown: whether rows whose answer was lost are published again, so that nsqd may have them
        twice; otherwise the task fails, and Spark publishes all its rows again; default True
    :ivar max_msg_size: the largest body (nsqd: --max-msg-size); default 1 MiB
    :ivar max_body_size: the largest MPUB (nsqd: --max-body-size); default 5 MiB
    :ivar max_defer: the longest ``defer`` in seconds (nsqd: --max-req-timeout); default 3600
    """

    topic: str | None = None
    mode: Literal["round_robin", "least_outstanding", "hostpool", "epsilon_greedy"] = "round_robin"
    batch_rows: int = 2_000
    batch_bytes: int = 1024 * 1024
    max_in_flight: int = 16_000
    publish_timeout: float = 60.0
    resend_unknown: bool = True
    max_msg_size: int = 1024 * 1024
    max_body_size: int = 5 * 1024 * 1024
    max_defer: float = 3600.0

    def producer_options(self) -> ProducerOptions:
        """Return the options of a task's producer."""
        return ProducerOptions(
            mode=self.mode,
            resend_unknown=self.resend_unknown,
            connect_timeout=self.connect_timeout,
            publish_timeout=self.publish_timeout,
            max_outstanding=self.max_in_flight,
            max_msg_size=self.max_msg_size,
            max_body_size=self.max_body_size,
            max_defer=self.max_defer,
        )


_READ_OPTIONS = (
    Option("topic", "topic", check_topic),
    Option("channel", "channel", check_channel),
    *ACCESS_OPTIONS,
    Option("nsqdHttp", "nsqd_http", url_list),
    Option("spoolDir", "spool_dir", shared_directory),
    Option("maxRowsPerBatch", "max_rows_per_batch", integer(1)),
    Option("maxBytesPerBatch", "max_bytes_per_batch", integer(1)),
    Option("minPartitions", "min_partitions", integer(1)),
    Option("maxRowsPerPartition", "max_rows_per_partition", integer(1)),
    Option("maxInFlight", "max_in_flight", integer(1)),
    Option("maxWait", "max_wait", seconds(0.01)),
    Option("msgTimeout", "msg_timeout", seconds(1)),
    Option("pollInterval", "poll_interval", seconds(0.001)),
    Option("shareChannel", "share_channel", flag),
    Option("peek", "peek", flag),
    Option("drain", "drain", flag),
    Option("maxRows", "max_rows", integer(1)),
)

_WRITE_OPTIONS = (
    Option("topic", "topic", check_topic),
    *ACCESS_OPTIONS,
    Option("mode", "mode", choice("round_robin", "least_outstanding", "hostpool", "epsilon_greedy")),
    Option("batchRows", "batch_rows", integer(1)),
    Option("batchBytes", "batch_bytes", integer(1)),
    Option("maxInFlight", "max_in_flight", integer(1)),
    Option("publishTimeout", "publish_timeout", seconds(0.001)),
    Option("resendUnknown", "resend_unknown", flag),
    Option("maxMsgSize", "max_msg_size", integer(1)),
    Option("maxBodySize", "max_body_size", integer(1)),
    Option("maxDefer", "max_defer", seconds(0)),
)

_OF_STREAMS = {
    "maxRowsPerBatch": "bound a batch read with maxRows",
    "maxBytesPerBatch": "bound a batch read with maxRows",
    "pollInterval": "leave it out",
    "shareChannel": "leave it out",
}

# What Spark itself is told by the options of a query's sink.
_OF_SPARK = frozenset({"checkpointlocation", "queryname"})


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Validate the options of a read.

    :param given: their texts by their names, in any case
    :raises InvalidOption: naming the option that is unknown, missing or not valid
    """
    values: dict[str, Any] = parsed(given, _READ_OPTIONS, purpose="reading", elsewhere=_WRITE_OPTIONS)
    for name in ("topic", "channel"):
        if name not in values:
            raise InvalidOption(f'no {name}: set it with .option("{name}", ...)')
    has_urls = "nsqd_http" in values
    options = ReadOptions(**values)
    options.check()
    if options.nsqlookupds:
        if has_urls:
            raise InvalidOption("nsqdHttp goes with nsqd: with nsqlookupd, leave it out")
        return options
    if not has_urls:
        values["nsqd_http"] = tuple(map(_default_url, options.nsqds))
    elif len(options.nsqd_http) != len(options.nsqds):
        raise InvalidOption(
            f"nsqdHttp names {len(options.nsqd_http)} servers and nsqd {len(options.nsqds)}: "
            "name the HTTP side of each nsqd, in the same order"
        )
    return ReadOptions(**values)


def batch_read_options(given: Mapping[str, str]) -> ReadOptions:
    """Validate the options of a batch read.

    :param given: as for `read_options`
    :raises InvalidOption: as `read_options`, and for an option that only a stream has
    """
    keys = {key.lower() for key in given}
    for name, remedy in _OF_STREAMS.items():
        if name.lower() in keys:
            raise InvalidOption(f"{name} is for streams: {remedy}")
    options = read_options(given)
    chosen = {
        "peek": options.peek,
        "spoolDir": options.spool_dir is not None,
        "drain": options.drain,
    }
    names = [name for name, is_chosen in chosen.items() if is_chosen]
    if not names:
        raise InvalidOption(
            "none of peek, spoolDir and drain: NSQ forgets a message once it is finished, so say what "
            "becomes of what is read. peek=true gives everything back to nsqd. spoolDir, an absolute path "
            "that the driver and all executors share, stores rows before they are finished, and keeps them "
            "until you delete them. drain=true finishes messages when their rows are handed to Spark, which "
            "takes many more than limit(), first() or a failed job needs: these are gone"
        )
    if len(names) > 1:
        raise InvalidOption(f"{' and '.join(names)} exclude each other: choose one")
    return options


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Validate the options of a write.

    :param given: their texts by their names, in any case
    :raises InvalidOption: naming the option that is unknown, missing or not valid
    """
    values: dict[str, Any] = parsed(
        given, _WRITE_OPTIONS, purpose="writing", ignored=_OF_SPARK, elsewhere=_READ_OPTIONS
    )
    options = WriteOptions(**values)
    options.check()
    if options.batch_bytes > options.max_body_size:
        raise InvalidOption(
            f"batchBytes={options.batch_bytes} exceeds maxBodySize={options.max_body_size}: "
            "lower it, or raise maxBodySize together with nsqd's --max-body-size"
        )
    if options.max_msg_size + 2 * _MPUB_FRAMING > options.max_body_size:
        raise InvalidOption(
            f"maxMsgSize={options.max_msg_size} exceeds maxBodySize={options.max_body_size}: "
            f"raise maxBodySize to {2 * _MPUB_FRAMING} more at least"
        )
    return options


def _default_url(nsqd: str) -> str:
    """What the HTTP side of an nsqd is called when its ports are chosen as nsqd's own defaults are."""
    (address,) = nsqd_addresses(nsqd)
    if not isinstance(address, Address):
        raise InvalidOption(f"nsqd={nsqd!r} is a unix socket: set nsqdHttp to its HTTP side")
    try:
        return f"http://{Address(address.host, address.port + 1)}"
    except InvalidAddress:
        raise InvalidOption(f"nsqd={nsqd!r} has no port above it: set nsqdHttp to its HTTP side") from None
