"""nsqd's side of IDENTIFY: the negotiation of a connection's settings, and its layers."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from anyio.abc import ByteStream

from ...errors import ServerError
from ..go_struct import INT32, read_struct
from ..identity import NSQ_VERSION
from .nsqd_options import NsqdOptions

if TYPE_CHECKING:
    from .server_tls import TLSInfo


_DEFAULT_BUFFER_SIZE = 16 * 1024
_MIN_BUFFER_SIZE = 64
_MIN_INTERVAL_MS = 1000
_DEFAULT_DEFLATE_LEVEL = 6
_MAX_SAMPLE_RATE = 99


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """The layers that the client asks for and the server offers.

    :ivar deflate_level: None without deflate; never set together with snappy
    """

    tls: bool = False
    snappy: bool = False
    deflate_level: int | None = None

    def __bool__(self) -> bool:
        return self.tls or self.snappy or self.deflate_level is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Negotiated:
    """The settings of one connection; durations in seconds.

    :ivar heartbeat_interval: 0 if the client wants no heartbeats
    :ivar wants_reply: whether the response to IDENTIFY is JSON instead of ``OK``
    :ivar upgrade: the layers that follow the response to the last IDENTIFY
    :ivar deflate_level: the deflate level that this response names, even without deflate
    """

    client_id: str
    hostname: str
    heartbeat_interval: float
    msg_timeout: float
    output_buffer_timeout: float
    output_buffer_size: int = _DEFAULT_BUFFER_SIZE
    user_agent: str = ""
    sample_rate: int = 0
    wants_reply: bool = False
    upgrade: Upgrade = Upgrade()
    deflate_level: int = _DEFAULT_DEFLATE_LEVEL

    @classmethod
    def before_identify(cls, host: str, options: NsqdOptions) -> Negotiated:
        """Return the settings of a client at ``host`` before its IDENTIFY."""
        return cls(
            client_id=host,
            hostname=host,
            heartbeat_interval=options.client_timeout / 2,
            msg_timeout=options.msg_timeout,
            output_buffer_timeout=options.output_buffer_timeout,
        )


@dataclass(frozen=True, slots=True)
class _Identify:
    """The fields that nsqd reads; a missing or null field has Go's zero value."""

    client_id: str = ""
    hostname: str = ""
    heartbeat_interval: int = 0
    output_buffer_size: int = 0
    output_buffer_timeout: int = 0
    feature_negotiation: bool = False
    tls_v1: bool = False
    deflate: bool = False
    deflate_level: int = 0
    snappy: bool = False
    sample_rate: int = 0
    user_agent: str = ""
    msg_timeout: int = 0


_ZEROS = asdict(_Identify())


def negotiate(payload: bytes, current: Negotiated, options: NsqdOptions) -> Negotiated:
    """Return the settings after an IDENTIFY with this JSON; settings that it omits stay as they are.

    :raises ServerError: ``E_BAD_BODY`` if the JSON is not valid or a value is out of range;
        ``E_IDENTIFY_FAILED`` if it asks for two compressions
    """
    asked = _parse(payload)
    heartbeat_interval = _interval(
        "heartbeat interval",
        asked.heartbeat_interval,
        current.heartbeat_interval,
        (_MIN_INTERVAL_MS, options.max_heartbeat_interval * 1000),
        can_disable=True,
    )
    output_buffer_timeout = _interval(
        "output buffer timeout",
        asked.output_buffer_timeout,
        current.output_buffer_timeout,
        (options.min_output_buffer_timeout * 1000, options.max_output_buffer_timeout * 1000),
        can_disable=True,
    )
    output_buffer_size = asked.output_buffer_size
    if output_buffer_size == -1:
        output_buffer_size = 1
        output_buffer_timeout = 0.0
    elif output_buffer_size == 0:
        output_buffer_size = current.output_buffer_size
    elif not _MIN_BUFFER_SIZE <= output_buffer_size <= options.max_output_buffer_size:
        raise _refused("output buffer size", output_buffer_size)
    if not 0 <= asked.sample_rate <= _MAX_SAMPLE_RATE:
        raise _refused("sample rate", asked.sample_rate)
    msg_timeout = _interval(
        "msg timeout",
        asked.msg_timeout,
        current.msg_timeout,
        (_MIN_INTERVAL_MS, options.max_msg_timeout * 1000),
        can_disable=False,
    )
    deflate_level = min(
        asked.deflate_level
        if asked.deflate and options.deflate and asked.deflate_level > 0
        else _DEFAULT_DEFLATE_LEVEL,
        options.max_deflate_level,
    )
    return replace(
        current,
        client_id=asked.client_id,
        hostname=asked.hostname,
        user_agent=asked.user_agent,
        wants_reply=asked.feature_negotiation,
        heartbeat_interval=heartbeat_interval,
        output_buffer_timeout=output_buffer_timeout,
        output_buffer_size=output_buffer_size,
        sample_rate=asked.sample_rate,
        msg_timeout=msg_timeout,
        upgrade=_upgrade(asked, deflate_level, options),
        deflate_level=deflate_level,
    )


def _upgrade(asked: _Identify, deflate_level: int, options: NsqdOptions) -> Upgrade:
    if not asked.feature_negotiation:
        return Upgrade()
    snappy = options.snappy and asked.snappy
    deflate = options.deflate and asked.deflate
    if snappy and deflate:
        raise ServerError("E_IDENTIFY_FAILED", "cannot enable both deflate and snappy compression")
    return Upgrade(
        tls=options.tls_cert is not None and asked.tls_v1,
        snappy=snappy,
        deflate_level=deflate_level if deflate else None,
    )


def identify_reply(negotiated: Negotiated, options: NsqdOptions) -> bytes:
    """Return the response to IDENTIFY."""
    if not negotiated.wants_reply:
        return b"OK"
    reply = {
        "max_rdy_count": options.max_rdy_count,
        "version": NSQ_VERSION,
        "max_msg_timeout": int(options.max_msg_timeout * 1000),
        "msg_timeout": int(negotiated.msg_timeout * 1000),
        "tls_v1": negotiated.upgrade.tls,
        "deflate": negotiated.upgrade.deflate_level is not None,
        "deflate_level": negotiated.deflate_level,
        "max_deflate_level": options.max_deflate_level,
        "snappy": negotiated.upgrade.snappy,
        "sample_rate": negotiated.sample_rate,
        "auth_required": options.requires_auth,
        "output_buffer_size": negotiated.output_buffer_size,
        "output_buffer_timeout": int(negotiated.output_buffer_timeout * 1000),
    }
    return json.dumps(reply, separators=(",", ":")).encode("ascii")


def _interval(
    name: str, asked: int, current: float, allowed: tuple[float, float], *, can_disable: bool
) -> float:
    if asked == 0:
        return current
    if asked == -1 and can_disable:
        return 0.0
    if not allowed[0] <= asked <= allowed[1]:
        raise _refused(name, asked)
    return asked / 1000


def _refused(name: str, value: int) -> ServerError:
    return ServerError("E_BAD_BODY", f"IDENTIFY {name} ({value}) is invalid")


def _parse(payload: bytes) -> _Identify:
    try:
        return _Identify(**read_struct(payload, _ZEROS, {"sample_rate": INT32}))
    except ValueError:
        raise ServerError("E_BAD_BODY", "IDENTIFY failed to decode JSON body") from None


@dataclass(frozen=True, slots=True)
class Layers:
    """The layers of one connection.

    :ivar stream: the top layer, which carries NSQ's protocol
    :ivar tls: the TLS connection's parameters; None without TLS
    """

    stream: ByteStream
    tls: TLSInfo | None = None
    snappy: bool = False
    deflate: bool = False
