"""The options of a connection to nsqd."""

import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Annotated, TypeAlias, cast

from ..address import Address
from ..errors import InvalidOption
from ..version import VERSION
from .checks import is_function_or_none
from .declaration import check, documented
from .kinds import SAME, Flag, Identify, Integer, Seconds, Text, Value
from .tls import TLS, TLSOptions

if TYPE_CHECKING:
    from anyio.abc import ByteStream

AuthSecret: TypeAlias = str | bytes | Callable[[], str | bytes | Awaitable[str | bytes]]
"""A secret, or a plain or async function that is called for it at each connection."""

Dialer: TypeAlias = "Callable[[str], Awaitable[ByteStream]]"
"""Opens a byte stream to the given address."""

AddressMap: TypeAlias = Mapping[str, str] | Callable[[str, int], tuple[str, int] | str]
"""Maps the ``host:port`` that an nsqd advertises to the address at which it can be reached."""


def default_user_agent() -> str:
    """Return ``nsq-anyio/<version>``, which nsqadmin shows for each client."""
    return f"nsq-anyio/{VERSION}"


def _is_auth_secret(value: object) -> bool:
    return is_function_or_none(value) or (isinstance(value, str | bytes) and bool(value))


def _is_address_map(value: object) -> bool:
    if value is None or callable(value):
        return True
    if not isinstance(value, Mapping):
        return False
    texts = chain.from_iterable(cast("Mapping[object, object]", value).items())
    return all(isinstance(text, str) and Address.is_valid(text) for text in texts)


@documented
@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """The options of a connection to nsqd: how it is opened, identified and watched.

    :raises InvalidOption: for a value outside its range
    """

    client_id: Annotated[
        str, Text(default="the host name up to its first dot", go=SAME, identify=Identify(always=True))
    ] = field(default_factory=lambda: socket.gethostname().partition(".")[0])
    """The client's id, which nsqadmin shows (default the host name up to its first dot)."""
    hostname: Annotated[str, Text(default="the host name", go=SAME, identify=Identify(always=True))] = field(
        default_factory=socket.gethostname
    )
    """The client's host, which nsqadmin shows (default the host name)."""
    user_agent: Annotated[
        str, Text(default="``nsq-anyio/<version>``", go=SAME, identify=Identify(always=True))
    ] = field(default_factory=default_user_agent)
    """The client's software, which nsqadmin shows (default ``nsq-anyio/<version>``)."""
    dial_timeout: Annotated[float, Seconds(low=0.001, go=SAME, spark="connectTimeout")] = 5.0
    """The time to open the transport (seconds: 0.001 or more; default 5)."""
    handshake_timeout: Annotated[float, Seconds(low=0.001)] = 10.0
    """The time from the open transport to the end of the handshake, and for SUB (seconds: 0.001 or more;
    default 10).
    """
    write_timeout: Annotated[float, Seconds(low=0.001, go=SAME)] = 30.0
    """The time after which a peer that accepts no bytes counts as lost; on a stream of ``dialer``, the time
    to send 64 KiB, which may have to wait for a megabyte in the system's buffer (seconds: 0.001 or more;
    default 30).
    """
    busy_poll: Annotated[float, Seconds(low=0, high=0.001)] = 50e-6
    """How long a task polls the socket for nsqd's answer or next message before it waits in the event loop,
    where each message is a round trip; 0 for never (seconds: 0 to 0.001; default 5e-05).
    """
    heartbeat_interval: Annotated[float, Seconds(low=1, special=(-1,), go=SAME, identify=Identify())] = 30.0
    """The time between nsqd's heartbeats; -1 for none, but then nsqd refuses SUB (seconds: 1 or more or -1;
    default 30).
    """
    sample_rate: Annotated[
        int, Integer(low=0, high=99, unit="percent", go=SAME, identify=Identify(), spark="")
    ] = 0
    """The percentage of messages to receive; nsqd discards the rest; 0 receives all (percent: 0 to 99;
    default 0).
    """
    output_buffer_size: Annotated[
        int | None, Integer(low=64, special=(-1, None), unit="bytes", go=SAME, identify=Identify())
    ] = None
    """The size of nsqd's output buffer for this connection (nsqd refuses more than its
    --max-output-buffer-size, 65536); -1 for no buffer, None for nsqd's 16384 (bytes: 64 or more or -1 or
    None; default None).
    """
    output_buffer_timeout: Annotated[
        float | None, Seconds(low=0.001, special=(-1, None), go=SAME, identify=Identify())
    ] = None
    """How long nsqd may hold back a message, to send it together with later ones (nsqd refuses a value
    outside its --min- and --max-output-buffer-timeout, 0.025 to 30); None for 0.025, or for nsqd's own, 0.25,
    if it refuses that; -1 for no timer: then nsqd may hold back a message until its next heartbeat, except at
    RDY 1 or with ``output_buffer_size=-1`` (seconds: 0.001 or more or -1 or None; default None).
    """
    msg_timeout: Annotated[
        float | None, Seconds(low=1, special=(None,), go=SAME, identify=Identify(), spark="msgTimeout")
    ] = None
    """The time after which nsqd requeues an unanswered message (nsqd refuses more than its --max-msg-timeout,
    900); None for nsqd's own, 60 (seconds: 1 or more or None; default None).
    """
    max_frame_size: Annotated[int, Integer(low=64, high=2**31 - 1, unit="bytes")] = 16 * 1024 * 1024
    """The largest frame that is accepted from nsqd (bytes: 64 to 2147483647; default 16 MiB)."""
    tls: Annotated[bool | ssl.SSLContext | TLSOptions, TLS(go="tls_v1", identify=Identify("tls_v1"))] = False
    """Whether, and how, the connection is encrypted: True for the system's authorities, `TLSOptions`, or an
    `ssl.SSLContext`. If nsqd declines TLS, `TLSFailed` is raised (default False).
    """
    snappy: Annotated[bool, Flag(go=SAME, identify=Identify(), spark="compression")] = False
    """Whether to ask nsqd for snappy; if nsqd declines, nothing is compressed (default False)."""
    deflate: Annotated[bool, Flag(go=SAME, identify=Identify(), spark="compression")] = False
    """Whether to ask nsqd for deflate; not together with snappy (default False)."""
    deflate_level: Annotated[int, Integer(low=1, high=9, go=SAME, identify=Identify(only_with="deflate"))] = 6
    """How hard deflate compresses: 1 is fast, 9 is small; nsqd lowers it to its --max-deflate-level (1 to 9;
    default 6).
    """
    auth_secret: Annotated[
        AuthSecret | None,
        Text(
            valid=_is_auth_secret, use="a non-empty string or bytes, or a function", is_secret=True, go=SAME
        ),
    ] = field(default=None, repr=False)
    """The secret for AUTH, sent if nsqd requires it (default None)."""
    topology_region: Annotated[str, Text(default="empty", identify=Identify())] = ""
    """The region where this client runs, for an nsqd that prefers near clients; nsqd 1.3.0 ignores it
    (default empty).
    """
    topology_zone: Annotated[str, Text(default="empty", identify=Identify())] = ""
    """The zone within ``topology_region`` (default empty)."""
    dialer: Annotated[
        "Dialer | None", Value(valid=is_function_or_none, use="an async function of an address", spark="")
    ] = None
    """A function that opens the byte stream to an nsqd at a given address, a str; for proxies and tunnels;
    the stream's ``send_eof`` must work while another task receives; None for TCP or a unix socket (default
    None).
    """
    map_address: Annotated[
        "AddressMap | None",
        Value(
            valid=_is_address_map,
            use="a mapping from 'host:port' to 'host:port', or a function of host and port",
            spark="",
        ),
    ] = None
    """Where to reach nsqds whose advertised addresses cannot be reached from here: a mapping from
    ``host:port`` to ``host:port``, or a function of host and port that returns ``(host, port)`` or
    ``host:port``; addresses given as ``nsqd`` are not mapped (default None).
    """

    def __post_init__(self) -> None:
        check(self)
        if self.snappy and self.deflate:
            raise InvalidOption("snappy=True and deflate=True exclude each other: choose one")
