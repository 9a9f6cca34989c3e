"""Which JSON messages ``to-nsq`` passes on, and what of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsq_anyio import InvalidOption
from nsq_anyio.cli.to_nsq.json_filter import JSONFilter, NotJSON

BODY = b'{"id": 7, "kind" : "click", "user": {"name": "a, \\"b\\" }"}, "tags":[1,2] }'

values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=10,
)


def test_without_conditions_any_bytes_pass_as_they_are() -> None:
    assert JSONFilter().passes_all
    assert JSONFilter().apply(b"\xff no JSON") == b"\xff no JSON"


@pytest.mark.parametrize(
    ("field", "value", "passes"),
    [
        ("id", "", True),
        ("tags", "", True),
        ("nothing", "", False),
        ("name", "", False),
        ("kind", "click", True),
        ("kind", "clicks", False),
        ("id", "7", True),
        ("id", "7.0", True),
        ("id", "70e-1", True),
        ("id", "8", False),
        ("id", "seven", False),
        ("kind", "7", False),
        ("tags", "[1,2]", False),
        ("nothing", "click", False),
    ],
)
def test_required_field_and_value(field: str, value: str, passes: bool) -> None:
    passed = JSONFilter(required_field=field, required_value=value).apply(BODY)
    assert passed == (BODY if passes else None)


@pytest.mark.parametrize("literal", ["true", "null"])
def test_other_values_match_no_text(literal: str) -> None:
    body = f'{{"a": {literal}}}'.encode()
    assert JSONFilter(required_field="a", required_value=literal).apply(body) is None
    assert JSONFilter(required_field="a").apply(body) == body


def test_large_integers_are_told_apart() -> None:
    wanted = JSONFilter(required_field="id", required_value="9007199254740993")
    assert wanted.apply(b'{"id":9007199254740993}') is not None
    assert wanted.apply(b'{"id":9007199254740992}') is None


def test_a_number_with_an_exponent_beyond_all_bounds_is_another() -> None:
    wanted = JSONFilter(required_field="a", required_value="1")
    assert wanted.apply(b'{"a":1e99999999999999999999}') is None


def test_listed_fields_pass_with_their_values_untouched() -> None:
    body = b'{"n":9007199254740993, "x":1.10, "y" :1e400, "z":"\xff\\u00e9", "w":[ {} ]}'
    passed = JSONFilter(fields=["w", "z", "n", "none", "x", "y", "x"]).apply(body)
    assert passed == b'{"w":[ {} ],"z":"\xff\\u00e9","n":9007199254740993,"x":1.10,"y" :1e400}'
    assert JSONFilter(fields=["none"]).apply(body) == b"{}"


def test_of_a_repeated_field_the_last_counts() -> None:
    repeated = JSONFilter(required_field="a", required_value="2", fields=["a"])
    assert repeated.apply(b'{"a":1,"a":2}') == b'{"a":2}'
    assert repeated.apply(b'{"a":2,"a":1}') is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"[]",
        b"null",
        b'"a"',
        b"{",
        b"{}}",
        b"{,}",
        b'{"a"}',
        b'{"a" 1}',
        b'{"a":}',
        b'{"a":1',
        b'{"a":1,}',
        b'{"a":1 "b":2}',
        b"{1:2}",
        b'{"a":NaN}',
        b'{"a":-Infinity}',
        b'{"a":01}',
        b'{"a":"\n"}',
        b'{"a":1}x',
        b"\xef\xbb\xbf{}",
        b'{"a":' + b"[" * 200_000,
    ],
    ids=lambda body: repr(body[:20]),
)
def test_what_is_no_json_object(body: bytes) -> None:
    with pytest.raises(NotJSON):
        JSONFilter(fields=["a"]).apply(body)


def test_a_value_needs_its_field() -> None:
    with pytest.raises(InvalidOption, match="--require-json-field"):
        JSONFilter(required_value="x")


@given(st.dictionaries(st.text(), values), st.sampled_from([None, 2]), st.booleans(), st.data())
def test_it_agrees_with_the_parser(
    members: dict[str, Any], indent: int | None, ascii_only: bool, data: st.DataObject
) -> None:
    body = json.dumps(members, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    names = data.draw(st.lists(st.sampled_from(sorted(members)) if members else st.nothing()))
    passed = JSONFilter(
        required_field=names[0] if names else "", fields=[*names, "".join(members) + "!"]
    ).apply(body)
    wanted = {name: members[name] for name in names}
    assert passed is not None
    assert json.loads(passed.decode("utf-8", "surrogatepass")) == wanted


@given(st.binary() | st.text(alphabet='{}[]":,0123456789.eE+-ntrufals \\').map(str.encode))
def test_it_takes_the_same_objects_as_the_parser(body: bytes) -> None:
    def refuse(name: str) -> object:
        raise ValueError(name)

    try:
        is_object = isinstance(
            json.loads(body.decode("utf-8", "surrogateescape"), parse_constant=refuse), dict
        )
    except ValueError:
        is_object = False
    try:
        JSONFilter(fields=["a"]).apply(body)
    except NotJSON:
        assert not is_object
    else:
        assert is_object


@pytest.mark.parametrize("depth", [900, 1000, 5000, 100_000])
def test_what_is_nested_deeply_is_judged_all_the_same(depth: int) -> None:
    nested = "[" * depth + "]" * depth
    body = f'{{"deep": {nested}, "id": 7}}'.encode()
    assert JSONFilter(required_field="id", required_value="7").apply(body) == body
    assert JSONFilter(required_field="other").apply(body) is None
    assert JSONFilter(fields=["id", "deep"]).apply(body) == f'{{"id": 7,"deep": {nested}}}'.encode()
    with pytest.raises(NotJSON):
        JSONFilter(required_field="id").apply(body.replace(b"]]", b"]", 1))
