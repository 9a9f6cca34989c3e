"""IDENTIFY and AUTH: the description of the client, and nsqd's replies."""

from __future__ import annotations

import json
import reprlib
from dataclasses import dataclass
from typing import TypeVar, cast

from ..errors import ProtocolError
from ..options import ConnectionOptions
from ..options.declaration import declared
from ..options.kinds import Option, Seconds
from ..options.tls import TLS
from .deep_json import GO_MAX_DEPTH, DeepDecoder

DEFAULT_MAX_RDY_COUNT = 2500
"""The limit of an nsqd without feature negotiation (building client libraries, "nsqd Max RDY Count")."""

DEFAULT_MSG_TIMEOUT = 60.0
"""nsqd's default ``--msg-timeout``, in seconds."""

_DEFAULT_MAX_MSG_TIMEOUT = 900.0


def identify_payload(options: ConnectionOptions) -> bytes:
    """Return the JSON of an IDENTIFY; it omits the options that have nsqd's defaults."""
    payload: dict[str, object] = {"feature_negotiation": True}
    for name, option in declared(ConnectionOptions).items():
        sent = option.identify
        if sent is not None and (sent.always or getattr(options, sent.only_with or name)):
            payload[sent.key_of(name)] = _encoded(option, getattr(options, name))
    return json.dumps(payload).encode("utf-8")


def _encoded(option: Option, value: object) -> object:
    if isinstance(option, Seconds):
        return _milliseconds(cast("float", value))
    # IDENTIFY says only that TLS is wanted, not how the client sets it up.
    return True if isinstance(option, TLS) else value


def _milliseconds(seconds: float) -> int:
    return -1 if seconds == -1 else round(seconds * 1000)


@dataclass(frozen=True, slots=True)
class IdentifyReply:
    """nsqd's answer to IDENTIFY; durations are in seconds.

    An nsqd without feature negotiation answers ``OK``; then the defaults of these fields apply.
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
        fields = parse_object("IDENTIFY", data, "neither OK nor a JSON object")
        return cls(
            version=field("IDENTIFY", fields, "version", str, ""),
            max_rdy_count=positive("IDENTIFY", fields, "max_rdy_count", DEFAULT_MAX_RDY_COUNT),
            msg_timeout=positive("IDENTIFY", fields, "msg_timeout", int(DEFAULT_MSG_TIMEOUT * 1000)) / 1000,
            max_msg_timeout=positive(
                "IDENTIFY", fields, "max_msg_timeout", int(_DEFAULT_MAX_MSG_TIMEOUT * 1000)
            )
            / 1000,
            sample_rate=field("IDENTIFY", fields, "sample_rate", int, 0),
            tls_v1=field("IDENTIFY", fields, "tls_v1", bool, False),
            deflate=field("IDENTIFY", fields, "deflate", bool, False),
            deflate_level=field("IDENTIFY", fields, "deflate_level", int, 0),
            max_deflate_level=field("IDENTIFY", fields, "max_deflate_level", int, 0),
            snappy=field("IDENTIFY", fields, "snappy", bool, False),
            auth_required=field("IDENTIFY", fields, "auth_required", bool, False),
            output_buffer_size=field("IDENTIFY", fields, "output_buffer_size", int, 0),
            output_buffer_timeout=field("IDENTIFY", fields, "output_buffer_timeout", int, 0) / 1000,
        )


@dataclass(frozen=True, slots=True)
class AuthReply:
    """nsqd's answer to AUTH, from its auth server.

    :ivar identity: the identity of this client
    :ivar identity_url: the address of a page about that identity
    :ivar permission_count: the number of authorizations of that identity
    """

    identity: str = ""
    identity_url: str = ""
    permission_count: int = 0

    @classmethod
    def parse(cls, data: bytes) -> AuthReply:
        """Parse the data of the answer to an AUTH.

        :raises ProtocolError: if it is not JSON with fields of the right types
        """
        fields = parse_object("AUTH", data)
        return cls(
            identity=field("AUTH", fields, "identity", str, ""),
            identity_url=field("AUTH", fields, "identity_url", str, ""),
            permission_count=field("AUTH", fields, "permission_count", int, 0),
        )


FieldT = TypeVar("FieldT", str, int, bool)

_DECODER = DeepDecoder(max_depth=GO_MAX_DEPTH)
_MAX_INTEGER = 2**53  # no count or duration of nsqd is larger


def parse_object(command: str, data: bytes, problem: str = "no JSON object") -> dict[str, object]:
    """Parse the JSON object that answers ``command``.

    :param problem: the description of any other answer, for the error
    :raises ProtocolError: if the answer is not a JSON object
    """
    try:
        parsed = _DECODER.decode(data.decode())
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise ProtocolError(f"the answer to {command} is {problem}: {data[:80]!r}")
    return cast("dict[str, object]", parsed)


def field(command: str, fields: dict[str, object], name: str, kind: type[FieldT], default: FieldT) -> FieldT:
    """Return a field of the answer to ``command``, or ``default`` if it is missing.

    :raises ProtocolError: if it has another type, or is a number beyond any that nsqd sends
    """
    value = fields.get(name, default)
    # type(), not isinstance(): a bool must not pass for an int.
    if type(value) is not kind or (isinstance(value, int) and abs(value) > _MAX_INTEGER):
        # reprlib looks only a few levels deep, where str() could exhaust the stack.
        raise ProtocolError(
            f"{command} was answered with {name}={reprlib.repr(value)}: expected {kind.__name__}"
        )
    return value


def positive(command: str, fields: dict[str, object], name: str, default: int) -> int:
    """Return a field that must be 1 or more.

    :raises ProtocolError: if it is not
    """
    value = field(command, fields, name, int, default)
    if value < 1:
        raise ProtocolError(f"{command} was answered with {name}={value}: expected 1 or more")
    return value
