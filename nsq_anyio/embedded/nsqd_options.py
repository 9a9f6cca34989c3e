"""The options of the embedded nsqd, named and defaulted like nsqd's flags."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from ..checks import check_flag, check_integer, check_seconds
from ..errors import InvalidOption
from ..protocol.mpub_bodies import Limits
from .authorization import Authorizer

__all__ = ["MAX_NODE_ID", "REPORTED", "ClientAuthPolicy", "NsqdOptions", "TLSMinVersion"]

ClientAuthPolicy = Literal["require", "require-verify"]
TLSMinVersion = Literal["tls1.0", "tls1.1", "tls1.2", "tls1.3"]

MAX_NODE_ID = 1023

REPORTED = (
    *("data_path", "max_bytes_per_file", "sync_every", "sync_timeout", "log_level", "log_prefix"),
    *("queue_scan_selection_count", "queue_scan_worker_pool_max"),
)
"""Options of nsqd that have no effect here."""

_DAY = 86_400.0
_TLS_FILES = ("tls_cert", "tls_key", "tls_root_ca_file")


@dataclass(frozen=True, slots=True, kw_only=True)
class NsqdOptions:
    """What a flag of nsqd would set. All durations are seconds, all sizes bytes.

    :param msg_timeout: until an unanswered message goes back to its channel, more than 0; default 60
    :param max_msg_timeout: the most that a client may ask for, and that TOUCH extends to; default 900
    :param max_req_timeout: the longest delay of REQ (longer ones are shortened) and DPUB (longer ones are
        refused); default 3600
    :param max_rdy_count: the highest RDY, 1 or more; default 2500
    :param max_msg_size: of one message; default 1 MiB
    :param max_body_size: of one command; default 5 MiB
    :param mem_queue_size: messages that an ephemeral topic or channel holds, 1 or more: like nsqd it drops
        what comes above. Others are not bounded: where nsqd goes on on disk, this one goes on in memory, and
        reports the excess as ``backend_depth`` as nsqd does. Default 10000
    :param client_timeout: twice the default heartbeat interval; default 60
    :param max_heartbeat_interval: the most that a client may ask for; default 60
    :param output_buffer_timeout: what IDENTIFY reports when the client does not set one; like the sizes below
        it is negotiated and has no other effect, as output is sent at once; default 0.25
    :param min_output_buffer_timeout: the least that a client may ask for; default 0.025
    :param max_output_buffer_timeout: the most that a client may ask for; default 30
    :param max_output_buffer_size: the most that a client may ask for, 64 or more; default 64 KiB
    :param max_channel_consumers: SUBs that a channel takes; 0 is no limit, which is the default
    :param node_id: a part of message ids, 0 to 1023; default: made of the address, to tell several servers of
        one host apart
    :param reported: what ``/config/:opt`` answers for options of nsqd that have no effect here, by their
        names there, such as ``{"data_path": "/data"}``; default: what nsqd answers when they are not set

    Compression:

    :param snappy: whether it is offered; default True
    :param deflate: whether it is offered; default True
    :param max_deflate_level: the most that a client may ask for, 1 to 9; default 6

    TLS, which needs the first two. The files are PEM, read once at the start:

    :param tls_cert: path of the certificate with its chain; default: no TLS
    :param tls_key: path of its key, not encrypted
    :param tls_root_ca_file: path of the authorities that sign the certificates of clients, and those of
        https servers in ``auth_http_addresses``; default: the system's
    :param tls_client_auth_policy: ``require-verify`` refuses clients without a certificate of those
        authorities. ``require`` does the same here, and needs ``tls_root_ca_file``: nsqd would take any
        certificate, but Python verifies each that it asks for. Either makes ``tls_required`` True, unless
        that is ``tcp-https``. Default None: clients are asked for none
    :param tls_required: True to serve nobody without TLS, ``tcp-https`` to except plain HTTP from that;
        default False
    :param tls_min_version: ``tls1.0`` to ``tls1.3``. TLS 1.2 is the oldest that is spoken in any case;
        default ``tls1.0``, as nsqd's

    AUTH, which clients need before they publish or subscribe when one of the first two is given:

    :param auth: a plain or async function from `AuthRequest` to `AuthState` that stands in for an auth
        server; an exception of it refuses the client. It has ``http_client_request_timeout`` to answer
    :param auth_http_addresses: auth servers, ``host:port`` or URLs, tried in turn from a random one on
    :param http_client_connect_timeout: to connect to one; default 2
    :param http_client_request_timeout: for the whole request to one; default 5
    :raises InvalidOption: if a value is out of range, or does not go with another
    """

    msg_timeout: float = 60.0
    max_msg_timeout: float = 900.0
    max_req_timeout: float = 3600.0
    max_rdy_count: int = 2500
    max_msg_size: int = 1024 * 1024
    max_body_size: int = 5 * 1024 * 1024
    mem_queue_size: int = 10_000
    client_timeout: float = 60.0
    max_heartbeat_interval: float = 60.0
    output_buffer_timeout: float = 0.25
    min_output_buffer_timeout: float = 0.025
    max_output_buffer_timeout: float = 30.0
    max_output_buffer_size: int = 64 * 1024
    max_channel_consumers: int = 0
    node_id: int | None = None
    reported: Mapping[str, object] = field(default_factory=dict[str, object])

    snappy: bool = True
    deflate: bool = True
    max_deflate_level: int = 6

    tls_cert: str | os.PathLike[str] | None = None
    tls_key: str | os.PathLike[str] | None = None
    tls_root_ca_file: str | os.PathLike[str] | None = None
    tls_client_auth_policy: ClientAuthPolicy | None = None
    tls_required: bool | Literal["tcp-https"] = False
    tls_min_version: TLSMinVersion = "tls1.0"

    auth: Authorizer | None = None
    auth_http_addresses: Sequence[str] = field(default=(), repr=False)  # URLs can hold passwords
    http_client_connect_timeout: float = 2.0
    http_client_request_timeout: float = 5.0

    def __post_init__(self) -> None:
        for option in (
            *("msg_timeout", "max_msg_timeout", "client_timeout", "max_heartbeat_interval"),
            *("http_client_connect_timeout", "http_client_request_timeout"),
        ):
            check_seconds(option, getattr(self, option), 0.001, _DAY)
        for option in (
            "max_req_timeout",
            "output_buffer_timeout",
            "min_output_buffer_timeout",
            "max_output_buffer_timeout",
        ):
            check_seconds(option, getattr(self, option), 0, _DAY)
        for option in ("max_rdy_count", "max_msg_size"):
            check_integer(option, getattr(self, option), 1, 2**31 - 1)
        check_integer("mem_queue_size", self.mem_queue_size, 1, 2**63 - 1)
        check_integer("max_body_size", self.max_body_size, 16, 2**31 - 1)
        check_integer("max_output_buffer_size", self.max_output_buffer_size, 64, 2**31 - 1)
        check_integer("max_deflate_level", self.max_deflate_level, 1, 9)
        check_integer("max_channel_consumers", self.max_channel_consumers, 0)
        if self.node_id is not None:
            check_integer("node_id", self.node_id, 0, MAX_NODE_ID)
        unknown = self.reported.keys() - REPORTED
        if unknown:
            raise InvalidOption(f"reported={min(unknown)!r} is not valid: use one of {', '.join(REPORTED)}")
        check_flag("snappy", self.snappy)
        check_flag("deflate", self.deflate)
        if self.msg_timeout > self.max_msg_timeout:
            raise InvalidOption(
                f"msg_timeout={self.msg_timeout!r} is not valid: use at most "
                f"max_msg_timeout={self.max_msg_timeout!r} (seconds)"
            )
        self._check_tls()
        self._check_auth()

    def _check_tls(self) -> None:
        for option in _TLS_FILES:
            path = getattr(self, option)
            if path is not None and (not isinstance(path, str | os.PathLike) or not os.fspath(path)):
                raise InvalidOption(f"{option}={path!r} is not valid: use the path of a PEM file")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise InvalidOption(
                f"tls_cert={self.tls_cert!r} with tls_key={self.tls_key!r} is not valid: set both or none"
            )
        for option, allowed in (
            ("tls_client_auth_policy", (None, *get_args(ClientAuthPolicy))),
            ("tls_min_version", get_args(TLSMinVersion)),
        ):
            value = getattr(self, option)
            if value not in allowed:
                raise InvalidOption(
                    f"{option}={value!r} is not valid: use one of {', '.join(map(repr, allowed))}"
                )
        if not isinstance(self.tls_required, bool) and self.tls_required != "tcp-https":
            raise InvalidOption(
                f"tls_required={self.tls_required!r} is not valid: use True, False or 'tcp-https'"
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
        if self.auth is not None and not callable(self.auth):
            raise InvalidOption(f"auth={self.auth!r} is not valid: use a function")
        if isinstance(self.auth_http_addresses, str):
            raise InvalidOption("auth_http_addresses is a string: use a sequence of them")
        if self.auth_http_addresses:
            from ..http.url import ServerURL  # noqa: PLC0415 - httpx takes longer to import than all the rest

            for address in self.auth_http_addresses:
                ServerURL.parse(address)
        if self.auth is not None and self.auth_http_addresses:
            raise InvalidOption("auth and auth_http_addresses exclude each other: use one of them")

    @property
    def requires_auth(self) -> bool:
        """Whether clients need AUTH."""
        return self.auth is not None or bool(self.auth_http_addresses)

    @property
    def requires_tls(self) -> bool | Literal["tcp-https"]:
        """``tls_required``, or True where a policy for client certificates implies it."""
        return self.tls_required or self.tls_client_auth_policy is not None

    @property
    def limits(self) -> Limits:
        """What the command decoder has to check."""
        return Limits(
            max_msg_size=self.max_msg_size,
            max_body_size=self.max_body_size,
            max_rdy_count=self.max_rdy_count,
            max_defer_ms=int(self.max_req_timeout * 1000),
        )
