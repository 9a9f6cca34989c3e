"""Other clients' names for options. A call that uses one fails with an error that gives our name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import wraps
from inspect import signature
from itertools import chain
from types import FunctionType
from typing import Any, Final, ParamSpec, TypeVar, cast

_PACKAGE: Final = __name__.partition(".")[0]

P = ParamSpec("P")
R = TypeVar("R")

OTHER_NAMES: Final[Mapping[str, str]] = {
    # pynsq, gnsq, asyncnsq, ansq
    "nsqd_tcp_addresses": "nsqd",
    "lookupd_http_addresses": "nsqlookupd",
    "max_tries": "max_attempts",
    "message_handler": "`await consumer.run(handler)` in the block",
    "name": "nothing, or nsq.ConnectionOptions(client_id=...) for nsqadmin",
    "lookupd_connect_timeout": "lookupd_poll_timeout",
    "lookupd_request_timeout": "lookupd_poll_timeout",
    "low_ready_idle_timeout": "low_rdy_idle_timeout",
    "backoff_on_requeue": "`message.requeue(backoff=False)`, or raise nsq.Requeue(backoff=False)",
    "timeout": "dial_timeout",
    "tls_v1": "tls",
    "tls_options": "tls",
    "ca_certs": "ca_file",
    "certfile": "certificate_file",
    "keyfile": "private_key_file",
    "cert_reqs": "verify",
    "reconnect_interval": "reconnect_delay",
    "connection_options": "connection",
    "features": "connection",
    "auto_reconnect": "nothing: a consumer or producer reconnects for as long as its block lasts",
    "feature_negotiation": "nothing: options are always negotiated",
    "message_queue": "`async for message in consumer`",
    "on_message": "`await consumer.run(handler)` in the block",
    "on_exception": "on_event",
    "on_close": "on_event",
    "on_heartbeat": "on_event",
    "on_giving_up": "on_give_up",
    "giving_up": "on_give_up",
    "log_level": "logging.getLogger('nsq_anyio').setLevel(...)",
    "debug": "logging.getLogger('nsq_anyio').setLevel(...)",
    "loop": "nothing: the running event loop is used",
    "host": "nsqd",
    "port": "nsqd",
    # go-nsq
    "default_requeue_delay": "requeue_delay",
    "read_timeout": "heartbeat_interval",
    "local_addr": "dialer",
    "tls_root_ca_file": "ca_file",
    "tls_cert": "certificate_file",
    "tls_key": "private_key_file",
    "tls_min_version": "minimum_version",
    "tls_insecure_skip_verify": "verify",
    "concurrency": "`await consumer.run(handler, concurrency=...)` in the block",
    # nsqjs
    "nsqdTCPAddresses": "nsqd",
    "lookupdHTTPAddresses": "nsqlookupd",
    "maxInFlight": "max_in_flight",
    "maxAttempts": "max_attempts",
    "maxBackoffDuration": "max_backoff_duration",
    "requeueDelay": "requeue_delay",
    "messageTimeout": "msg_timeout",
    "heartbeatInterval": "heartbeat_interval",
    "lookupdPollInterval": "lookupd_poll_interval",
    "lookupdPollJitter": "lookupd_poll_jitter",
    "lowRdyTimeout": "low_rdy_timeout",
    "outputBufferSize": "output_buffer_size",
    "outputBufferTimeout": "output_buffer_timeout",
    "sampleRate": "sample_rate",
    "deflateLevel": "deflate_level",
    "dialTimeout": "dial_timeout",
    "clientId": "client_id",
    "authSecret": "auth_secret",
    "tlsVerification": "verify",
}
"""Maps other clients' names to the parameter or option here, or to the code to write instead."""

_IN_THREADS: Final[Mapping[str, str]] = {
    "message_handler": "`consumer.run(handler)` in the block",
    "on_message": "`consumer.run(handler)` in the block",
    "message_queue": "`for message in consumer`",
    "concurrency": "`consumer.run(handler, threads=...)` in the block",
}
"""The same for plain functions, where the code differs."""

_CLASSES: Final = ("ConsumerOptions", "ProducerOptions", "ConnectionOptions", "TLSOptions")
_FUNCTIONS: Final = ("consume", "produce")


def knowing_other_names(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function so that the error for another client's keyword gives our name.

    The error for an option that belongs elsewhere, as in ``consume(max_attempts=5)``, gives its place. The
    error for a misspelt option gives a suggestion.
    """
    code = cast("FunctionType", function).__code__
    accepted = frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    is_plain = function.__module__.startswith(f"{_PACKAGE}.sync.")
    names = {**OTHER_NAMES, **_IN_THREADS} if is_plain else OTHER_NAMES

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for given in kwargs:
            if given not in accepted and (remedy := _remedy(given, names, accepted)):
                name = cast("FunctionType", function).__qualname__.removesuffix(".__init__")
                raise TypeError(f"{name}() got an unexpected keyword argument {given!r}: {remedy}")
        return function(*args, **kwargs)

    return checked


def _remedy(given: str, names: Mapping[str, str], accepted: frozenset[str]) -> str | None:
    """Return the remedy for an unexpected keyword; None if it resembles no option."""
    if instead := _instead(given, names, accepted):
        return f"use {instead}"
    from difflib import get_close_matches  # noqa: PLC0415 - only a misspelt option needs it

    known = {*accepted - {"self"}, *names, *chain.from_iterable(map(_names_of, _CLASSES))}
    found = get_close_matches(given, known, n=1, cutoff=0.75)
    return f"did you mean {_instead(found[0], names, accepted)}?" if found else None


def _instead(given: str, names: Mapping[str, str], accepted: frozenset[str]) -> str | None:
    """Return the code to write for a keyword; None for an unknown keyword."""
    ours = given if given in accepted else names.get(given, given)
    if ours in accepted:
        return f"{ours}=..."
    return _place_of(ours, accepted) or (ours if ours != given else None)


def _names_of(options: str) -> list[str]:
    """Return the options of a class, which is imported at its first use."""
    return [each.name for each in fields(_public(options))]


def _public(name: str) -> Any:
    """Return a public name of the package."""
    return getattr(sys.modules[_PACKAGE], name)


def _place_of(ours: str, accepted: frozenset[str]) -> str | None:
    """Return the code that passes an option; None if there is no such option."""
    # Consumers and producers have some options in common.
    for options in _CLASSES if "topic" in accepted else ("ProducerOptions", *_CLASSES):
        if ours in _names_of(options):
            place = f"nsq.{options}({ours}=...)"
            if options == "TLSOptions":
                place = f"nsq.ConnectionOptions(tls={place})"
            parameter = "connection" if options in {"ConnectionOptions", "TLSOptions"} else "options"
            return f"{parameter}={place}" if parameter in accepted else place
    for function in _FUNCTIONS:
        if ours in signature(_public(function)).parameters:
            return f"nsq.{function}({ours}=...)"
    return None
