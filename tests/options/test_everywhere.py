"""An option is declared once and found everywhere: in its check, the docstring, the reference and IDENTIFY.

The keys of the command line are in tests/cli/test_option_values.py, Spark's in
tests/spark/test_pass_through.py.
"""

from __future__ import annotations

import dataclasses
import inspect
import pickle
import re
from typing import Any

import pytest

import nsq_anyio as nsq
from nsq_anyio.embedded import NsqdOptions, NsqlookupdOptions
from nsq_anyio.errors import InvalidOption
from nsq_anyio.options import ConnectionOptions, ConsumerOptions, ProducerOptions, TLSOptions
from nsq_anyio.options.declaration import declarations, declared, descriptions, texts
from nsq_anyio.options.kinds import Choice, Flag, Number

from .reference import shown, table

OPTIONS: list[Any] = [ConnectionOptions, ConsumerOptions, ProducerOptions, TLSOptions]

# What this client keeps to itself; everything else of a connection is told to nsqd.
NOT_IN_IDENTIFY = {
    *("dial_timeout", "handshake_timeout", "write_timeout", "busy_poll", "max_frame_size"),
    *("auth_secret", "dialer", "map_address"),
}
# building client libraries, "Feature Negotiation"; feature_negotiation itself is no option.
IDENTIFY = {
    *("client_id", "hostname", "user_agent", "heartbeat_interval", "output_buffer_size"),
    *("output_buffer_timeout", "tls_v1", "snappy", "deflate", "deflate_level", "sample_rate", "msg_timeout"),
    *("topology_region", "topology_zone"),
}

SERVERS: list[Any] = [NsqdOptions, NsqlookupdOptions]

each_class = pytest.mark.parametrize("options", OPTIONS, ids=lambda options: options.__name__)


@pytest.mark.parametrize("options", [*OPTIONS, *SERVERS], ids=lambda options: options.__name__)
def test_every_field_declares_an_option_that_its_default_satisfies(options: Any) -> None:
    made = options()
    assert [each.name for each in declarations(options)] == [
        each.name for each in dataclasses.fields(options)
    ]
    for name, option in declared(options).items():
        option.check(name, getattr(made, name))


@each_class
def test_every_option_is_checked(options: Any) -> None:
    for name, option in declared(options).items():
        with pytest.raises(InvalidOption, match=rf"^{name}(=\[.*\])? is not valid: use "):
            options(**{name: [option]})


@pytest.mark.parametrize("options", [*OPTIONS, *SERVERS], ids=lambda options: options.__name__)
def test_the_text_of_every_option_stands_below_its_field_and_ends_with_what_it_declares(options: Any) -> None:
    written = texts(options)
    assert list(written) == list(declared(options))
    for each in declarations(options):
        text = written[each.name]
        assert re.match(r"[A-Z`]", text)
        assert text.endswith(f"{each.facts}."), f"{each.name}: write {each.facts.strip()} at the end"
        assert not descriptions(options)[each.name].endswith((".", ")."))


@pytest.mark.parametrize("options", [*OPTIONS, *SERVERS], ids=lambda options: options.__name__)
def test_every_option_has_a_line_in_the_docstring(options: Any) -> None:
    text = inspect.getdoc(options) or ""
    lines: dict[str, str] = dict(re.findall(r"^:param (\w+): (.*)$", text, re.MULTILINE))
    assert list(lines) == list(declared(options))
    assert lines == texts(options)
    assert text.splitlines()[-1].startswith(":raises InvalidOption:")
    assert text.count(":raises") == 1


@each_class
def test_every_option_has_a_row_in_the_reference(options: Any) -> None:
    assert f"nsq_anyio.{options.__name__}" in shown()
    rows = table(options)
    assert list(rows) == list(declared(options))
    for name, option, _ in declarations(options):
        row = rows[name]
        assert row["description"] == descriptions(options)[name].replace("`", "")
        assert row["values"]
        assert row["default"]
        if isinstance(option, Number | Choice):
            assert row["values"].endswith(f": {option.range}".replace("'", ""))
        if isinstance(option, Flag):
            assert row["values"] == "bool"


def test_rows_of_the_reference() -> None:
    connection = table(ConnectionOptions)
    assert connection["heartbeat_interval"] == {
        "option": "heartbeat_interval",
        "default": "30",
        "values": "float, seconds: 1 or more or -1",
        "go-nsq": "heartbeat_interval",
        "IDENTIFY": "heartbeat_interval",
        "Spark": "heartbeatInterval",
        "description": "The time between nsqd's heartbeats; -1 for none, but then nsqd refuses SUB",
    }
    assert connection["max_frame_size"]["default"] == "16 MiB"
    assert connection["tls"]["values"] == "bool | SSLContext | TLSOptions"
    assert connection["tls"]["IDENTIFY"] == "tls_v1"
    assert connection["dialer"]["values"] == "function | None"
    assert connection["auth_secret"]["values"] == "str | bytes | function | None"
    assert table(ConsumerOptions)["requeue_delay"]["go-nsq"] == "default_requeue_delay"
    assert table(ConsumerOptions)["lookupd_poll_jitter"]["values"] == "float: 0 to 1"
    assert table(ConsumerOptions)["backoff_strategy"]["values"].startswith("str | function: exponential,")
    assert table(TLSOptions)["verify"]["go-nsq"] == "not tls_insecure_skip_verify"
    assert table(TLSOptions)["ca_file"]["values"] == "str | path | None"
    assert table(TLSOptions)["ca_file"]["Spark"] == "tlsCaFile"


def test_nsqd_is_told_every_option_of_a_connection_but_those_of_this_client_alone() -> None:
    told = {name: option.identify for name, option in declared(ConnectionOptions).items() if option.identify}
    assert declared(ConnectionOptions).keys() - told.keys() == NOT_IN_IDENTIFY
    assert {identify.key_of(name) for name, identify in told.items()} == IDENTIFY
    for options in (ConsumerOptions, ProducerOptions, TLSOptions):
        assert not any(option.identify for option in declared(options).values())


@each_class
def test_options_are_pickled_and_replaced(options: Any) -> None:
    made = options()
    assert pickle.loads(pickle.dumps(made)) == made
    assert dataclasses.replace(made) == made
    assert hash(made) == hash(options())
    name, option = next((name, option) for name, option in declared(options).items() if type(option) is Flag)
    assert getattr(dataclasses.replace(made, **{name: not getattr(made, name)}), name) is not getattr(
        made, name
    )
    with pytest.raises(InvalidOption, match=option.allowed):
        dataclasses.replace(made, **{name: "yes"})


def test_the_package_has_them_by_name() -> None:
    for options in OPTIONS:
        assert getattr(nsq, options.__name__) is options
