"""The options of ``format("nsq")``, validated when a source or sink is made.

Every error has the documented name of the option, its value unless that is secret, and what is allowed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from ..address import Address, nsqd_addresses
from ..errors import InvalidAddress, InvalidOption
from ..names import check_channel, check_topic
from ..options import ConnectionOptions, ConsumerOptions, ProducerOptions, PublishMode
from ..options.declaration import declared, documented
from ..options.kinds import Flag, Integer, Seconds, Value
from .access import ACCESS_OPTIONS, CONNECTION_OPTIONS, Access, PassThrough, is_pass_through
from .option_texts import (
    Parsed,
    TextOption,
    parsed,
    pass_through_options,
    shared_directory,
    text_options,
    url_list,
)

__all__ = [
    "READ_OPTIONS",
    "WRITE_OPTIONS",
    "ReadOptions",
    "WriteOptions",
    "batch_read_options",
    "read_options",
    "write_options",
]

_MPUB_FRAMING = 4
"""The bytes in an MPUB for the size of each message, and as many for their count."""


@documented
@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions(Access):
    """How to read from NSQ. It is pickled."""

    topic: Annotated[str, Parsed("the topic to read", parse=check_topic)]
    channel: Annotated[str, Parsed("its channel", parse=check_channel)]
    nsqd_http: Annotated[
        tuple[str, ...],
        Parsed("the HTTP URLs of the ``nsqds``, in the same order; never shown", parse=url_list),
    ] = field(default=(), repr=False)
    spool_dir: Annotated[
        str | None,
        Parsed(
            "the absolute path of a directory that the driver and executors share; None for no spool",
            parse=shared_directory,
        ),
    ] = None
    max_rows_per_batch: Annotated[
        int, Integer("the most rows of a micro-batch, over all partitions", low=1, unit="rows")
    ] = 1_000_000
    max_bytes_per_batch: Annotated[
        int | None,
        Integer(
            "the most bytes of bodies in a batch; None for no limit", low=1, special=(None,), unit="bytes"
        ),
    ] = None
    min_partitions: Annotated[
        int | None,
        Integer(
            "the fewest partitions of a batch, if it has as many rows; None for one per nsqd",
            low=1,
            special=(None,),
            unit="partitions",
        ),
    ] = None
    max_rows_per_partition: Annotated[
        int | None,
        Integer(
            "the rows above which a partition is split; None for no limit",
            low=1,
            special=(None,),
            unit="rows",
        ),
    ] = None
    max_in_flight: Annotated[
        int,
        Integer(
            "the most messages in flight of one partition; nsqd bounds it by its --max-rdy-count",
            low=1,
            unit="messages",
        ),
    ] = 2_500
    max_wait: Annotated[
        float, Seconds("the time without a message after which a partition ends", low=0.01)
    ] = 1.0
    msg_timeout: Annotated[float | None, declared(ConnectionOptions)["msg_timeout"]] = None
    poll_interval: Annotated[
        float, Seconds("the time after which an idle stream asks again for the depth", low=0.001)
    ] = 1.0
    share_channel: Annotated[
        bool, Flag("whether streams of one application may share the channel, so that each gets a part")
    ] = False
    peek: Annotated[bool, Flag("whether a batch read gives all messages back")] = False
    drain: Annotated[
        bool, Flag("whether a batch read without a spool may finish messages whose rows may get lost")
    ] = False
    max_rows: Annotated[
        int | None,
        Integer(
            "the most rows of a batch read; None for all messages that wait when it begins",
            low=1,
            special=(None,),
            unit="rows",
        ),
    ] = None

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

    topic: Annotated[
        str | None,
        Parsed("the topic of all rows; None to use the column ``topic``", parse=check_topic),
    ] = None
    mode: Annotated[PublishMode, declared(ProducerOptions)["mode"]] = "round_robin"
    batch_rows: Annotated[int, Integer("the most rows in one MPUB", low=1, unit="rows")] = 2_000
    batch_bytes: Annotated[
        int, Integer("the most bytes in one MPUB; a single row may exceed it", low=1, unit="bytes")
    ] = 1024 * 1024
    max_in_flight: Annotated[
        int, Integer("the most rows of one task that await nsqd's response", low=1, unit="rows")
    ] = 16_000
    publish_timeout: Annotated[float, declared(ProducerOptions)["publish_timeout"]] = 60.0
    resend_unknown: Annotated[
        bool,
        Flag(
            "whether to publish rows again if nsqd's response was lost, so that nsqd may have them twice; "
            "otherwise the task fails, and Spark publishes all of its rows again"
        ),
    ] = True
    max_msg_size: Annotated[int, declared(ProducerOptions)["max_msg_size"]] = 1024 * 1024
    max_body_size: Annotated[int, declared(ProducerOptions)["max_body_size"]] = 5 * 1024 * 1024
    max_defer: Annotated[float, declared(ProducerOptions)["max_defer"]] = 3600.0
    producer: Annotated[
        PassThrough,
        Value("other options of the producer", valid=is_pass_through, use="pairs of names and values"),
    ] = ()

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

_OF_STREAMS = {
    "maxRowsPerBatch": "bound a batch read with maxRows",
    "maxBytesPerBatch": "bound a batch read with maxRows",
    "pollInterval": "leave it out",
    "shareChannel": "leave it out",
}

# Options of a sink that are Spark's own.
_OF_SPARK = frozenset({"checkpointlocation", "queryname"})


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Validate the options of a read.

    :param given: the texts by their names, in any case
    :raises InvalidOption: naming the option that is unknown, missing or not valid
    """
    values: dict[str, Any] = parsed(given, READ_OPTIONS, purpose="reading", elsewhere=WRITE_OPTIONS)
    for name in ("topic", "channel"):
        if name not in values:
            raise InvalidOption(f'no {name}: set it with .option("{name}", ...)')
    has_urls = "nsqd_http" in values
    options = ReadOptions(**values)
    options.check()
    if options.nsqlookupds:
        if has_urls:
            raise InvalidOption("nsqdHttp has no effect with nsqlookupd: leave it out")
        return options
    if not has_urls:
        values["nsqd_http"] = tuple(map(_default_url, options.nsqds))
    elif len(options.nsqd_http) != len(options.nsqds):
        raise InvalidOption(
            f"nsqdHttp names {len(options.nsqd_http)} servers and nsqd {len(options.nsqds)}: "
            "name the HTTP address of each nsqd, in the same order"
        )
    return ReadOptions(**values)


def batch_read_options(given: Mapping[str, str]) -> ReadOptions:
    """Validate the options of a batch read.

    :param given: as for `read_options`
    :raises InvalidOption: as `read_options`, and for an option of streams only
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
            "none of peek, spoolDir and drain is set: NSQ forgets a message once it is finished, so choose "
            "what happens to the messages that are read. peek=true gives everything back to nsqd. "
            "spoolDir, an absolute path that the driver and all executors share, stores rows before they are "
            "finished, and keeps them until you delete them. drain=true finishes messages when their rows "
            "are handed to Spark, which takes many more than limit(), first() or a failed job needs: the "
            "others are lost"
        )
    if len(names) > 1:
        raise InvalidOption(f"{' and '.join(names)} exclude each other: choose one")
    return options


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Validate the options of a write.

    :param given: the texts by their names, in any case
    :raises InvalidOption: naming the option that is unknown, missing or not valid
    """
    values: dict[str, Any] = parsed(
        given, WRITE_OPTIONS, purpose="writing", ignored=_OF_SPARK, elsewhere=READ_OPTIONS
    )
    options = WriteOptions(**values)
    options.check()
    options.producer_options()  # find conflicting options here rather than in each task
    if options.batch_bytes > options.max_body_size:
        raise InvalidOption(
            f"batchBytes={options.batch_bytes} exceeds maxBodySize={options.max_body_size}: "
            "lower it, or raise maxBodySize together with nsqd's --max-body-size"
        )
    if options.max_msg_size + 2 * _MPUB_FRAMING > options.max_body_size:
        raise InvalidOption(
            f"maxMsgSize={options.max_msg_size} exceeds maxBodySize={options.max_body_size}: "
            f"raise maxBodySize until it is at least {2 * _MPUB_FRAMING} larger"
        )
    return options


def _default_url(nsqd: str) -> str:
    """Return an nsqd's HTTP URL for its default ports: the HTTP port is one above the TCP port."""
    (address,) = nsqd_addresses(nsqd)
    if not isinstance(address, Address):
        raise InvalidOption(f"nsqd={nsqd!r} is a unix socket: set nsqdHttp to its HTTP address")
    try:
        return f"http://{Address(address.host, address.port + 1)}"
    except InvalidAddress:
        raise InvalidOption(f"nsqd={nsqd!r} has no next port: set nsqdHttp to its HTTP address") from None
