import dataclasses
import math
import re
import socket
from importlib.metadata import version
from typing import Any, NamedTuple

import pytest

from nsq_anyio.errors import InvalidOption
from nsq_anyio.options import ConnectionOptions, ConsumerOptions, ProducerOptions, default_user_agent

OptionsType = type[ConnectionOptions] | type[ConsumerOptions] | type[ProducerOptions]

INF = math.inf


class Seconds(NamedTuple):
    """The documented range of a duration."""

    low: float
    high: float = INF
    special: tuple[float | None, ...] = ()


class Integer(NamedTuple):
    """The documented range of a number."""

    low: int
    high: float = INF
    special: tuple[int | None, ...] = ()


RANGES: dict[OptionsType, dict[str, Seconds | Integer]] = {
    ConnectionOptions: {
        "dial_timeout": Seconds(0.001),
        "handshake_timeout": Seconds(0.001),
        "write_timeout": Seconds(0.001),
        "heartbeat_interval": Seconds(1, special=(-1,)),
        "sample_rate": Integer(0, 99),
        "output_buffer_size": Integer(64, special=(-1, None)),
        "output_buffer_timeout": Seconds(0.001, special=(-1, None)),
        "msg_timeout": Seconds(1, special=(None,)),
        "max_frame_size": Integer(64, 2**31 - 1),
    },
    ConsumerOptions: {
        "lookupd_poll_interval": Seconds(0.01),
        "lookupd_poll_jitter": Seconds(0, 1),
        "lookupd_poll_timeout": Seconds(0.001),
        "reconnect_delay": Seconds(0.001, 60),  # at most the default of max_reconnect_delay
        "max_reconnect_delay": Seconds(0.5),  # at least the default of reconnect_delay
        "max_attempts": Integer(0, 65535),
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
}
TEXTS = ("client_id", "hostname", "user_agent")
SWITCHES = ("cancel_at_deadline", "backoff_on_timeout", "backoff_on_refused_answer")
CHOICES: dict[str, tuple[list[Any], str]] = {
    "rdy_policy": (["lend", "even"], "use 'lend' or 'even'"),
    "backoff_strategy": (
        ["exponential", "full_jitter", float],
        "use 'exponential', 'full_jitter' or a function from a level to seconds",
    ),
}
OTHERS = {*TEXTS, *SWITCHES, *CHOICES}

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
    name = next(iter(RANGES[kind]))
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(options, name, 1)
    assert not hasattr(options, "__dict__")
    assert make(kind) == options


@each_option
def test_bounds_are_taken(kind: OptionsType, name: str, allowed: Seconds | Integer) -> None:
    high = allowed.high if allowed.high < INF else 10**6
    for value in (allowed.low, high, *allowed.special):
        assert getattr(make(kind, **{name: value}), name) == value


@each_option
def test_what_is_beyond_is_refused(kind: OptionsType, name: str, allowed: Seconds | Integer) -> None:
    bad: list[object] = [math.nan, INF, -INF, True, False, "10", "", [], b"1", 1j, object]
    if isinstance(allowed, Seconds):
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


@pytest.mark.parametrize("name", SWITCHES)
def test_switches_are_on_or_off(name: str) -> None:
    for value in (True, False):
        assert getattr(make(ConsumerOptions, **{name: value}), name) is value
    for bad in (None, 1, 0, "yes"):
        text = re.escape(f"{name}={bad!r} is not valid: use True or False")
        with pytest.raises(InvalidOption, match=f"^{text}$"):
            make(ConsumerOptions, **{name: bad})


@pytest.mark.parametrize("name", CHOICES)
def test_choices_name_what_there_is(name: str) -> None:
    good, text = CHOICES[name]
    for value in good:
        assert getattr(make(ConsumerOptions, **{name: value}), name) == value
    for bad in (None, 1, "", "linear"):
        with pytest.raises(InvalidOption, match=re.escape(f"{name}={bad!r} is not valid: {text}")):
            make(ConsumerOptions, **{name: bad})


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
