"""The options of a connection to nsqd."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from ..checks import check_flag, check_integer, check_seconds
from ..errors import InvalidOption
from ..version import VERSION
from .tls import TLSOptions, check_tls

if TYPE_CHECKING:
    from anyio.abc import ByteStream

__all__ = ["AuthSecret", "ConnectionOptions", "Dialer", "default_user_agent"]

AuthSecret: TypeAlias = str | bytes | Callable[[], str | bytes | Awaitable[str | bytes]]
"""A secret, or a plain or async function that is called for it at each connection."""

Dialer: TypeAlias = "Callable[[str], Awaitable[ByteStream]]"
"""Opens a byte stream to the address it is given."""


def default_user_agent() -> str:
    """``nsq-anyio/<version>``, which nsqadmin shows for each client."""
    return f"nsq-anyio/{VERSION}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """How one connection to nsqd is opened, identified and watched.

    :param client_id: shown by nsqadmin; default: the host name up to its first dot
    :param hostname: shown by nsqadmin; default: the host name
    :param user_agent: default: ``nsq-anyio/<version>``
    :param dial_timeout: to open the transport; default 5
    :param handshake_timeout: from the open transport to the answer to IDENTIFY, and for SUB; default 10
    :param write_timeout: after which a peer that takes no bytes counts as lost; on a stream of ``dialer``,
        one for which the system does not take 64 KiB, which may wait for a megabyte to go; default 30
    :param heartbeat_interval: between nsqd's heartbeats, 1 or more; -1 for none, but then nsqd refuses SUB;
        default 30
    :param sample_rate: percentage of the messages to receive, 0 to 99; nsqd discards the rest; 0 receives all
    :param output_buffer_size: of nsqd for this connection, 64 or more (nsqd refuses more than its
        --max-output-buffer-size, 65536), -1 for none; None takes nsqd's 16384
    :param output_buffer_timeout: how long nsqd may hold back output, 0.001 or more (nsqd refuses what is
        outside its --min- and --max-output-buffer-timeout, 0.025 to 30), -1 for no timer; None takes
        nsqd's 0.25
    :param msg_timeout: after which nsqd requeues an unanswered message, 1 or more (nsqd refuses more than its
        --max-msg-timeout, 900); None takes nsqd's (60)
    :param max_frame_size: the largest frame taken from nsqd; default 16 MiB
    :param tls: whether, and how, the connection is encrypted: True for the system's authorities,
        `TLSOptions`, or an `ssl.SSLContext`. An nsqd that declines is refused with `TLSFailed`; default False
    :param snappy: whether to ask nsqd for snappy; one that declines sends uncompressed; default False
    :param deflate: the same for deflate; nsqd takes one of the two; default False
    :param deflate_level: 1 (fast) to 9 (small); nsqd lowers it to its --max-deflate-level; default 6
    :param auth_secret: what to AUTH with, where nsqd asks for it; default None
    :param topology_region: where this client runs, for an nsqd that prefers near ones; nsqd 1.3.0 ignores it
    :param topology_zone: the same, within the region
    :param dialer: opens the byte stream to an nsqd, given its address as text, for proxies and tunnels; its
        ``send_eof`` must work while another task receives. Default None, TCP or a unix socket
    :raises InvalidOption: for a value outside its range
    """

    client_id: str = field(default_factory=lambda: socket.gethostname().partition(".")[0])
    hostname: str = field(default_factory=socket.gethostname)
    user_agent: str = field(default_factory=default_user_agent)
    dial_timeout: float = 5.0
    handshake_timeout: float = 10.0
    write_timeout: float = 30.0
    heartbeat_interval: float = 30.0
    sample_rate: int = 0
    output_buffer_size: int | None = None
    output_buffer_timeout: float | None = None
    msg_timeout: float | None = None
    max_frame_size: int = 16 * 1024 * 1024
    tls: bool | ssl.SSLContext | TLSOptions = False
    snappy: bool = False
    deflate: bool = False
    deflate_level: int = 6
    auth_secret: AuthSecret | None = field(default=None, repr=False)
    topology_region: str = ""
    topology_zone: str = ""
    dialer: Dialer | None = None

    def __post_init__(self) -> None:
        for name in ("client_id", "hostname", "user_agent", "topology_region", "topology_zone"):
            if not isinstance(getattr(self, name), str):
                raise InvalidOption(f"{name}={getattr(self, name)!r} is not valid: use a string")
        check_seconds("dial_timeout", self.dial_timeout, 0.001)
        check_seconds("handshake_timeout", self.handshake_timeout, 0.001)
        check_seconds("write_timeout", self.write_timeout, 0.001)
        check_seconds("heartbeat_interval", self.heartbeat_interval, 1, special=(-1,))
        check_integer("sample_rate", self.sample_rate, 0, 99)
        check_integer("output_buffer_size", self.output_buffer_size, 64, special=(-1, None))
        check_seconds("output_buffer_timeout", self.output_buffer_timeout, 0.001, special=(-1, None))
        check_seconds("msg_timeout", self.msg_timeout, 1, special=(None,))
        check_integer("max_frame_size", self.max_frame_size, 64, 2**31 - 1)
        check_tls("tls", self.tls)
        check_flag("snappy", self.snappy)
        check_flag("deflate", self.deflate)
        if self.snappy and self.deflate:
            raise InvalidOption("snappy=True and deflate=True exclude each other: choose one")
        check_integer("deflate_level", self.deflate_level, 1, 9)
        secret = self.auth_secret  # never shown, not even a bad one
        if secret is not None and not (callable(secret) or (isinstance(secret, str | bytes) and secret)):
            raise InvalidOption("auth_secret is not valid: use a non-empty string or bytes, or a function")
        if self.dialer is not None and not callable(self.dialer):
            raise InvalidOption(f"dialer={self.dialer!r} is not valid: use an async function of an address")
