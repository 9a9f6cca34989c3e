"""A request and its answer, for both versions of HTTP."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

KEEP_ALIVE = 30.0
"""Seconds to keep an idle connection: a firewall may silently drop it after a minute."""

# RFC 9110, section 5, and RFC 9112, section 3.2. Anything else could end the line, and begin another request.
_FIELD = re.compile(
    rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+: [\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?\r\n"
)
_TARGET = re.compile(rb"[\x21-\x7e]+")


class NoAnswer(Exception):
    """The server sent no status.

    :ivar unheard: whether the connection ended without a single byte of an answer
    """

    def __init__(self, reason: str, *, unheard: bool = False) -> None:
        super().__init__(reason)
        self.unheard = unheard


class Headers:
    """The headers of each request to one endpoint, except the headers that frame its body.

    :ivar pairs: names and values
    :ivar lines: the headers as lines of HTTP/1
    :raises ValueError: if a header is not one valid line
    """

    __slots__ = ("lines", "pairs")

    def __init__(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        lines = [b"%b: %b\r\n" % pair for pair in pairs]
        for line in lines:
            if not _FIELD.fullmatch(line):
                raise ValueError("a header is not valid")  # without its value, which may be a secret
        self.pairs: Sequence[tuple[bytes, bytes]] = pairs
        self.lines: bytes = b"".join(lines)


@dataclass(slots=True, eq=False)
class Exchange:
    """A request, and its answer as far as it has arrived.

    :ivar target: the path with the query
    :ivar body: None for a request without a body
    :ivar status: None until the answer's head has arrived; it decides the outcome of the message, even if the
        answer's body never arrives
    :ivar answer_headers: by name in lower case; empty until the answer's head has arrived
    """

    method: str
    target: bytes
    headers: Headers
    body: bytes | None
    status: int | None = field(default=None, init=False)
    answer_headers: Mapping[bytes, bytes] = field(default_factory=dict[bytes, bytes], init=False)

    def as_http1(self) -> bytes:
        """Return the request as HTTP/1.1 sends it.

        :raises ValueError: if the target has a byte that HTTP does not allow there
        """
        if not _TARGET.fullmatch(self.target):
            raise ValueError("the target of a request is not valid")
        method = self.method.encode()
        if self.body is None:
            return b"%b %b HTTP/1.1\r\n%b\r\n" % (method, self.target, self.headers.lines)
        return b"%b %b HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n%b" % (
            method,
            self.target,
            self.headers.lines,
            len(self.body),
            self.body,
        )
