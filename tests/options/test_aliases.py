"""The names of other clients: each fails with the name here."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import nsq_anyio as nsq
from nsq_anyio.options.aliases import OTHER_NAMES
from nsq_anyio.options.declaration import declared

CLASSES = (nsq.ConsumerOptions, nsq.ProducerOptions, nsq.ConnectionOptions, nsq.TLSOptions)


def consume(**given: Any) -> Any:
    return nsq.consume("t", "c", **given)


def serve(**given: Any) -> Any:
    return nsq.serve(print, "t", "c", **given)


def sync_consume(**given: Any) -> Any:
    return nsq.sync.consume("t", "c", **given)


FUNCTIONS: list[Callable[..., Any]] = [consume, nsq.produce, serve, sync_consume, nsq.sync.produce, *CLASSES]


@pytest.mark.parametrize(
    ("function", "given", "use"),
    [
        (consume, "max_tries", "options=nsq.ConsumerOptions(max_attempts=...)"),
        (consume, "max_attempts", "options=nsq.ConsumerOptions(max_attempts=...)"),
        (consume, "nsqd_tcp_addresses", "nsqd=..."),
        (consume, "lookupd_http_addresses", "nsqlookupd=..."),
        (consume, "message_handler", "`await consumer.run(handler)` in the block"),
        (consume, "maxInFlight", "max_in_flight=..."),
        (consume, "giving_up", "on_give_up=..."),
        (consume, "msg_timeout", "connection=nsq.ConnectionOptions(msg_timeout=...)"),
        (consume, "tls_v1", "connection=nsq.ConnectionOptions(tls=...)"),
        (consume, "ca_file", "connection=nsq.ConnectionOptions(tls=nsq.TLSOptions(ca_file=...))"),
        (consume, "concurrency", "`await consumer.run(handler, concurrency=...)` in the block"),
        (consume, "reconnect_delay", "options=nsq.ConsumerOptions(reconnect_delay=...)"),
        (nsq.produce, "reconnect_interval", "options=nsq.ProducerOptions(reconnect_delay=...)"),
        (nsq.produce, "nsqd_tcp_addresses", "nsqd=..."),
        (
            nsq.produce,
            "tls_cert",
            "connection=nsq.ConnectionOptions(tls=nsq.TLSOptions(certificate_file=...))",
        ),
        (nsq.sync.produce, "connection_options", "connection=..."),
        (sync_consume, "max_tries", "options=nsq.ConsumerOptions(max_attempts=...)"),
        (sync_consume, "message_handler", "`consumer.run(handler)` in the block"),
        (sync_consume, "concurrency", "`consumer.run(handler, threads=...)` in the block"),
        (serve, "max_tries", "options=nsq.ConsumerOptions(max_attempts=...)"),
        (nsq.ConsumerOptions, "max_tries", "max_attempts=..."),
        (nsq.ConsumerOptions, "default_requeue_delay", "requeue_delay=..."),
        (nsq.ConsumerOptions, "msg_timeout", "nsq.ConnectionOptions(msg_timeout=...)"),
        (nsq.ConnectionOptions, "timeout", "dial_timeout=..."),
        (nsq.TLSOptions, "tls_insecure_skip_verify", "verify=..."),
    ],
)
def test_the_error_says_what_to_write(function: Callable[..., Any], given: str, use: str) -> None:
    with pytest.raises(TypeError) as caught:
        function(**{given: 1})
    text = str(caught.value)
    assert text.endswith(f"got an unexpected keyword argument {given!r}: use {use}")


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__qualname__)
@pytest.mark.parametrize("given", OTHER_NAMES)
def test_no_name_of_others_is_left_to_python(function: Callable[..., Any], given: str) -> None:
    if (function, given) == (serve, "concurrency"):
        return  # it is a name here too
    with pytest.raises(TypeError, match=r": use "):
        function(**{given: 1})


def test_what_the_table_names_exists() -> None:
    """A value that is one word is an option, or a parameter of a function."""
    known = {name for options in CLASSES for name in declared(options)}
    known |= (
        inspect.signature(nsq.consume).parameters.keys() | inspect.signature(nsq.produce).parameters.keys()
    )
    words = {ours for ours in OTHER_NAMES.values() if ours.isidentifier()}
    assert words <= known


def test_a_name_that_nobody_knows_is_left_to_python() -> None:
    for function in FUNCTIONS:
        with pytest.raises(TypeError, match=r"unexpected keyword argument 'nonsense'$"):
            function(nonsense=1)


def test_the_signatures_are_those_of_the_functions() -> None:
    assert "max_in_flight" in inspect.signature(nsq.consume).parameters
    assert "max_attempts" in inspect.signature(nsq.ConsumerOptions).parameters
    assert inspect.iscoroutinefunction(inspect.unwrap(nsq.serve))


def test_an_option_is_found_in_a_class_that_nobody_has_imported() -> None:
    program = "import nsq_anyio as nsq; nsq.ProducerOptions(auth_secret='s')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "use nsq.ConnectionOptions(auth_secret=...)" in done.stderr
