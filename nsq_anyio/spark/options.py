"""The options of ``format("nsq")``: their declarations, and the checks of options that depend on each other.

Every error has the documented name of the option, its value unless that is secret, and the allowed values.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args

from ..address import Address, nsqd_addresses
from ..errors import InvalidAddress, InvalidOption
from ..names import check_channel, check_topic, is_ephemeral
from ..options import ConnectionOptions, ConsumerOptions, ProducerOptions, PublishMode, TLSOptions
from ..options.declaration import declared, documented
from ..options.kinds import Choice, Flag, Integer, Seconds, Text, Value
from ..options.tls import TLSVersion
from ..storage.place import spool_location
from ..transport.tls_context import client_context
from .option_texts import (
    Parsed,
    TextOption,
    absolute_path,
    nsqd_list,
    parsed,
    pass_through_options,
    text,
    text_options,
    url_list,
)

Compression: TypeAlias = Literal["none", "snappy", "deflate"]

PassThrough: TypeAlias = tuple[tuple[str, object], ...]
"""Names and values of options that Spark passes unchanged to a connection or a producer."""

CreateChannel: TypeAlias = Literal["true", "everywhere", "false"]

_TLS_NAMES = {
    "ca_file": "tlsCaFile",
    "certificate_file": "tlsCertificateFile",
    "private_key_file": "tlsPrivateKeyFile",
    "private_key_password": "tlsPrivateKeyPassword",
}

_MPUB_FRAMING = 4
"""The bytes in an MPUB for the size of each message, and as many for their count."""

_OF_STREAMS = {
    "maxRowsPerBatch": "bound a batch read with maxRows",
    "maxBytesPerBatch": "bound a batch read with maxRows",
    "pollInterval": "leave it out",
    "shareChannel": "leave it out",
}

# Options of a sink that are Spark's own.
_OF_SPARK = frozenset({"checkpointlocation", "queryname"})


def is_pass_through(value: object) -> bool:
    """Return whether ``value`` is a `PassThrough`."""
    return isinstance(value, tuple)


@documented
@dataclass(frozen=True, slots=True, kw_only=True)
class SharedOptions:
    """The options that reads and writes share: the servers, and how to connect to them.

    They are pickled, so they hold no connections. All paths are paths on the executors. The driver
    needs the same files if it connects to https URLs.
    """

    nsqds: Annotated[tuple[str, ...], Parsed(parse=nsqd_list, spark="nsqd")] = ()
    """Addresses as ``host:port`` or the path of a unix socket; empty if nsqlookupds name them (default ()).
    """
    nsqlookupds: Annotated[tuple[str, ...], Parsed(parse=url_list, spark="nsqlookupd")] = field(
        default=(), repr=False
    )
    """URLs; never shown, as they may hold a password (default ())."""
    connect_timeout: Annotated[float, Seconds(low=0.001)] = 10.0
    """The time to connect to one nsqd (seconds: 0.001 or more; default 10)."""
    http_timeout: Annotated[float, Seconds(low=0.001)] = 10.0
    """The time for one HTTP response of nsqd or nsqlookupd (seconds: 0.001 or more; default 10)."""
    client_id: Annotated[str | None, Text()] = None
    """The client id that nsqadmin shows; None for the host name (default None)."""
    tls: Annotated[bool, Flag()] = False
    """Whether connections to nsqd are encrypted; the files below also serve https URLs (default False)."""
    tls_ca_file: Annotated[str | None, Parsed(parse=absolute_path)] = None
    """The authorities to trust, PEM; None for the system's (default None)."""
    tls_certificate_file: Annotated[str | None, Parsed(parse=absolute_path)] = None
    """The client's certificate with its chain, PEM (default None)."""
    tls_private_key_file: Annotated[str | None, Parsed(parse=absolute_path)] = None
    """The certificate's key, PEM (default None)."""
    tls_private_key_password: Annotated[str | None, Parsed(parse=text, is_secret=True)] = field(
        default=None, repr=False
    )
    """The password of an encrypted key (default None)."""
    tls_minimum_version: Annotated[TLSVersion, declared(TLSOptions)["minimum_version"]] = "TLSv1.2"
    tls_server_hostname: Annotated[str | None, Text()] = None
    """The name that nsqd's certificate must have; None for the address (default None)."""
    tls_verify: Annotated[bool, declared(TLSOptions)["verify"]] = True
    compression: Annotated[Compression, Choice(choices=get_args(Compression))] = "none"
    """The compression to ask nsqd for; if it declines, nothing is compressed ('none', 'snappy' or 'deflate';
    default 'none').
    """
    deflate_level: Annotated[int, declared(ConnectionOptions)["deflate_level"]] = 6
    auth_secret: Annotated[str | None, Text(is_secret=True)] = field(default=None, repr=False)
    """The secret for AUTH; never shown (default None)."""
    auth_secret_file: Annotated[str | None, Parsed(parse=absolute_path)] = None
    """A file with the secret for AUTH, which each task reads again (default None)."""
    lookupd_authorization: Annotated[bool, Flag()] = False
    """Whether to send the secret to nsqlookupds, too, as ``Authorization: Bearer`` (default False)."""
    connection: Annotated[PassThrough, Value(valid=is_pass_through, use="pairs of names and values")] = ()
    """Other options of each connection (default ())."""

    @property
    def https_urls(self) -> tuple[str, ...]:
        """The URLs of the servers that are reached over https."""
        return tuple(url for url in self.nsqlookupds if url.startswith("https:"))

    def check(self) -> None:
        """Refuse options that exclude each other, or that need another one.

        :raises InvalidOption: naming them
        """
        if bool(self.nsqds) == bool(self.nsqlookupds):
            given = "both nsqd and nsqlookupd are" if self.nsqds else "neither nsqd nor nsqlookupd is"
            raise InvalidOption(
                f"{given} set: set nsqd to the nsqds, such as 127.0.0.1:4150, or nsqlookupd to the URLs of "
                "the nsqlookupds that know them, such as http://127.0.0.1:4161"
            )
        if self.auth_secret is not None and self.auth_secret_file is not None:
            raise InvalidOption("authSecret and authSecretFile exclude each other: set one")
        if self.lookupd_authorization and self.auth_secret is None and self.auth_secret_file is None:
            raise InvalidOption("lookupdAuthorization=true without a secret: set authSecretFile as well")
        self._check_tls()

    def _check_tls(self) -> None:
        files = {
            "tlsCaFile": self.tls_ca_file,
            "tlsCertificateFile": self.tls_certificate_file,
            "tlsPrivateKeyFile": self.tls_private_key_file,
            "tlsPrivateKeyPassword": self.tls_private_key_password,
        }
        given = [name for name, value in files.items() if value is not None]
        if given and not self.tls and not self.https_urls:
            raise InvalidOption(f"{given[0]} without TLS has no effect: set tls=true as well")
        if self.tls_certificate_file is None and {"tlsPrivateKeyFile", "tlsPrivateKeyPassword"} & set(given):
            raise InvalidOption("a private key without a certificate: set tlsCertificateFile as well")

    def secret(self) -> str | None:
        """Return the secret for AUTH; None if there is none.

        :raises InvalidOption: if its file cannot be read, or is empty
        """
        if self.auth_secret_file is None:
            return self.auth_secret
        path = self.auth_secret_file
        try:
            secret = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            # A decoding error could show a part of the secret.
            reason = (isinstance(error, OSError) and error.strerror) or "it is not UTF-8"
            raise InvalidOption(
                f"authSecretFile={path!r} cannot be read ({reason}): every executor needs it"
            ) from None
        if not secret:
            raise InvalidOption(f"authSecretFile={path!r} is empty: put the secret there")
        return secret

    def ssl_context(self) -> ssl.SSLContext:
        """Return a context made from the files for TLS.

        :raises InvalidOption: if a file cannot be read or used
        """
        options = TLSOptions(
            ca_file=self.tls_ca_file,
            certificate_file=self.tls_certificate_file,
            private_key_file=self.tls_private_key_file,
            private_key_password=self.tls_private_key_password,
            minimum_version=self.tls_minimum_version,
            verify=self.tls_verify,
        )
        try:
            return client_context(options)
        except InvalidOption as error:
            message = str(error)
            for own, name in _TLS_NAMES.items():
                message = message.replace(own, name)
            raise InvalidOption(message) from None

    def connection_options(self, *, msg_timeout: float | None = None) -> ConnectionOptions:
        """Return the options of a connection to nsqd. This reads the files, so call it in the task.

        :raises InvalidOption: if a file cannot be read or used
        """
        named: dict[str, Any] = {} if self.client_id is None else {"client_id": self.client_id}
        return ConnectionOptions(
            **named,
            **dict[str, Any](self.connection),
            dial_timeout=self.connect_timeout,
            msg_timeout=msg_timeout,
            tls=TLSOptions(ssl_context=self.ssl_context(), server_hostname=self.tls_server_hostname)
            if self.tls
            else False,
            snappy=self.compression == "snappy",
            deflate=self.compression == "deflate",
            deflate_level=self.deflate_level,
            auth_secret=self.secret(),
        )


@documented
@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions(SharedOptions):
    """The options of a read."""

    topic: Annotated[str, Parsed(parse=check_topic)]
    """The topic to read."""
    channel: Annotated[str, Parsed(parse=check_channel)]
    """The channel to read."""
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
    """The most messages in flight of one partition, on up to 4 connections, since nsqd limits each of these
    to its --max-rdy-count (messages: 1 or more; default 5000).
    """
    max_wait: Annotated[float, Seconds(low=0.01)] = 1.0
    """The time without a message after which a partition ends (seconds: 0.01 or more; default 1)."""
    msg_timeout: Annotated[float | None, declared(ConnectionOptions)["msg_timeout"]] = None
    poll_interval: Annotated[float, Seconds(low=0.001)] = 1.0
    """The time after which an idle stream asks again for the depth (seconds: 0.001 or more; default 1)."""
    share_channel: Annotated[bool, Flag()] = False
    """Whether streams of one application may share the channel, so that each gets a part (default False)."""
    create_channel: Annotated[CreateChannel, Choice(choices=get_args(CreateChannel))] = "true"
    """Where to create a missing channel: where the topic exists, on all nsqds, or nowhere ('true',
    'everywhere' or 'false'; default 'true').
    """
    headers: Annotated[bool, Flag()] = False
    """Whether envelopes are opened, with headers in a column ``headers``, payloads in ``body`` (default
    False).
    """
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
        return tuple(url for url in (*self.nsqlookupds, *self.nsqd_http) if url.startswith("https:"))

    def consumer_connection(self) -> ConnectionOptions:
        """Return the options of a partition's connection. This reads files, so call it in the task.

        :raises InvalidOption: if a file cannot be read or used
        """
        return self.connection_options(msg_timeout=self.msg_timeout)

    def consumer_options(self) -> ConsumerOptions:
        """Return the options of a partition's consumer: no limit of attempts, and no backoff."""
        return ConsumerOptions(max_attempts=0, max_backoff_duration=0)


@documented
@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions(SharedOptions):
    """The options of a write."""

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
    """Return the options of a class as errors list them: topic and channel, servers, then the rest."""
    shared = declared(SharedOptions)
    own = [option for option in text_options(options) if option.field not in shared]
    return sorted((*SHARED_OPTIONS, *own), key=lambda option: option.name not in {"topic", "channel"})


SHARED_OPTIONS = text_options(SharedOptions)
CONNECTION_OPTIONS = pass_through_options(ConnectionOptions, "connection", declared(SharedOptions))

# Options of consumers are not passed on, because each partition sets its own.
READ_OPTIONS = (*_listed(ReadOptions), *CONNECTION_OPTIONS)
WRITE_OPTIONS = (
    *_listed(WriteOptions),
    *CONNECTION_OPTIONS,
    *pass_through_options(ProducerOptions, "producer", declared(WriteOptions)),
)


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
    if is_ephemeral(options.channel):
        raise InvalidOption(
            f"channel={options.channel!r} is not valid: nsqd deletes an #ephemeral channel, with the "
            "messages that wait in it, when a task disconnects; use a name without #ephemeral"
        )
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
