"""The options of the embedded nsqd, named and defaulted like nsqd's flags."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, cast, get_args

from ...address import Address
from ...errors import InvalidOption
from ...options.checks import is_function_or_none, is_number, is_path_or_none
from ...options.declaration import check, documented
from ...options.kinds import Choice, Flag, Integer, Seconds, Text, Value
from ...protocol.command_decoder import Limits
from .auth import Authorizer

_DAY = 86_400.0
_MAX_UDP_PAYLOAD = 65_507

MAX_NODE_ID = 1023
REPORTED = ("log_level", "log_prefix", "queue_scan_selection_count", "queue_scan_worker_pool_max")
"""The options of nsqd that have no effect here, but are reported by ``/config/:opt``."""


def _are_percentiles(value: object) -> bool:
    # A string is a sequence, too, but of letters, which are not numbers.
    return isinstance(value, Sequence) and all(
        is_number(element, 0.0, 1.0) and element for element in cast("Sequence[object]", value)
    )


def _is_address_or_none(value: object) -> bool:
    return value is None or (isinstance(value, str) and Address.is_valid(value))


ClientAuthPolicy = Literal["require", "require-verify"]
TLSMinVersion = Literal["tls1.0", "tls1.1", "tls1.2", "tls1.3"]


def _is_policy(value: object) -> bool:
    return value is None or value in get_args(ClientAuthPolicy)


def _is_requirement(value: object) -> bool:
    return isinstance(value, bool) or value == "tcp-https"


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def _is_iterable(value: object) -> bool:
    return isinstance(value, Iterable)


def _pem() -> Text:
    return Text(valid=is_path_or_none, use="the path of a PEM file")


@documented
@dataclass(frozen=True, slots=True, kw_only=True)
class NsqdOptions:
    """The settings for which nsqd has flags. All durations are in seconds, all sizes in bytes.

    TLS needs ``tls_cert`` and ``tls_key``; the files are read once at the start. Clients need AUTH before
    they publish or subscribe when ``auth`` or ``auth_http_addresses`` is given.

    :raises InvalidOption: if a value is out of range, or conflicts with another
    """

    msg_timeout: Annotated[float, Seconds(low=0.001, high=_DAY)] = 60.0
    """The time until an unanswered message goes back to its channel (seconds: 0.001 to 86400.0; default 60).
    """
    max_msg_timeout: Annotated[float, Seconds(low=0.001, high=_DAY)] = 900.0
    """The longest message timeout that a client may ask for; TOUCH extends no message beyond it (seconds:
    0.001 to 86400.0; default 900).
    """
    max_req_timeout: Annotated[float, Seconds(low=0, high=_DAY)] = 3600.0
    """The longest delay of REQ (a longer one is shortened) and of DPUB (a longer one is refused) (seconds: 0
    to 86400.0; default 3600).
    """
    max_rdy_count: Annotated[int, Integer(low=1, high=2**31 - 1)] = 2500
    """The highest RDY count of a client (1 to 2147483647; default 2500)."""
    mem_queue_size: Annotated[int, Integer(low=0, high=2**63 - 1, unit="messages")] = 10_000
    """The most messages that a topic or channel holds in memory. Further messages are kept on disk; without a
    data path they stay in memory, but still count in ``backend_depth``. Ephemeral topics and channels drop
    them. 0 keeps all on disk (messages: 0 to 9223372036854775807; default 10000).
    """
    max_bytes_per_file: Annotated[int, Integer(low=1, high=2**62, unit="bytes")] = 100 * 1024 * 1024
    """The largest data file, unless a single message is larger (bytes: 1 to 4611686018427387904; default 100
    MiB).
    """
    sync_every: Annotated[int, Integer(low=1, high=2**63 - 1, unit="messages")] = 2500
    """The number of messages that a topic or channel writes or reads until its files are synced. With 1, a
    publish is answered when its messages survive a crash of the machine (messages: 1 to 9223372036854775807;
    default 2500).
    """
    sync_timeout: Annotated[float, Seconds(low=0.001, high=_DAY)] = 2.0
    """The time after which files are synced in any case (seconds: 0.001 to 86400.0; default 2)."""
    keep_deferred: Annotated[bool, Flag()] = False
    """Whether deferred messages keep the rest of their delay across a restart. Otherwise they are delivered
    right after it, as by nsqd (default False).
    """
    max_msg_size: Annotated[int, Integer(low=1, high=2**31 - 1, unit="bytes")] = 1024 * 1024
    """The largest message (bytes: 1 to 2147483647; default 1 MiB)."""
    max_body_size: Annotated[int, Integer(low=16, high=2**31 - 1, unit="bytes")] = 5 * 1024 * 1024
    """The largest body of a command (bytes: 16 to 2147483647; default 5 MiB)."""
    client_timeout: Annotated[float, Seconds(low=0.001, high=_DAY)] = 60.0
    """Twice the default heartbeat interval (seconds: 0.001 to 86400.0; default 60)."""
    max_heartbeat_interval: Annotated[float, Seconds(low=0.001, high=_DAY)] = 60.0
    """The longest heartbeat interval that a client may ask for (seconds: 0.001 to 86400.0; default 60)."""
    output_buffer_timeout: Annotated[float, Seconds(low=0, high=_DAY)] = 0.25
    """The value that IDENTIFY reports to a client that asks for none. This and the other options of output
    buffers are negotiated and have no other effect, because output is sent at once (seconds: 0 to 86400.0;
    default 0.25).
    """
    min_output_buffer_timeout: Annotated[float, Seconds(low=0, high=_DAY)] = 0.025
    """The shortest output buffer timeout that a client may ask for (seconds: 0 to 86400.0; default 0.025)."""
    max_output_buffer_timeout: Annotated[float, Seconds(low=0, high=_DAY)] = 30.0
    """The longest output buffer timeout that a client may ask for (seconds: 0 to 86400.0; default 30)."""
    max_output_buffer_size: Annotated[int, Integer(low=64, high=2**31 - 1, unit="bytes")] = 64 * 1024
    """The largest output buffer that a client may ask for (bytes: 64 to 2147483647; default 64 KiB)."""
    max_deflate_level: Annotated[int, Integer(low=1, high=9)] = 6
    """The highest deflate level that a client may ask for (1 to 9; default 6)."""
    http_client_connect_timeout: Annotated[float, Seconds(low=0.001, high=_DAY)] = 2.0
    """The time to connect to an auth server (seconds: 0.001 to 86400.0; default 2)."""
    http_client_request_timeout: Annotated[float, Seconds(low=0.001, high=_DAY)] = 5.0
    """The time for the whole request to an auth server (seconds: 0.001 to 86400.0; default 5)."""
    max_channel_consumers: Annotated[int, Integer(low=0, unit="consumers")] = 0
    """The most consumers of a channel; 0 for no limit (consumers: 0 or more; default 0)."""
    node_id: Annotated[int | None, Integer(low=0, high=MAX_NODE_ID, special=(None,))] = None
    """A part of the message ids; None derives it from the address, so that servers on one host differ (0 to
    1023 or None; default None).
    """
    reported: Annotated[
        Mapping[str, object],
        Value(
            valid=_is_mapping,
            use="a mapping of nsqd's options",
            default="what nsqd answers when they are not set",
        ),
    ] = field(default_factory=dict[str, object])
    """The answers of ``/config/:opt`` for options of nsqd that have no effect here, such as ``{"log_level":
    "warn"}`` (default what nsqd answers when they are not set).
    """
    snappy: Annotated[bool, Flag()] = True
    """Whether clients may negotiate snappy (default True)."""
    deflate: Annotated[bool, Flag()] = True
    """Whether clients may negotiate deflate (default True)."""
    tls_cert: Annotated[str | os.PathLike[str] | None, _pem()] = None
    """The certificate with its chain; None for no TLS (default None)."""
    tls_key: Annotated[str | os.PathLike[str] | None, _pem()] = None
    """The private key of the certificate, unencrypted (default None)."""
    tls_root_ca_file: Annotated[str | os.PathLike[str] | None, _pem()] = None
    """The authorities to trust for client certificates, and for https servers in ``auth_http_addresses``;
    None for the system's (default None).
    """
    tls_client_auth_policy: Annotated[
        ClientAuthPolicy | None,
        Value(valid=_is_policy, use=f"one of {', '.join(map(repr, (None, *get_args(ClientAuthPolicy))))}"),
    ] = None
    """``require-verify`` refuses clients without a certificate of a trusted authority. ``require`` does the
    same here, and needs ``tls_root_ca_file``: nsqd would accept any certificate, but Python verifies every
    certificate that it asks for. Either makes ``tls_required`` True, unless that is ``tcp-https``. None asks
    clients for no certificate (default None).
    """
    tls_required: Annotated[
        bool | Literal["tcp-https"], Value(valid=_is_requirement, use="True, False or 'tcp-https'")
    ] = False
    """True to refuse clients without TLS; ``tcp-https`` to refuse them except for plain HTTP (default False).
    """
    tls_min_version: Annotated[TLSMinVersion, Choice(choices=get_args(TLSMinVersion))] = "tls1.0"
    """The oldest TLS version to accept, by nsqd's names; versions before TLS 1.2 are never accepted
    ('tls1.0', 'tls1.1', 'tls1.2' or 'tls1.3'; default 'tls1.0').
    """
    auth: Annotated[Authorizer | None, Value(valid=is_function_or_none, use="a function")] = None
    """A plain or async function from `AuthRequest` to `AuthState` that replaces an auth server. An exception
    refuses the client. It must answer within ``http_client_request_timeout`` (default None).
    """
    auth_http_addresses: Annotated[
        Sequence[str], Value(valid=_is_iterable, use="a sequence of addresses", default="none")
    ] = field(default=(), repr=False)  # URLs can hold passwords
    """Auth servers, as ``host:port`` or URLs; they are tried in turn, starting at random (default none)."""
    e2e_processing_latency_percentiles: Annotated[
        Sequence[float],
        Value(valid=_are_percentiles, use="a sequence of numbers above 0, at most 1", default="none"),
    ] = ()
    """The percentiles of the latencies from publish to FIN that ``/stats`` reports, such as ``(0.99, 0.5)``;
    without any, no latency is measured (default none).
    """
    e2e_processing_latency_window_time: Annotated[float, Seconds(low=0.001, high=_DAY)] = 600.0
    """The window of the latencies in ``/stats``; half of it is dropped at a time (seconds: 0.001 to
    86400.0; default 600).
    """
    statsd_address: Annotated[str | None, Text(valid=_is_address_or_none, use="host:port, or None")] = None
    """The UDP address of statsd, as ``host:port``; None sends no statistics (default None)."""
    statsd_interval: Annotated[float, Seconds(low=0.001, high=_DAY)] = 60.0
    """The time between statistics for statsd. Their packets are spread over the interval, except its last
    second. One second or less crashes nsqd; here packets are then sent without pauses (seconds: 0.001 to
    86400.0; default 60).
    """
    statsd_mem_stats: Annotated[bool, Flag()] = True
    """Whether statsd gets ``mem.heap_objects`` and ``mem.gc_runs`` of this Python process (default True)."""
    statsd_prefix: Annotated[str, Text()] = "nsq.%s"
    """The prefix of each name for statsd; ``%s`` becomes the broadcast address and HTTP port, with
    underscores. A dot is added, unless the prefix ends in one or is empty (default 'nsq.%s').
    """
    statsd_udp_packet_size: Annotated[int, Integer(low=1, high=_MAX_UDP_PAYLOAD, unit="bytes")] = 508
    """The size up to which lines for statsd share a packet (bytes: 1 to 65507; default 508)."""
    statsd_exclude_ephemeral: Annotated[bool, Flag()] = False
    """Whether ephemeral topics and channels are left out of statsd (default False)."""

    def __post_init__(self) -> None:
        check(self)
        unknown = self.reported.keys() - REPORTED
        if unknown:
            raise InvalidOption(f"reported={min(unknown)!r} is not valid: use one of {', '.join(REPORTED)}")
        if self.msg_timeout > self.max_msg_timeout:
            raise InvalidOption(
                f"msg_timeout={self.msg_timeout!r} is not valid: use at most "
                f"max_msg_timeout={self.max_msg_timeout!r} (seconds)"
            )
        self._check_tls()
        self._check_auth()

    def _check_tls(self) -> None:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise InvalidOption(
                f"tls_cert={self.tls_cert!r} with tls_key={self.tls_key!r} is not valid: set both or none"
            )
        if self.requires_tls and self.tls_cert is None:
            raise InvalidOption(
                f"tls_required={self.tls_required!r} with "
                f"tls_client_auth_policy={self.tls_client_auth_policy!r} requires TLS of clients: "
                "set tls_cert and tls_key as well"
            )
        if self.tls_client_auth_policy == "require" and self.tls_root_ca_file is None:
            raise InvalidOption(
                "tls_client_auth_policy='require' needs tls_root_ca_file: Python verifies each certificate"
            )

    def _check_auth(self) -> None:
        if isinstance(self.auth_http_addresses, str):
            raise InvalidOption("auth_http_addresses is a string: use a sequence of strings")
        if self.auth_http_addresses:
            from ...http.url import ServerURL  # noqa: PLC0415 - httpx takes longer to import than all the rest

            for address in self.auth_http_addresses:
                ServerURL.parse(address)
        if self.auth is not None and self.auth_http_addresses:
            raise InvalidOption("auth and auth_http_addresses exclude each other: use one of them")

    @property
    def requires_auth(self) -> bool:
        """Whether clients have to send AUTH."""
        return self.auth is not None or bool(self.auth_http_addresses)

    @property
    def requires_tls(self) -> bool | Literal["tcp-https"]:
        """``tls_required``, or True if ``tls_client_auth_policy`` implies it."""
        return self.tls_required or self.tls_client_auth_policy is not None

    @property
    def limits(self) -> Limits:
        """The limits that the command decoder checks."""
        return Limits(
            max_msg_size=self.max_msg_size,
            max_body_size=self.max_body_size,
            max_rdy_count=self.max_rdy_count,
            max_defer_ms=int(self.max_req_timeout * 1000),
        )
