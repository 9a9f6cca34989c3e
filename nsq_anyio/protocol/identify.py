"""IDENTIFY: what the client says of itself, and what nsqd answers."""

from __future__ import annotations

import json
import reprlib
from dataclasses import dataclass
from typing import TypeVar, cast

from ..errors import ProtocolError
from ..options import ConnectionOptions

__all__ = ["DEFAULT_MAX_RDY_COUNT", "DEFAULT_MSG_TIMEOUT", "IdentifyReply", "identify_payload"]

DEFAULT_MAX_RDY_COUNT = 2500
"""What an nsqd without feature negotiation allows (building client libraries, "nsqd Max RDY Count")."""

DEFAULT_MSG_TIMEOUT = 60.0
"""nsqd's default ``--msg-timeout``, in seconds."""

_DEFAULT_MAX_MSG_TIMEOUT = 900.0

FieldT = TypeVar("FieldT", str, int, bool)


def identify_payload(options: ConnectionOptions) -> bytes:
    """The JSON of an IDENTIFY; what is left to nsqd's default is not sent."""
    payload: dict[str, object] = {
        "client_id": options.client_id,
        "hostname": options.hostname,
        "user_agent": options.user_agent,
        "feature_negotiation": True,
        "heartbeat_interval": _milliseconds(options.heartbeat_interval),
    }
    if options.sample_rate:
        payload["sample_rate"] = options.sample_rate
    if options.output_buffer_size is not None:
        payload["output_buffer_size"] = options.output_buffer_size
    if options.output_buffer_timeout is not None:
        payload["output_buffer_timeout"] = _milliseconds(options.output_buffer_timeout)
    if options.msg_timeout is not None:
        payload["msg_timeout"] = _milliseconds(options.msg_timeout)
    return json.dumps(payload).encode("utf-8")


def _milliseconds(seconds: float) -> int:
    return -1 if seconds == -1 else round(seconds * 1000)


@dataclass(frozen=True, slots=True)
class IdentifyReply:
    """What nsqd answered to IDENTIFY; durations in seconds.

    An nsqd that cannot negotiate answers ``OK``, which stands for the defaults here.
    """

    version: str = ""
    max_rdy_count: int = DEFAULT_MAX_RDY_COUNT
    msg_timeout: float = DEFAULT_MSG_TIMEOUT
    max_msg_timeout: float = _DEFAULT_MAX_MSG_TIMEOUT
    sample_rate: int = 0
    tls_v1: bool = False
    deflate: bool = False
    deflate_level: int = 0
    max_deflate_level: int = 0
    snappy: bool = False
    auth_required: bool = False
    output_buffer_size: int = 0
    output_buffer_timeout: float = 0.0

    @classmethod
    def parse(cls, data: bytes, options: ConnectionOptions) -> IdentifyReply:
        """Parse the data of the answer to an IDENTIFY that was made from ``options``.

        :raises ProtocolError: if it is neither ``OK`` nor JSON of the right types
        """
        if data == b"OK":
            return cls(msg_timeout=options.msg_timeout or DEFAULT_MSG_TIMEOUT)
        try:
            parsed = json.loads(data)
        except (ValueError, RecursionError):
            parsed = None
        if not isinstance(parsed, dict):
            raise ProtocolError(f"the answer to IDENTIFY is neither OK nor a JSON object: {data[:80]!r}")
        fields = cast("dict[str, object]", parsed)
        return cls(
            version=_field(fields, "version", str, ""),
            max_rdy_count=_positive(fields, "max_rdy_count", DEFAULT_MAX_RDY_COUNT),
            msg_timeout=_positive(fields, "msg_timeout", int(DEFAULT_MSG_TIMEOUT * 1000)) / 1000,
            max_msg_timeout=_positive(fields, "max_msg_timeout", int(_DEFAULT_MAX_MSG_TIMEOUT * 1000)) / 1000,
            sample_rate=_field(fields, "sample_rate", int, 0),
            tls_v1=_field(fields, "tls_v1", bool, False),
            deflate=_field(fields, "deflate", bool, False),
            deflate_level=_field(fields, "deflate_level", int, 0),
            max_deflate_level=_field(fields, "max_deflate_level", int, 0),
            snappy=_field(fields, "snappy", bool, False),
            auth_required=_field(fields, "auth_required", bool, False),
            output_buffer_size=_field(fields, "output_buffer_size", int, 0),
            output_buffer_timeout=_field(fields, "output_buffer_timeout", int, 0) / 1000,
        )


_MAX_INTEGER = 2**53  # beyond it a JSON number is no count or duration that nsqd could mean


def _field(fields: dict[str, object], name: str, kind: type[FieldT], default: FieldT) -> FieldT:
    value = fields.get(name, default)
    # type(), not isinstance(): a bool is no number here.
    if type(value) is not kind or (isinstance(value, int) and abs(value) > _MAX_INTEGER):
        # reprlib looks only a few levels deep, where str() could exhaust the stack.
        raise ProtocolError(
            f"IDENTIFY was answered with {name}={reprlib.repr(value)}: expected {kind.__name__}"
        )
    return value


def _positive(fields: dict[str, object], name: str, default: int) -> int:
    value = _field(fields, name, int, default)
    if value < 1:
        raise ProtocolError(f"IDENTIFY was answered with {name}={value}: expected 1 or more")
    return value
