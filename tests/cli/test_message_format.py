"""How ``nsq-anyio tail`` writes messages."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsq_anyio.cli.tail.run import as_json, plain, safe
from nsq_anyio.consumer.message import Arrival, Message

SUBSCRIPTION: Any = SimpleNamespace(topic="clicks", channel="c", nsqd="127.0.0.1:4150")


def messages(*bodies: bytes) -> list[Message]:
    delivery = Arrival(SUBSCRIPTION, 0.0, 0.0, 0.0)
    return [Message(delivery, 1700000000123456789, 2, b"0123456789abcdef", body) for body in bodies]


@given(st.lists(st.binary(), min_size=1), st.binary(min_size=1, max_size=3))
def test_plain_changes_no_byte(bodies: list[bytes], delimiter: bytes) -> None:
    found = plain(delimiter, with_topic=False)(messages(*bodies))
    assert found == b"".join(body + delimiter for body in bodies)
    found = plain(delimiter, with_topic=True)(messages(*bodies))
    assert found == b"".join(b"clicks | " + body + delimiter for body in bodies)


def test_a_terminal_gets_text_as_it_is() -> None:
    text = "grüße\t→ 🙂\nnext line"
    assert safe(b"\n", with_topic=False, with_colour=True)(messages(text.encode())) == f"{text}\n".encode()


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"\x1b[2Jgone", b"\\x1b[2Jgone"),
        (b"\x1b]0;title\x07", b"\\x1b]0;title\\x07"),
        (b"over\rwritten\x08", b"over\\x0dwritten\\x08"),
        (b"\x00\x7f", b"\\x00\\x7f"),
        ("\x9b31m".encode(), b"\\xc2\\x9b31m"),
        (b"\xff\xfe", b"\\xff\\xfe"),
        (b"cut \xe2\x82", b"cut \\xe2\\x82"),
    ],
)
def test_a_terminal_is_not_controlled(body: bytes, shown: bytes) -> None:
    assert safe(b"\n", with_topic=False, with_colour=True)(messages(body)) == shown + b"\n"


@given(st.binary())
def test_nothing_controls_a_terminal(body: bytes) -> None:
    shown = safe(b"", with_topic=False, with_colour=True)(messages(body)).decode()
    assert all(character in "\t\n" or character.isprintable() or ord(character) > 0x9F for character in shown)


def test_the_topic_in_colour() -> None:
    shown = safe(b"\n", with_topic=True, with_colour=True)(messages(b"a", b"b"))
    assert shown == b"\x1b[36mclicks\x1b[0m | a\n\x1b[36mclicks\x1b[0m | b\n"
    assert safe(b"\n", with_topic=True, with_colour=False)(messages(b"a")) == b"clicks | a\n"


@given(st.text())
def test_json_has_the_text(text: str) -> None:
    line = as_json(messages(text.encode()))
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "topic": "clicks",
        "channel": "c",
        "nsqd": "127.0.0.1:4150",
        "id": "0123456789abcdef",
        "timestamp": 1700000000123456789,
        "attempts": 2,
        "body": text,
    }


def test_json_has_other_bytes_as_base64() -> None:
    first, second = as_json(messages(b"\xff\x00", b"text")).splitlines()
    assert json.loads(first)["body_base64"] == "/wA="
    assert "body" not in json.loads(first)
    assert json.loads(second)["body"] == "text"
