"""What is shown of bodies, whatever they contain."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsq_anyio import envelope
from nsq_anyio.admin.messages.content import Bounds, Content, Node, json_tree


def tree_of(body: bytes) -> Node:
    tree = Content.of(body).tree
    assert tree is not None
    return tree


def test_json_keeps_order_numbers_and_repeated_names() -> None:
    tree = tree_of(b' {"b": 1.0, "a": 12345678901234567890123, "a": [true, null, "x\\n"], "e": 1e999} ')
    assert tree.kind == "object"
    assert [each.key for each in tree.children] == ['"b"', '"a"', '"a"', '"e"']
    assert [each.text for each in tree.children] == ["1.0", "12345678901234567890123", "", "1e999"]
    assert [(each.kind, each.text) for each in tree.children[2].children] == [
        ("constant", "true"),
        ("constant", "null"),
        ("string", '"x\\n"'),
    ]


@pytest.mark.parametrize("body", [b"1", b'"text"', b"null", b"[1", b"{1: 2}", b'{"a": NaN}', b"[" * 60_000])
def test_what_is_no_json_object_or_array_is_text(body: bytes) -> None:
    content = Content.of(body)
    assert (content.kind, content.tree) == ("text", None)


def test_json_is_bounded() -> None:
    wide = tree_of(json.dumps(list(range(10_000))).encode())
    assert wide.count == 10_000
    assert 0 < len(wide.children) < 1_000
    node, depth = tree_of(b"[" * 200 + b"]" * 200), 1
    while node.children:
        node, depth = node.children[0], depth + 1
    assert (depth, node.more) == (40, 1)
    long = tree_of(json.dumps({"k" * 5_000: "v" * 50_000}).encode())
    assert long.children[0].key is not None
    assert len(long.children[0].key) < 300
    assert len(long.children[0].text) < 1_100
    assert long.children[0].text.endswith("… (50,002 characters)")
    many = json.dumps(["v" * 900] * 70).encode()
    assert sum(len(each.text) for each in tree_of(many).children) < 20_000


def test_json_that_is_too_large_to_be_parsed_is_cut_text() -> None:
    content = Content.of(json.dumps(["x" * 70_000]).encode())
    assert (content.kind, content.shown, content.payload_size) == ("text", 4096, 70_004)
    assert content.is_cut


def test_text_is_cut_between_characters() -> None:
    content = Content.of("é".encode() * 100, Bounds(text=33))
    assert (content.kind, content.text, content.shown, content.is_cut) == ("text", "é" * 16, 33, True)


def test_binary_is_a_hex_dump() -> None:
    content = Content.of(bytes(range(256)) * 8)
    assert content.kind == "binary"
    lines = content.text.splitlines()
    assert len(lines) == 32
    assert lines[3] == ("00000030  30 31 32 33 34 35 36 37  38 39 3a 3b 3c 3d 3e 3f  0123456789:;<=>?")
    assert content.is_cut
    assert Content.of(b"\xff").text == f"00000000  ff{' ' * 46}  ."
    assert Content.of(b"text\0").kind == "binary"
    assert Content.of(b"\x08\x96\x01\x12\x04\x01\x02\x03\x04").kind == "binary"


def test_control_characters_are_visible() -> None:
    content = Content.of("a\x1b[31m \u202e b\tc\nd".encode())
    assert content.text == "a\\x1b[31m \\u202e b\tc\nd"
    assert content.preview == "a\\x1b[31m \\u202e b c d"
    tree = tree_of('{"\u202ekey": "\\ud800\\u0000"}'.encode())
    assert (tree.children[0].key, tree.children[0].text) == ('"\\u202ekey"', '"\\ud800\\u0000"')


def test_envelopes_are_opened() -> None:
    body = envelope.encode(b'{"a": 1}', {"traceparent": "00-1", "evil": "\x1b\n" + "v" * 3_000})
    content = Content.of(body)
    assert content.headers[0] == ("traceparent", "00-1")
    assert content.headers[1][1].startswith("\\x1b\\nvvv")
    assert len(content.headers[1][1]) < 2_100
    assert (content.kind, content.size, content.payload_size) == ("json", len(body), 8)
    many = Content.of(envelope.encode(b"x", {f"h{number}": "v" for number in range(100)}))
    assert (len(many.headers), many.more_headers) == (64, 36)


def test_what_only_begins_like_an_envelope_is_shown_as_it_is() -> None:
    content = Content.of(envelope.MAGIC + b"\x09rest")
    assert content.problem.startswith("an envelope of version 9")
    assert (content.kind, content.headers, content.payload_size) == ("binary", [], 10)


@given(st.binary(max_size=4_000) | st.text(max_size=500).map(lambda text: text.encode("utf-8", "replace")))
def test_nothing_breaks_it(body: bytes) -> None:
    content = Content.of(body)
    for text in (content.text, content.preview, *(f"{name}{value}" for name, value in content.headers)):
        text.encode()
        assert all(char >= " " or char in "\t\n" for char in text)
    assert len(content.preview) < 1_000


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=50))
def test_small_json_is_complete(value: object) -> None:
    def complete(node: Node) -> bool:
        return not node.more and all(map(complete, node.children))

    tree = json_tree(json.dumps([value]))
    assert tree is not None
    assert tree.count == 1
