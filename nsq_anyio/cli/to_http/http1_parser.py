"""The parser of HTTP/1 answers, without I/O.

It is stricter than RFC 9112 requires of a client. Bytes that a server and an intermediary could read
differently are refused: a bare line feed, a folded header, Content-Length twice or beside Transfer-Encoding.
Otherwise a request could get the answer to another request.

httptools (llhttp) is no substitute: it skips line ends after an answer, and does not say how many bytes it
has used. So further bytes from the server would not be noticed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from http import HTTPStatus
from typing import TypeAlias

MAX_HEAD = 1024 * 1024
"""The most bytes of all heads together: the heads of interim answers and of the answer, and its trailers."""

MAX_FIELDS = 1000
"""The most headers of one head."""

MAX_INTERIM = 100
"""The most interim answers, such as 103 Early Hints, before the answer itself."""

MAX_BODY = 1024 * 1024
"""The most bytes of a body that are skipped, including the framing of its chunks."""

MAX_LINE = 4096
"""The most bytes of a line with the size of a chunk, as in Go's client."""

_VERSION = b"HTTP/1."
_STATUS_LINE = re.compile(rb"HTTP/1\.([0-9]) ([1-9][0-9]{2})(?: [\t\x20-\x7e\x80-\xff]*+)?\r\n")
_FIELD = re.compile(rb"^([!#$%&'*+.^_`|~0-9A-Za-z-]++):[ \t]*+([\t\x20-\x7e\x80-\xff]*+)\r\n", re.MULTILINE)
_LENGTH = re.compile(rb"[0-9]{1,15}")
_CHUNK_SIZE = re.compile(rb"([0-9a-fA-F]{1,15})[ \t]*+(?:;[\t\x20-\x7e\x80-\xff]*+)?\r\n")
_BARE_LINE_FEED = re.compile(rb"(?<!\r)\n")
_SHOWN = 60


class BadAnswer(Exception):
    """The bytes are not an answer of HTTP/1, or exceed a limit."""


class AnswerParser:
    """Parses the answer to one request other than HEAD, and skips its body.

    :ivar status: None until the whole head has arrived
    :ivar headers: the values by name in lower case; several values of a name are joined with ``", "``
    :ivar is_complete: whether the answer has arrived to its end
    """

    __slots__ = (
        "_body_left",
        "_head_left",
        "_interim_left",
        "_keeps_open",
        "_left",
        "_rest",
        "_searched",
        "_step",
        "headers",
        "is_complete",
        "status",
    )

    def __init__(self) -> None:
        self.status: int | None = None
        self.headers: dict[bytes, bytes] = {}
        self.is_complete: bool = False
        self._keeps_open = False
        self._rest = bytearray()
        self._searched = 0
        self._step: _Step = AnswerParser._head
        self._head_left = MAX_HEAD
        self._interim_left = MAX_INTERIM
        self._body_left = MAX_BODY
        self._left = 0

    @property
    def leaves_reusable(self) -> bool:
        """Whether the connection can carry another request: the answer is whole, and nothing follows it."""
        return self.is_complete and self._keeps_open and not self._rest

    def feed(self, data: bytes) -> None:
        """Parse the bytes that have arrived; the result does not depend on how they are divided.

        :raises BadAnswer: if they are not valid, or exceed a limit. After that, feed no more; `status` stays
        """
        self._rest += data
        while not self.is_complete and self._step(self):
            pass

    def feed_end(self) -> None:
        """Note that the server has ended the connection.

        :raises BadAnswer: if the answer is not complete
        """
        if self._step is AnswerParser._body_until_the_end:
            self.is_complete = True
        elif not self.is_complete:
            what = "before the end of its answer" if self.status else "without an answer"
            raise BadAnswer(f"the server closed the connection {what}")

    # Each step parses one element and returns True, or returns False if more bytes are needed for it.

    def _head(self) -> bool:
        seen = self._searched
        head = self._up_to(b"\r\n\r\n", self._head_left, "the head")
        if head is None:
            self._check_part_of_head(seen)
            return False
        self._head_left -= len(head)
        line = _STATUS_LINE.match(head)
        if line is None:
            raise BadAnswer(f"the answer has no valid status line: {_shown(head)}")
        headers = _headers(head[line.end() : -2])
        status = int(line[2])
        if status >= HTTPStatus.OK:
            self._begin_body(status, headers, is_1_0=line[1] == b"0")
        elif status == HTTPStatus.SWITCHING_PROTOCOLS:
            raise BadAnswer("the server switched protocols, which no request has asked for")
        elif not self._interim_left:
            raise BadAnswer(f"the server sent more than {MAX_INTERIM} interim answers")
        else:
            self._interim_left -= 1
        return True

    def _check_part_of_head(self, seen: int) -> None:
        """Refuse at once bytes that can no longer become a head: the server may send nothing more."""
        rest = self._rest
        if not rest.startswith(_VERSION[: len(rest)]):
            raise BadAnswer(f"the answer has no valid status line: {_shown(rest)}")
        if _BARE_LINE_FEED.search(rest, seen):
            raise BadAnswer("the head of the answer has a line that does not end with CR LF")

    def _begin_body(self, status: int, headers: dict[bytes, bytes], *, is_1_0: bool) -> None:
        """Decide how the body ends (RFC 9112, section 6.3), and whether the connection is kept after it."""
        coding, length = headers.get(b"transfer-encoding"), headers.get(b"content-length")
        if coding is not None and length is not None:
            raise BadAnswer("the answer has both Transfer-Encoding and Content-Length")
        if length is not None and not _LENGTH.fullmatch(length):
            raise BadAnswer(f"the answer has no valid Content-Length: {_shown(length)}")
        if coding is not None and coding.lower() != b"chunked":
            raise BadAnswer(f"the answer has a Transfer-Encoding other than chunked: {_shown(coding)}")
        self.status, self.headers = status, headers
        self._keeps_open = _keeps_open(headers.get(b"connection"), is_1_0=is_1_0)
        if status in _BODILESS or length == b"0":
            self.is_complete = True
        elif length is not None:
            self._expect(int(length), AnswerParser._counted_body)
        elif coding is None or is_1_0:  # HTTP/1.0 has no codings (RFC 9112, section 6.1)
            self._keeps_open = False
            self._step = AnswerParser._body_until_the_end
        else:
            self._step = AnswerParser._chunk_size

    def _counted_body(self) -> bool:
        self._skip_expected()
        self.is_complete = not self._left
        return False

    def _body_until_the_end(self) -> bool:
        self._charge(len(self._rest))
        self._rest.clear()
        return False

    def _chunk_size(self) -> bool:
        line = self._up_to(b"\n", MAX_LINE, "a chunk's size")
        if line is None:
            return False
        self._charge(len(line))
        match = _CHUNK_SIZE.fullmatch(line)
        if match is None:
            raise BadAnswer(f"the answer has no valid size of a chunk: {_shown(line)}")
        size = int(match[1], 16)
        if size:
            self._expect(size, AnswerParser._chunk)
        else:
            self._step = AnswerParser._trailer
        return True

    def _chunk(self) -> bool:
        self._skip_expected()
        if self._left:
            return False
        self._step = AnswerParser._chunk_end
        return True

    def _chunk_end(self) -> bool:
        end = self._rest[:2]
        if not b"\r\n".startswith(end):
            raise BadAnswer(f"a chunk of the answer is longer than its size: {_shown(self._rest)}")
        if len(end) < 2:
            return False
        del self._rest[:2]
        self._step = AnswerParser._chunk_size
        return True

    def _trailer(self) -> bool:
        line = self._up_to(b"\n", self._head_left, "the trailer section")
        if line is None:
            return False
        self._head_left -= len(line)
        if line == b"\r\n":
            self.is_complete = True
        else:
            _headers(line)
        return True

    def _up_to(self, end: bytes, limit: int, what: str) -> bytes | None:
        """Take the bytes up to the first ``end``; None if it has not arrived.

        :raises BadAnswer: if they are more than ``limit``
        """
        rest = self._rest
        found = rest.find(end, self._searched)
        size = len(rest) + 1 if found < 0 else found + len(end)
        if size > limit:
            raise BadAnswer(f"{what} of the answer is longer than the limit")
        if found < 0:
            self._searched = max(len(rest) - len(end) + 1, 0)
            return None
        self._searched = 0
        taken = bytes(rest[:size])
        del rest[:size]
        return taken

    def _expect(self, size: int, step: _Step) -> None:
        self._charge(size)
        self._left = size
        self._step = step

    def _skip_expected(self) -> None:
        size = min(len(self._rest), self._left)
        del self._rest[:size]
        self._left -= size

    def _charge(self, size: int) -> None:
        self._body_left -= size
        if self._body_left < 0:
            raise BadAnswer(f"the answer has a body of more than {MAX_BODY} bytes")


_Step: TypeAlias = Callable[[AnswerParser], bool]

_BODILESS = frozenset((HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED))


def _keeps_open(wishes: bytes | None, *, is_1_0: bool) -> bool:
    if wishes is None:
        return not is_1_0
    tokens = {token.strip() for token in wishes.lower().split(b",")}
    return b"close" not in tokens and (not is_1_0 or b"keep-alive" in tokens)


def _headers(lines: bytes) -> dict[bytes, bytes]:
    """Return the headers of whole lines.

    :raises BadAnswer: if a line is not a header, or there are too many
    """
    fields = _FIELD.findall(lines)
    # Each match is one line. So the counts differ if a line is not a header, or does not end with CR LF.
    if len(fields) != lines.count(b"\n"):
        raise BadAnswer(f"the answer has a line that is not a header: {_shown(_FIELD.sub(b'', lines))}")
    if len(fields) > MAX_FIELDS:
        raise BadAnswer(f"the answer has more than {MAX_FIELDS} headers")
    headers: dict[bytes, bytes] = {}
    for name, value in fields:
        key = name.lower()
        stripped = value.rstrip(b" \t")
        headers[key] = b", ".join((headers[key], stripped)) if key in headers else stripped
    return headers


def _shown(data: bytes | bytearray) -> str:
    """Return the first bytes of ``data`` for the log, safe for a terminal."""
    return repr(bytes(data[:_SHOWN]))
