"""``--consumer-opt`` and ``--producer-opt``: ``key,value`` with go-nsq's names, or our own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import click

from .go_flags import boolean, duration

__all__ = ["CONSUMER", "PRODUCER", "OptionValues", "option_values", "tls_version"]

Kind: TypeAlias = Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class OptionValues:
    """What ``key,value`` pairs set, by our names.

    :ivar own: of the consumer's or producer's options
    :ivar connection: of the connection's
    :ivar tls: of TLS, with ``tls`` for whether there is any
    """

    own: Mapping[str, Any]
    connection: Mapping[str, Any]
    tls: Mapping[str, Any]


def _duration(text: str) -> float:
    """The seconds of a Go duration; -1, with or without a unit, is what switches something off.

    :raises click.BadParameter: if it is none
    """
    if not text.startswith("-"):
        return duration(text)
    if text != "-1":
        duration(text.removeprefix("-"))  # refuses what is no number, such as -nan
    return -1.0


def tls_version(text: str) -> str:
    """The value of ``tls_min_version``: 1.2 is the oldest in any case.

    :raises click.BadParameter: if it is no version
    """
    version = text.lower().removeprefix("tlsv").removeprefix("tls")
    if version in {"1.3", "1.2"}:
        return f"TLSv{version}"
    if version in {"1.1", "1.0", "ssl3.0"}:
        return "TLSv1.2"
    raise click.BadParameter(f"{text!r} is not a version: use tls1.2 or tls1.3")


def _not(text: str) -> bool:
    return not boolean(text)


_CONNECTION: dict[str, tuple[str, Kind]] = {
    "client_id": ("client_id", str),
    "hostname": ("hostname", str),
    "user_agent": ("user_agent", str),
    "dial_timeout": ("dial_timeout", duration),
    "handshake_timeout": ("handshake_timeout", duration),
    "write_timeout": ("write_timeout", duration),
    "heartbeat_interval": ("heartbeat_interval", _duration),
    "sample_rate": ("sample_rate", int),
    "output_buffer_size": ("output_buffer_size", int),
    "output_buffer_timeout": ("output_buffer_timeout", _duration),
    "msg_timeout": ("msg_timeout", duration),
    "max_frame_size": ("max_frame_size", int),
    "snappy": ("snappy", boolean),
    "deflate": ("deflate", boolean),
    "deflate_level": ("deflate_level", int),
    "auth_secret": ("auth_secret", str),
    "topology_region": ("topology_region", str),
    "topology_zone": ("topology_zone", str),
}

_TLS: dict[str, tuple[str, Kind]] = {
    "tls_v1": ("tls", boolean),
    "tls_root_ca_file": ("ca_file", str),
    "tls_cert": ("certificate_file", str),
    "tls_key": ("private_key_file", str),
    "tls_insecure_skip_verify": ("verify", _not),
    "tls_min_version": ("minimum_version", tls_version),
}

CONSUMER: dict[str, tuple[str, Kind]] = {
    "max_in_flight": ("max_in_flight", int),
    "lookupd_poll_interval": ("lookupd_poll_interval", duration),
    "lookupd_poll_jitter": ("lookupd_poll_jitter", float),
    "lookupd_poll_timeout": ("lookupd_poll_timeout", duration),
    "max_requeue_delay": ("max_requeue_delay", duration),
    "default_requeue_delay": ("requeue_delay", duration),
    "requeue_delay": ("requeue_delay", duration),
    "backoff_strategy": ("backoff_strategy", str),
    "backoff_multiplier": ("backoff_multiplier", duration),
    "max_backoff_duration": ("max_backoff_duration", duration),
    "backoff_on_timeout": ("backoff_on_timeout", boolean),
    "backoff_on_refused_answer": ("backoff_on_refused_answer", boolean),
    "max_attempts": ("max_attempts", int),
    "low_rdy_idle_timeout": ("low_rdy_idle_timeout", duration),
    "low_rdy_timeout": ("low_rdy_timeout", duration),
    "rdy_redistribute_interval": ("rdy_redistribute_interval", duration),
    "rdy_policy": ("rdy_policy", str),
    "lend_after": ("lend_after", duration),
    "prune_after_polls": ("prune_after_polls", int),
    "reconnect_delay": ("reconnect_delay", duration),
    "max_reconnect_delay": ("max_reconnect_delay", duration),
    "cancel_at_deadline": ("cancel_at_deadline", boolean),
    "drain_timeout": ("drain_timeout", duration),
    "cancelled_drain_timeout": ("cancelled_drain_timeout", duration),
    "close_timeout": ("close_timeout", duration),
    "lookupd_authorization": ("lookupd_authorization", boolean),
    # Of the opposite name: true sends the secret to nsqlookupds (go-nsq's Config.LookupdAuthorization).
    "skip_lookupd_authorization": ("lookupd_authorization", boolean),
}

PRODUCER: dict[str, tuple[str, Kind]] = {
    "resend_unknown": ("resend_unknown", boolean),
    "connect_timeout": ("connect_timeout", duration),
    "publish_timeout": ("publish_timeout", duration),
    "reconnect_delay": ("reconnect_delay", duration),
    "max_reconnect_delay": ("max_reconnect_delay", duration),
    "max_outstanding": ("max_outstanding", int),
    "max_outstanding_bytes": ("max_outstanding_bytes", int),
    "max_msg_size": ("max_msg_size", int),
    "max_body_size": ("max_body_size", int),
    "drain_timeout": ("drain_timeout", duration),
    "cancelled_drain_timeout": ("cancelled_drain_timeout", duration),
}

_IN_GO_ONLY = {
    "read_timeout": "a connection ends after two heartbeats that do not come",
    "local_addr": "the system chooses the address to connect from",
}


def option_values(
    flag: str, pairs: Iterable[str], own: Mapping[str, tuple[str, Kind]], other: Mapping[str, object]
) -> OptionValues:
    """What the pairs of a flag set; a key alone is true, as in go-nsq.

    :param flag: for messages
    :param own: `CONSUMER` or `PRODUCER`
    :param other: the other one of these, whose keys are taken, with a note that they do nothing here
    :raises click.BadParameter: for a key that is none, or a value out of its kind
    """
    found: dict[str, dict[str, Any]] = {"own": {}, "connection": {}, "tls": {}}
    for pair in pairs:
        key, comma, text = pair.partition(",")
        key = key.replace("-", "_")
        for part, table in (("own", own), ("connection", _CONNECTION), ("tls", _TLS)):
            if key in table:
                name, kind = table[key]
                found[part][name] = _value(flag, key, kind, text if comma else "true")
                break
        else:
            _note_without_effect(flag, key, other)
    return OptionValues(**found)


def _value(flag: str, key: str, kind: Kind, text: str) -> object:
    try:
        return kind(text)
    except click.BadParameter as error:
        raise click.BadParameter(f"{key}: {error.message}", param_hint=f"'{flag}'") from error
    except ValueError as error:
        shown = "the value" if key == "auth_secret" else repr(text)
        raise click.BadParameter(f"{key}: {shown} is not a number", param_hint=f"'{flag}'") from error


def _note_without_effect(flag: str, key: str, other: Mapping[str, object]) -> None:
    if key in _IN_GO_ONLY:
        reason = _IN_GO_ONLY[key]
    elif key in other:
        reason = f"{flag} is not for it"
    else:
        raise click.BadParameter(f"there is no option {key!r}", param_hint=f"'{flag}'")
    click.echo(f"note: {flag} {key} has no effect: {reason}", err=True)
