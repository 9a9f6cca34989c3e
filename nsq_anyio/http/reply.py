"""A server's complete answer, and the parts of it that may be shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar

from ..errors import HTTPInvalidReply, HTTPStatusError
from .fields import is_object, parse_json

T = TypeVar("T")

_MAX_SHOWN_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete answer; ``url`` may be shown.

    :ivar most_values: how many values its JSON may have
    """

    url: str
    status: int
    content_type: str
    body: bytes
    most_values: int = 4_000_000

    def text(self) -> str:
        """Return the body as text, with U+FFFD for bytes that are not UTF-8."""
        return self.body.decode("utf-8", "replace")

    def read(self, reader: Callable[[object], T]) -> T:
        """Return what ``reader`` makes of the body's JSON.

        :raises HTTPInvalidReply: if it is not JSON, or ``reader`` raises ValueError
        :raises HTTPStatusError: if the JSON has an error status inside, as in nsq before 1.0
        """
        try:
            return reader(self._unwrapped(parse_json(self.body, most_values=self.most_values)))
        except ValueError as error:
            raise HTTPInvalidReply(self.url, printable(str(error))) from error

    def _unwrapped(self, value: object) -> object:
        if not is_object(value) or "status_code" not in value or "data" not in value:
            return value
        status = value["status_code"]
        if type(status) is not int:
            raise ValueError("status_code is not an integer")
        if status != 200:
            raise HTTPStatusError(self.url, status, self.error_code())
        return value["data"]

    def https_port(self) -> int | None:
        """Return the port that an nsqd names when it refuses plain HTTP; None if this is no such answer."""
        if self.status != HTTPStatus.FORBIDDEN:
            return None
        try:
            value = parse_json(self.body)
        except ValueError:
            return None
        port = value.get("https_port") if is_object(value) else None
        return port if type(port) is int and 0 < port <= 65535 else None

    def error_code(self) -> str:
        """Return NSQ's code in an error reply, or as much of its text as can be shown."""
        try:
            value = parse_json(self.body, most_values=self.most_values)
        except ValueError:
            # /ping answers in plain text. An HTML page comes from a proxy, and tells nothing about NSQ.
            text = self.text() if self.content_type in {"", "text/plain"} else ""
            return printable(text.strip().partition("\n")[0])
        code = value.get("message", value.get("status_txt")) if is_object(value) else ""
        return printable(code) if isinstance(code, str) else ""


def printable(text: str) -> str:
    """Return the beginning of a server's text, fit for one line of a log."""
    return "".join(c if c.isprintable() else "?" for c in text[:_MAX_SHOWN_LENGTH])
