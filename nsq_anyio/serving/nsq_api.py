"""HTTP requests and responses, as nsqd, nsqlookupd and nsqadmin read and write them.

Statuses, headers and codes are those of NSQ 1.3.0 (``internal/http_api``), so that tools written for it work
unchanged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import parse_qs

from .http_messages import BodyError, Handler, Request, Response

_NSQ_HEADER = ("X-NSQ-Content-Type", "nsq; version=1.0")
_JSON_HEADER = ("Content-Type", "application/json; charset=utf-8")
_TEXT_HEADER = ("Content-Type", "text/plain; charset=utf-8")
_SURROGATE = re.compile("[\ud800-\udfff]")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")


class Refusal(Exception):
    """Raised by a handler to respond with ``status`` and ``{"message": code}``."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(f"{status} {code}")
        self.status = status
        self.code = code


class Arguments:
    """The parameters of a query, each with its values in order."""

    def __init__(self, values: Mapping[str, list[str]]) -> None:
        self._values = values

    def get(self, name: str) -> str:
        """Return the first value of a parameter, possibly empty.

        :raises Refusal: 400 ``MISSING_ARG_<NAME>`` if the query does not have it
        """
        if name not in self._values:
            raise Refusal(400, f"MISSING_ARG_{name.upper()}")
        return self._values[name][0]

    def optional(self, name: str, default: str = "") -> str:
        """Return the first value of a parameter, or ``default``."""
        return self._values[name][0] if name in self._values else default


def arguments(request: Request) -> Arguments:
    """Return the parameters of the query.

    :raises Refusal: 400 ``INVALID_REQUEST`` for a query with an incomplete escape or a semicolon, which Go
        does not parse
    """
    query = request.target.query
    if _BAD_ESCAPE.search(query) or ";" in query:
        raise Refusal(400, "INVALID_REQUEST")
    return Arguments(parse_qs(query, keep_blank_values=True))


async def arguments_after_body(request: Request) -> Arguments:
    """Return the parameters of the query after reading the body, which the endpoint ignores as nsqd does.

    :raises Refusal: 400 ``INVALID_REQUEST`` if either cannot be read
    """
    found = arguments(request)
    try:
        await request.discard()
    except BodyError:
        raise Refusal(400, "INVALID_REQUEST") from None
    return found


def json_response(value: object) -> Response:
    """Return 200 with ``value`` as JSON."""
    return Response(200, _to_json(value), (_NSQ_HEADER, _JSON_HEADER))


def text_response(text: str = "") -> Response:
    """Return 200 with plain text, such as ``OK``; for most commands of nsqd the text is empty."""
    body = text.encode("utf-8", "surrogateescape")
    return Response(200, body, (_NSQ_HEADER, _TEXT_HEADER) if text else (_NSQ_HEADER,))


def plain_response(text: str, status: int = 200) -> Response:
    """Return ``status`` with plain text and without NSQ's header, as ``/ping`` does."""
    return Response(status, text.encode("utf-8", "surrogateescape"), (_TEXT_HEADER,))


def error_response(status: int, code: str) -> Response:
    """Return ``status`` with ``{"message": code}``."""
    return Response(status, _to_json({"message": code}), (_NSQ_HEADER, _JSON_HEADER))


def tls_required(https_port: int) -> Handler:
    """Return a handler that refuses every request, and names the HTTPS port."""
    # Without `_to_json`, because nsqd writes spaces here.
    body = json.dumps({"message": "TLS_REQUIRED", "https_port": https_port}).encode()

    async def refuse(_: Request) -> Response:
        return Response(HTTPStatus.FORBIDDEN, body, (_NSQ_HEADER, _JSON_HEADER))

    return refuse


def _to_json(value: object) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text).encode()  # as Go does
