"""Messages as pages show them: headers, and the payload as JSON, text or hex dump."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeGuard

from ...consumer.dead_letter import DeadLetterHeaders
from ...dead_letters import Letter
from ...envelope import decode
from ...errors import InvalidEnvelope
from ...protocol.deep_json import VerbatimNumber, no_constant
from ...terminal_text import one_line, visible
from .copies import Copy

_MAX_DEPTH = 40
_MAX_NODES = 400
_MAX_TEXT = 16_000
_MAX_STRING = 1_000
_MAX_KEY = 200


@dataclass(frozen=True, slots=True)
class Node:
    """One value of a JSON document.

    :ivar key: its name in an object; None in an array, and for the whole document
    :ivar text: of a string, number, boolean or null, as in JSON
    :ivar children: the members of an object or array that are shown
    :ivar more: how many further children are not shown
    """

    kind: Literal["object", "array", "string", "number", "constant"]
    key: str | None = None
    text: str = ""
    children: Sequence[Node] = ()
    more: int = 0

    @property
    def count(self) -> int:
        """How many children there are."""
        return len(self.children) + self.more


class _Members(list[tuple[str, Any]]):
    """The members of an object, in order; a name may occur twice."""

    __slots__ = ()


def json_tree(text: str) -> Node | None:
    """Parse an object or array; None if the text is neither, or is nested too deeply."""
    try:
        value = json.loads(
            text,
            object_pairs_hook=_Members,
            parse_int=VerbatimNumber,
            parse_float=VerbatimNumber,
            parse_constant=no_constant,
        )
    except (ValueError, RecursionError):
        return None
    if not _is_list(value):
        return None
    return _Budget().node(None, value, _MAX_DEPTH)


def _is_list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)


class _Budget:
    """The nodes and characters that may still be shown."""

    def __init__(self) -> None:
        self._nodes = _MAX_NODES
        self._text = _MAX_TEXT

    def node(self, key: str | None, value: Any, depth: int) -> Node:
        self._nodes -= 1
        if key is not None:
            key = self._cut(one_line(json.dumps(key, ensure_ascii=False)), _MAX_KEY)
        if isinstance(value, _Members):
            return self._container("object", key, value, depth)
        if _is_list(value):
            return self._container("array", key, [(None, each) for each in value], depth)
        if isinstance(value, VerbatimNumber):
            return Node("number", key, self._cut(value, _MAX_STRING))
        if isinstance(value, str):
            return Node(
                "string", key, self._cut(one_line(json.dumps(value, ensure_ascii=False)), _MAX_STRING)
            )
        return Node("constant", key, json.dumps(value))

    def _container(
        self,
        kind: Literal["object", "array"],
        key: str | None,
        values: Sequence[tuple[str | None, Any]],
        depth: int,
    ) -> Node:
        children: list[Node] = []
        for name, value in values:
            if depth <= 1 or self._nodes <= 0 or self._text <= 0:
                break
            children.append(self.node(name, value, depth - 1))
        return Node(kind, key, "", children, len(values) - len(children))

    def _cut(self, text: str, limit: int) -> str:
        limit = max(min(limit, self._text), 0)
        self._text -= min(len(text), limit)
        return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"


_MAX_JSON = 64 * 1024
_MAX_HEADERS = 64
_MAX_HEADER = 2_000
_MAX_PREVIEW = 160
_BYTES_A_LINE = 16
_SPACES = re.compile(r"\s+")
# Text may have a few control characters, such as the colours of a terminal. A NUL is never text.
_CONTROL = re.compile(rb"[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]")
_CONTROLS_OF_TEXT = 0.05


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of the shown part of a payload.

    :ivar text: bytes of text
    :ivar binary: bytes of a hex dump
    """

    text: int = 4_096
    binary: int = 512


_DEFAULT = Bounds()


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a body. Control characters are escaped; HTML is not.

    :ivar size: bytes of the whole body
    :ivar payload_size: bytes of the payload, without headers
    :ivar shown: how many bytes of the payload are shown; all of JSON, although ``tree`` may leave out parts
    :ivar preview: its beginning, in one line
    :ivar text: text, or the hex dump; the source of JSON
    :ivar tree: the value of JSON; None for anything else
    :ivar headers: names and values of an envelope
    :ivar more_headers: how many further headers are not shown
    :ivar problem: why a body that begins like an envelope cannot be read; empty if there is no problem
    """

    kind: Literal["json", "text", "binary"]
    size: int
    payload_size: int
    shown: int
    preview: str
    text: str
    tree: Node | None = None
    headers: Sequence[tuple[str, str]] = ()
    more_headers: int = 0
    problem: str = ""

    @property
    def is_cut(self) -> bool:
        """Whether a part of the payload is not shown."""
        return self.shown < self.payload_size

    @classmethod
    def of(cls, body: bytes, bounds: Bounds = _DEFAULT) -> Content:
        """Read a body in bounded time and space."""
        problem = ""
        headers: list[tuple[str, str]] = []
        payload = body
        try:
            envelope = decode(body)
        except InvalidEnvelope as error:
            problem = one_line(str(error))
        else:
            headers = list(envelope.headers.items())
            payload = envelope.payload
        return cls(
            **_shown(payload, bounds),
            size=len(body),
            payload_size=len(payload),
            headers=[(name, _cut(one_line(value), _MAX_HEADER)) for name, value in headers[:_MAX_HEADERS]],
            more_headers=max(len(headers) - _MAX_HEADERS, 0),
            problem=problem,
        )


def _shown(payload: bytes, bounds: Bounds) -> dict[str, Any]:
    text = _text(payload[: bounds.text], is_cut=len(payload) > bounds.text)
    if text is None:
        dump = payload[: bounds.binary]
        preview = _cut(dump[:_MAX_PREVIEW].hex(" "), _MAX_PREVIEW)
        return {"kind": "binary", "shown": len(dump), "preview": preview, "text": _hex_dump(dump)}
    preview = visible(_cut(_SPACES.sub(" ", text[: 4 * _MAX_PREVIEW]).strip(), _MAX_PREVIEW))
    if len(payload) <= _MAX_JSON and payload.lstrip()[:1] in (b"{", b"["):
        whole = _text(payload, is_cut=False)
        tree = None if whole is None else json_tree(whole)
        if tree is not None:
            shown = len(payload)
            return {"kind": "json", "shown": shown, "preview": preview, "text": visible(text), "tree": tree}
    shown = min(len(payload), bounds.text)
    return {"kind": "text", "shown": shown, "preview": preview, "text": visible(text)}


def _text(data: bytes, *, is_cut: bool) -> str | None:
    """Return data as text, without a character that was cut; None if it is binary."""
    if b"\0" in data or len(_CONTROL.findall(data)) > max(len(data) * _CONTROLS_OF_TEXT, 2):
        return None
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(data, final=not is_cut)
    except UnicodeDecodeError:
        return None


def _hex_dump(data: bytes) -> str:
    lines: list[str] = []
    for at in range(0, len(data), _BYTES_A_LINE):
        line = data[at : at + _BYTES_A_LINE]
        halves = f"{line[:8].hex(' '):<23}  {line[8:].hex(' '):<23}"
        readable = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in line)
        lines.append(f"{at:08x}  {halves}  {readable}")
    return "\n".join(lines)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"


_NANO = 1e9
_IN_A_LETTER = Bounds(text=16_384, binary=2_048)


@dataclass(frozen=True, slots=True)
class MessageRow:
    """One message.

    :ivar published: seconds since the epoch
    """

    id: str
    nsqd: str
    attempts: int
    published: float
    content: Content

    @classmethod
    def of(cls, message: Copy) -> MessageRow:
        """Read a message. The row keeps neither the message nor its body."""
        return cls(
            one_line(message.id),
            message.nsqd,
            message.attempts,
            message.timestamp / _NANO,
            Content.of(message.body),
        )


@dataclass(frozen=True, slots=True)
class LetterRow:
    """One dead letter, or another message of its topic.

    :ivar key: its nsqd and id, by which it is selected
    :ivar died: seconds since the epoch
    :ivar source_id: the id of the original message, on ``source_nsqd``
    :ivar published: when the original message was published, in seconds since the epoch; 0 if unknown
    :ivar problem: why it is not a dead letter; empty if it is one
    :ivar content: of the original body
    """

    key: str
    id: str
    nsqd: str
    died: float
    reason: str
    source_topic: str
    source_channel: str
    attempts: str
    error: str
    traceback: str
    source_id: str
    source_nsqd: str
    published: float
    problem: str
    content: Content

    @classmethod
    def of(cls, letter: Letter) -> LetterRow:
        """Read a letter. The row keeps neither the letter nor its body."""
        names = DeadLetterHeaders

        def header(name: str) -> str:
            return one_line(letter.get(name))

        published = letter.get(names.TIMESTAMP)
        return cls(
            key=one_line(letter.key),
            id=one_line(letter.message.id),
            nsqd=letter.message.nsqd,
            died=letter.died,
            reason=header(names.REASON),
            source_topic=header(names.TOPIC),
            source_channel=header(names.CHANNEL),
            attempts=header(names.ATTEMPTS),
            error=one_line(letter.error),
            traceback=visible(letter.get(names.TRACEBACK)),
            source_id=header(names.ID),
            source_nsqd=header(names.NSQD),
            published=int(published) / _NANO if _is_time(published) else 0.0,
            problem=one_line(letter.problem),
            content=Content.of(letter.message.body if letter.body is None else letter.body, _IN_A_LETTER),
        )


def _is_time(text: str) -> bool:
    """Return whether a header is a time in nanoseconds that a double can hold."""
    return text.isascii() and text.isdigit() and len(text) < 20
