"""JSON as a tree that can be folded, of bounded size, with each number as it was written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeGuard

from ...protocol.deep_json import VerbatimNumber, no_constant
from ...terminal_text import one_line

_MAX_DEPTH = 40
_MAX_NODES = 400
_MAX_TEXT = 16_000
_MAX_STRING = 1_000
_MAX_KEY = 200


@dataclass(frozen=True, slots=True)
class Node:
    """One value.

    :ivar key: its name in an object; None in an array, and for the whole document
    :ivar text: of a string, number, boolean or null, as in JSON
    :ivar children: what an object or array has, as far as it is shown
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
    """The members of an object, in order; a name may be there twice."""

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
    """What may still be shown."""

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
