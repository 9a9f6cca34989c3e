"""JSON of any depth: the deep way says what Python's own parser says, wherever that one says anything."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsq_anyio.protocol.deep_json import GO_MAX_DEPTH, DeepDecoder

values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=20,
)
json_like = st.text(alphabet='[]{},:" \n1e-.truefalsn\\u0', max_size=30)


def deep_decode(text: str) -> Any:
    """Decode as if Python's parser had given up at once."""
    value, end = DeepDecoder().decode_level_by_level(text, len(text) - len(text.lstrip(" \t\n\r")))
    if text[end:].strip(" \t\n\r"):
        raise ValueError("more text")
    return value


@given(values, st.sampled_from([None, 1]))
def test_what_json_writes_is_read_the_same(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    assert repr(deep_decode(text)) == repr(json.loads(text))


@given(json_like | values.map(json.dumps).map(lambda text: text[:-1]))
def test_what_json_refuses_is_refused(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(ValueError):
            deep_decode(text)
    else:
        assert repr(deep_decode(text)) == repr(expected)


@pytest.mark.parametrize(
    "text", ["[1,]", '{"a":1,}', "[1 2]", '{"a" 1}', "{1:2}", "[}", "[", '{"a"', "[1]]", "x"]
)
def test_what_is_no_json(text: str) -> None:
    for given_text in (text, "[" * 3000 + text + "]" * 3000):
        with pytest.raises(ValueError):
            DeepDecoder().decode(given_text)


@pytest.mark.parametrize("depth", [500, 2000, GO_MAX_DEPTH])
@pytest.mark.parametrize(
    ("start", "end"), ["[]", ('{"a": ', "}"), ('[1, {"b": 0, "a" : ', ' , "c": 2 } , 3]')]
)
def test_depth(depth: int, start: str, end: str) -> None:
    levels = depth // (2 if start.startswith("[1") else 1)
    text = f" {start * levels}0{end * levels}\n"
    value: Any = DeepDecoder(max_depth=GO_MAX_DEPTH).decode(text)
    found = 0
    while value != 0:
        key: Any = 0 if start == "[" else "a" if value.__class__ is dict else 1
        value = value[key]
        found += 1
    assert found == depth
    if depth > 500:
        with pytest.raises(ValueError, match="nested deeper than"):
            DeepDecoder(max_depth=depth - 1).decode(text)


def test_a_part_of_a_text() -> None:
    nested = "[" * 5000 + "]" * 5000
    value, end = DeepDecoder().raw_decode(f"x={nested};", 2)
    assert isinstance(value, list)
    assert end == 2 + len(nested)


def test_numbers_are_read_as_told_at_any_depth() -> None:
    decoder = DeepDecoder(parse_int=str, parse_float=str)
    value = decoder.decode("[" * 5000 + "1, 1.10" + "]" * 5000)
    while isinstance(value[0], list):
        value = value[0]
    assert value == ["1", "1.10"]
