import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsq_anyio.errors import ProtocolError
from nsq_anyio.options import ConnectionOptions
from nsq_anyio.protocol.identify import (
    DEFAULT_MAX_RDY_COUNT,
    DEFAULT_MSG_TIMEOUT,
    IdentifyReply,
    identify_payload,
)

DEFAULTS = ConnectionOptions()


def payload(**options: Any) -> dict[str, object]:
    options = {"client_id": "c", "hostname": "c.example", "user_agent": "u/1", **options}
    parsed: dict[str, object] = json.loads(identify_payload(ConnectionOptions(**options)))
    return parsed


BASE = {
    "client_id": "c",
    "hostname": "c.example",
    "user_agent": "u/1",
    "feature_negotiation": True,
    "heartbeat_interval": 30_000,
}


def test_what_is_left_to_nsqd_is_not_sent() -> None:
    assert payload() == BASE


def test_every_option_of_identify_is_sent_in_milliseconds() -> None:
    assert payload(
        heartbeat_interval=1.5,
        sample_rate=99,
        output_buffer_size=65536,
        output_buffer_timeout=0.025,
        msg_timeout=900,
    ) == {
        **BASE,
        "heartbeat_interval": 1500,
        "sample_rate": 99,
        "output_buffer_size": 65536,
        "output_buffer_timeout": 25,
        "msg_timeout": 900_000,
    }


def test_minus_one_switches_off_and_is_no_duration() -> None:
    sent = payload(heartbeat_interval=-1, output_buffer_size=-1, output_buffer_timeout=-1.0)
    assert sent == {
        **BASE,
        "heartbeat_interval": -1,
        "output_buffer_size": -1,
        "output_buffer_timeout": -1,
    }


@pytest.mark.parametrize(
    "options", [{"heartbeat_interval": 1.0004}, {"heartbeat_interval": 60}, {"msg_timeout": 1.9996}]
)
def test_numbers_are_integers_as_go_wants_them(options: dict[str, float]) -> None:
    sent = payload(**options)
    for name, value in options.items():
        assert sent[name] == round(value * 1000)
        assert type(sent[name]) is int


@pytest.mark.parametrize("text", ["é", "\u2028", '"', "\\", "\n", "\x00", "\ud800", "💥", ""])
def test_any_text_is_valid_json_in_ascii(text: str) -> None:
    data = identify_payload(ConnectionOptions(client_id=text, hostname=text, user_agent=text))
    assert data.isascii()
    assert b"\n" not in data
    assert json.loads(data)["client_id"] == text


# As nsqd 1.3.0 answers.
FULL = {
    "max_rdy_count": 2500,
    "version": "1.3.0",
    "max_msg_timeout": 900000,
    "msg_timeout": 60000,
    "tls_v1": False,
    "deflate": False,
    "deflate_level": 6,
    "max_deflate_level": 6,
    "snappy": True,
    "sample_rate": 10,
    "auth_required": True,
    "output_buffer_size": 16384,
    "output_buffer_timeout": 250,
}


def parse(reply: object) -> IdentifyReply:
    return IdentifyReply.parse(json.dumps(reply).encode(), DEFAULTS)


def test_a_full_reply() -> None:
    assert parse(FULL) == IdentifyReply(
        version="1.3.0",
        max_rdy_count=2500,
        msg_timeout=60.0,
        max_msg_timeout=900.0,
        sample_rate=10,
        tls_v1=False,
        deflate=False,
        deflate_level=6,
        max_deflate_level=6,
        snappy=True,
        auth_required=True,
        output_buffer_size=16384,
        output_buffer_timeout=0.25,
    )
    assert FULL.keys() == {field.name for field in dataclasses.fields(IdentifyReply)}


@pytest.mark.parametrize("reply", [{}, {"from_the_future": [1, {"a": None}]}])
def test_what_an_older_nsqd_leaves_out_has_its_default(reply: dict[str, object]) -> None:
    assert parse(reply) == IdentifyReply()
    assert (DEFAULT_MAX_RDY_COUNT, DEFAULT_MSG_TIMEOUT) == (2500, 60.0)


def test_ok_stands_for_the_defaults_and_for_what_was_asked() -> None:
    assert IdentifyReply.parse(b"OK", DEFAULTS) == IdentifyReply()
    assert IdentifyReply.parse(b"OK", ConnectionOptions(msg_timeout=5)) == IdentifyReply(msg_timeout=5)


@pytest.mark.parametrize("name", FULL)
@pytest.mark.parametrize(
    "value", [None, [], {}, 1.0, 1.5, "1", "", True, 1, 2**53 + 1, -(2**53) - 1, 10**400, [[[[[[[[1]]]]]]]]]
)
def test_a_field_of_another_type_is_refused(name: str, value: object) -> None:
    sample = FULL[name]
    if type(value) is type(sample) and value in (1, "1", "", True):
        assert getattr(parse({**FULL, name: value}), name) in (value, 0.001)
        return
    with pytest.raises(ProtocolError, match=f"^IDENTIFY was answered with {name}=.*: expected ") as caught:
        parse({**FULL, name: value})
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("name", ["max_rdy_count", "msg_timeout", "max_msg_timeout"])
@pytest.mark.parametrize("value", [0, -1, -(2**53)])
def test_counts_and_timeouts_are_positive(name: str, value: int) -> None:
    with pytest.raises(
        ProtocolError, match=f"^IDENTIFY was answered with {name}={value}: expected 1 or more$"
    ):
        parse({**FULL, name: value})


@pytest.mark.parametrize(
    "number", [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"1E2", b"2500.0", b"9" * 5000]
)
@pytest.mark.parametrize("name", [b"max_rdy_count", b"msg_timeout", b"deflate_level"])
def test_a_number_that_is_no_integer_is_refused(name: bytes, number: bytes) -> None:
    with pytest.raises(ProtocolError):
        IdentifyReply.parse(b'{"%b": %b}' % (name, number), DEFAULTS)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"ok",
        b"OK ",
        b"OK\n",
        b"CLOSE_WAIT",
        b"null",
        b"true",
        b"1",
        b'"OK"',
        b"[]",
        b"[{}]",
        b"{",
        b"{}{}",
        b'{"version": "1.3.0",}',
        b'{"version": "\xff"}',
        b"\xff\xfe",
        b"\x00",
        b"{" * 100_000,
        b"[" * 100_000,
        b'{"version":' * 100_000 + b"1" + b"}" * 100_000,
        b'{"max_rdy_count":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
    ids=lambda data: repr(data[:20]),
)
def test_what_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError) as caught:
        IdentifyReply.parse(data, DEFAULTS)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("depth", [5, 50, 200, 400, 600, 800, 900, 950, 980])
def test_a_value_that_nests_deeply_is_refused_whether_the_stack_holds_it_or_not(depth: int) -> None:
    with pytest.raises(ProtocolError):
        IdentifyReply.parse(b'{"version":' + b"[" * depth + b"]" * depth + b"}", DEFAULTS)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(sorted(FULL)), json_values))
def test_any_object_is_parsed_in_the_right_types_or_refused(reply: dict[str, object]) -> None:
    try:
        parsed = parse(reply)
    except ProtocolError:
        return
    default = IdentifyReply()
    for field in dataclasses.fields(IdentifyReply):
        assert type(getattr(parsed, field.name)) is type(getattr(default, field.name))


@given(st.binary(max_size=60))
def test_any_bytes_are_parsed_or_refused(data: bytes) -> None:
    try:
        parsed = IdentifyReply.parse(data, DEFAULTS)
    except ProtocolError:
        return
    assert parsed.max_rdy_count >= 1
