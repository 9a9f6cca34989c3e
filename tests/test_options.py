import dataclasses
import math
import re
import socket
import ssl
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from nsq_anyio.errors import InvalidOption
from nsq_anyio.options import (
    AddressMap,
    ConnectionOptions,
    ConsumerOptions,
    ProducerOptions,
    TLSOptions,
    default_user_agent,
)

OptionsType = type[ConnectionOptions] | type[ConsumerOptions] | type[ProducerOptions] | type[TLSOptions]

INF = math.inf
CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class Seconds(NamedTuple):
    """The documented range of a duration."""

    low: float
    high: float = INF
    special: tuple[float | None, ...] = ()


class Ratio(NamedTuple):
    """The documented range of a part of something."""

    low: float
    high: float
    special: tuple[float | None, ...] = ()


class Integer(NamedTuple):
    """The documented range of a number."""

    low: int
    high: float = INF
    special: tuple[int | None, ...] = ()


RANGES: dict[OptionsType, dict[str, Seconds | Ratio | Integer]] = {
    ConnectionOptions: {
        "dial_timeout": Seconds(0.001),
        "handshake_timeout": Seconds(0.001),
        "write_timeout": Seconds(0.001),
        "busy_poll": Seconds(0, 0.001),
        "heartbeat_interval": Seconds(1, special=(-1,)),
        "sample_rate": Integer(0, 99),
        "output_buffer_size": Integer(64, special=(-1, None)),
        "output_buffer_timeout": Seconds(0.001, special=(-1, None)),
        "msg_timeout": Seconds(1, special=(None,)),
        "max_frame_size": Integer(64, 2**31 - 1),
        "deflate_level": Integer(1, 9),
    },
    ConsumerOptions: {
        "lookupd_poll_interval": Seconds(0.01),
        "lookupd_poll_jitter": Ratio(0, 1),
        "lookupd_poll_timeout": Seconds(0.001),
        "reconnect_delay": Seconds(0.001, 60),  # at most the default of max_reconnect_delay
        "max_reconnect_delay": Seconds(0.5),  # at least the default of reconnect_delay
        "max_attempts": Integer(0, 65535),
        "max_deliveries": Integer(0, 65535, special=(None,)),
        "requeue_delay": Seconds(0),
        "max_requeue_delay": Seconds(0, 3600),
        "lend_after": Seconds(0.001),
        "rdy_redistribute_interval": Seconds(0.001, 5),
        "low_rdy_idle_timeout": Seconds(0.01),
        "low_rdy_timeout": Seconds(0.01),
        "prune_after_polls": Integer(0),
        "backoff_multiplier": Seconds(0.001),
        "max_backoff_duration": Seconds(0),
        "drain_timeout": Seconds(0),
        "cancelled_drain_timeout": Seconds(0),
        "close_timeout": Seconds(0.001),
    },
    ProducerOptions: {
        "lookupd_poll_interval": Seconds(0.01),
        "lookupd_poll_jitter": Ratio(0, 1),
        "lookupd_poll_timeout": Seconds(0.001),
        "linger": Seconds(0, 60),
        "max_batch_messages": Integer(1),
        "max_batch_bytes": Integer(1),
        "connect_timeout": Seconds(0),
        "publish_timeout": Seconds(0.001),
        "reconnect_delay": Seconds(0.001, 10),
        "max_reconnect_delay": Seconds(0.1),
        "max_outstanding": Integer(1),
        "max_outstanding_bytes": Integer(1),
        "max_msg_size": Integer(1),
        "max_body_size": Integer(1),
        "max_defer": Seconds(0),
        "drain_timeout": Seconds(0),
        "cancelled_drain_timeout": Seconds(0),
    },
    TLSOptions: {},
}
TEXTS = ("client_id", "hostname", "user_agent", "topology_region", "topology_zone")
SWITCHES: dict[str, OptionsType] = {
    "cancel_at_deadline": ConsumerOptions,
    "backoff_on_timeout": ConsumerOptions,
    "backoff_on_refused_answer": ConsumerOptions,
    "lookupd_authorization": ConsumerOptions,
    "snappy": ConnectionOptions,
    "deflate": ConnectionOptions,
    "resend_unknown": ProducerOptions,
    "coalesce": ProducerOptions,
    "verify": TLSOptions,
}
CHOICES: dict[str, tuple[OptionsType, list[Any], str]] = {
    "rdy_policy": (ConsumerOptions, ["lend", "even"], "use 'lend' or 'even'"),
    "requeue_strategy": (ConsumerOptions, ["linear", "exponential"], "use 'linear' or 'exponential'"),
    "backoff_strategy": (
        ConsumerOptions,
        ["exponential", "full_jitter", float],
        "use 'exponential', 'full_jitter' or a function from a level to seconds",
    ),
    "mode": (
        ProducerOptions,
        ["round_robin", "least_outstanding", "hostpool", "epsilon_greedy"],
        "use 'round_robin', 'least_outstanding', 'hostpool' or 'epsilon_greedy'",
    ),
    "minimum_version": (TLSOptions, ["TLSv1.2", "TLSv1.3"], "use 'TLSv1.2' or 'TLSv1.3'"),
    "tls": (
        ConnectionOptions,
        [True, False, TLSOptions(), CONTEXT],
        "use True, False, TLSOptions(...) or an ssl.SSLContext",
    ),
    "lookupd_tls": (
        ConsumerOptions,
        [True, False, TLSOptions(), CONTEXT],
        "use True, False, TLSOptions(...) or an ssl.SSLContext",
    ),
}
SECRETS = {"auth_secret", "private_key_password"}
FILES = {"ca_file", "certificate_file", "private_key_file"}
OTHERS = {
    *TEXTS,
    *SWITCHES,
    *CHOICES,
    *SECRETS,
    *FILES,
    "dialer",
    "map_address",
    "server_hostname",
    "ssl_context",
}

each_option = pytest.mark.parametrize(
    ("kind", "name", "allowed"),
    [
        pytest.param(kind, name, allowed, id=f"{kind.__name__}.{name}")
        for kind, ranges in RANGES.items()
        for name, allowed in ranges.items()
    ],
)


def make(kind: OptionsType, **options: Any) -> Any:
    return kind(**options)


@pytest.mark.parametrize("kind", RANGES, ids=lambda kind: kind.__name__)
def test_every_option_has_its_range_here_and_a_line_in_the_docstring(kind: OptionsType) -> None:
    names = {field.name for field in dataclasses.fields(kind)} - OTHERS
    assert names == RANGES[kind].keys()
    documented = set(re.findall(r":param (\w+):", kind.__doc__ or ""))
    assert documented - OTHERS == names
    assert documented == {field.name for field in dataclasses.fields(kind)}


@pytest.mark.parametrize("kind", RANGES, ids=lambda kind: kind.__name__)
def test_options_cannot_change(kind: OptionsType) -> None:
    options = make(kind)
    name = dataclasses.fields(kind)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(options, name, 1)
    assert not hasattr(options, "__dict__")
    assert make(kind) == options


@each_option
def test_bounds_are_taken(kind: OptionsType, name: str, allowed: Seconds | Ratio | Integer) -> None:
    high = allowed.high if allowed.high < INF else 10**6
    for value in (allowed.low, high, *allowed.special):
        assert getattr(make(kind, **{name: value}), name) == value


@each_option
def test_what_is_beyond_is_refused(kind: OptionsType, name: str, allowed: Seconds | Ratio | Integer) -> None:
    bad: list[object] = [math.nan, INF, -INF, True, False, "10", "", [], b"1", 1j, object]
    if isinstance(allowed, Seconds | Ratio):
        bad += [math.nextafter(allowed.low, -INF), allowed.low - 1000, 10**400]
        if allowed.high < INF:
            bad += [math.nextafter(allowed.high, INF), allowed.high + 1]
    else:
        bad += [allowed.low - 1, float(allowed.low), -(10**30), *map(float, filter(None, allowed.special))]
        if allowed.high < INF:
            bad += [allowed.high + 1, 10**30]
    if None not in allowed.special:
        bad.append(None)
    for value in bad:
        with pytest.raises(InvalidOption) as caught:
            make(kind, **{name: value})
        text = str(caught.value)
        # A cross-checked pair is reported under the name of its upper end, with both values.
        assert text.startswith((f"{name}={value!r} is not valid: use ", "max_reconnect_delay="))
        assert repr(value) in text
        assert text.endswith("(seconds)") is isinstance(allowed, Seconds)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"sample_rate": 100}, "sample_rate=100 is not valid: use 0 to 99"),
        ({"heartbeat_interval": 0.5}, "heartbeat_interval=0.5 is not valid: use 1 or more or -1 (seconds)"),
        ({"output_buffer_size": 63}, "output_buffer_size=63 is not valid: use 64 or more or -1 or None"),
        ({"msg_timeout": 0}, "msg_timeout=0 is not valid: use 1 or more or None (seconds)"),
        ({"user_agent": None}, "user_agent=None is not valid: use a string"),
    ],
)
def test_the_error_names_option_value_and_range(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidOption, match=f"^{re.escape(text)}$"):
        make(ConnectionOptions, **options)


@pytest.mark.parametrize("kind", [ConsumerOptions, ProducerOptions])
def test_the_bound_of_the_reconnect_delay_is_not_below_it(kind: OptionsType) -> None:
    make(kind, reconnect_delay=5, max_reconnect_delay=5)
    with pytest.raises(
        InvalidOption, match=r"^max_reconnect_delay=4 is not valid: use 5 or more \(seconds\)$"
    ):
        make(kind, reconnect_delay=5, max_reconnect_delay=4)


@pytest.mark.parametrize(("name", "kind"), SWITCHES.items())
def test_switches_are_on_or_off(name: str, kind: OptionsType) -> None:
    for value in (True, False):
        assert getattr(make(kind, **{name: value}), name) is value
    for bad in (None, 1, 0, "yes"):
        text = re.escape(f"{name}={bad!r} is not valid: use True or False")
        with pytest.raises(InvalidOption, match=f"^{text}$"):
            make(kind, **{name: bad})


@pytest.mark.parametrize("name", CHOICES)
def test_choices_name_what_there_is(name: str) -> None:
    kind, good, text = CHOICES[name]
    for value in good:
        assert getattr(make(kind, **{name: value}), name) == value
    for bad in (None, 1, "", "cubic"):
        with pytest.raises(InvalidOption, match=re.escape(f"{name}={bad!r} is not valid: {text}")):
            make(kind, **{name: bad})


def test_one_compression_at_most() -> None:
    with pytest.raises(InvalidOption, match=r"^snappy=True and deflate=True exclude each other: choose one$"):
        ConnectionOptions(snappy=True, deflate=True)


@pytest.mark.parametrize("secret", ["s3cret", b"s3cret"])
def test_secrets_are_not_shown(secret: str | bytes) -> None:
    assert "s3cret" not in repr(ConnectionOptions(auth_secret=secret))
    tls = TLSOptions(certificate_file="c", private_key_password="s3cret")
    assert "s3cret" not in repr(ConnectionOptions(tls=tls))


@pytest.mark.parametrize("secret", ["", b"", 1234, ["s3cret"], bytearray(b"s3cret")])
def test_a_bad_secret_is_refused_unseen(secret: object) -> None:
    with pytest.raises(InvalidOption, match=r"^auth_secret is not valid: use a non-empty string or bytes"):
        make(ConnectionOptions, auth_secret=secret)
    if not isinstance(secret, str):
        with pytest.raises(InvalidOption, match=r"^private_key_password is not valid: use a string$"):
            make(TLSOptions, certificate_file="c", private_key_password=secret)


def test_a_secret_or_a_dialer_may_be_a_function() -> None:
    assert ConnectionOptions(auth_secret=lambda: "s3cret").auth_secret is not None
    with pytest.raises(
        InvalidOption, match=r"^dialer='x' is not valid: use an async function of an address$"
    ):
        make(ConnectionOptions, dialer="x")


ADDRESSES = "use a mapping from 'host:port' to 'host:port', or a function of host and port"


def test_addresses_are_mapped_by_a_mapping_or_a_function() -> None:
    def same(host: str, port: int) -> tuple[str, int]:
        return host, port

    mappings: list[AddressMap | None] = [None, {}, {"10.0.0.5:4150": "127.0.0.1:30150"}, same]
    for good in mappings:
        assert ConnectionOptions(map_address=good).map_address is good
    for bad in ("x", ["a:1"], {"a": "b:1"}, {"a:1": "b"}, {"a:1": ("b", 1)}, {1: "b:1"}):
        with pytest.raises(InvalidOption, match=re.escape(f"map_address={bad!r} is not valid: {ADDRESSES}")):
            make(ConnectionOptions, map_address=bad)


@pytest.mark.parametrize("name", sorted(FILES))
def test_files_are_paths(name: str) -> None:
    certificate = {"certificate_file": "c"}
    for good in ("a.pem", Path("a.pem")):
        assert getattr(make(TLSOptions, **certificate | {name: good}), name) == good
    for bad in ("", 1, b"a.pem"):
        with pytest.raises(InvalidOption, match=re.escape(f"{name}={bad!r} is not valid: use a path")):
            make(TLSOptions, **{name: bad})


def test_tls_options_that_exclude_each_other() -> None:
    for options in (
        {"ca_file": "a"},
        {"certificate_file": "a"},
        {"minimum_version": "TLSv1.3"},
        {"verify": False},
    ):
        with pytest.raises(InvalidOption, match="ssl_context excludes all other TLS options"):
            make(TLSOptions, ssl_context=CONTEXT, **options)
    assert TLSOptions(ssl_context=CONTEXT, server_hostname="a").server_hostname == "a"
    for options in ({"private_key_file": "a"}, {"private_key_password": "a"}):
        with pytest.raises(InvalidOption, match=r"set TLSOptions\(certificate_file=...\) as well"):
            make(TLSOptions, **options)
    with pytest.raises(InvalidOption, match=r"ssl_context='x' is not valid: use an ssl\.SSLContext"):
        make(TLSOptions, ssl_context="x")
    for bad in ("", 1):
        with pytest.raises(InvalidOption, match=rf"server_hostname={bad!r} is not valid: use a host name"):
            make(TLSOptions, server_hostname=bad)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("value", [None, 1, b"x", ["x"]])
def test_texts_must_be_strings(name: str, value: object) -> None:
    with pytest.raises(InvalidOption, match=f"^{re.escape(f'{name}={value!r} is not valid: use a string')}$"):
        make(ConnectionOptions, **{name: value})


def test_defaults_say_who_we_are(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ConnectionOptions().hostname == socket.gethostname()
    monkeypatch.setattr(socket, "gethostname", lambda: "worker-1.example.org")
    options = ConnectionOptions()
    assert options.client_id == "worker-1"
    assert options.user_agent == default_user_agent() == f"nsq-anyio/{version('nsq-anyio')}"


def test_options_are_given_by_name() -> None:
    kinds: list[Any] = list(RANGES)
    for kind in kinds:
        with pytest.raises(TypeError, match="positional"):
            kind(1)
