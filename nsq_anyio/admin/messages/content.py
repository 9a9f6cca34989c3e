"""What is shown of a message's body: its headers, and its payload as JSON, as text or as a hex dump."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ...envelope import decode
from ...errors import InvalidEnvelope
from ...terminal_text import one_line, visible
from .json_tree import Node, json_tree

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
    """How much of a payload is shown.

    :ivar text: bytes of text
    :ivar binary: bytes of a hex dump
    """

    text: int = 4_096
    binary: int = 512


_DEFAULT = Bounds()


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a body. Control characters are escaped, HTML's are not.

    :ivar size: bytes of the whole body
    :ivar payload_size: bytes of the payload, without headers
    :ivar shown: how many bytes of the payload are shown
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
        """Read a body, in time and space that are bounded whatever it contains."""
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
