"""The endpoints that messages are sent to: the URLs of ``--post`` and ``--get``."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field
from urllib.parse import quote_plus, unquote

import httpcore
import httpx

from ...address import Address
from ...errors import InvalidAddress, InvalidOption


@dataclass(slots=True, eq=False)
class Endpoint:
    """An HTTP endpoint and its state.

    :ivar method: GET or POST
    :ivar origin: the scheme, host and port to connect to
    :ivar host: the value of the header Host
    :ivar path: the path with the query; for GET with ``%s`` in place of the message
    :ivar shown: the URL for logs: without user, password and query, which may hold secrets
    :ivar authorization: the value of the header Authorization, from the URL's user and password; or None
    :ivar free_at: the end of the pause that the endpoint has asked for, on the clock of `time.monotonic`
    """

    method: str
    origin: httpcore.Origin
    host: str
    path: bytes = field(repr=False)
    shown: str
    authorization: str | None = field(default=None, repr=False)
    free_at: float = field(default=0.0, init=False)
    outstanding: int = field(default=0, init=False)
    outstanding_bytes: int = field(default=0, init=False)

    @property
    def is_https(self) -> bool:
        """Whether requests go over TLS."""
        return self.origin.scheme == b"https"

    def has_room(self, count: int, size: int) -> bool:  # noqa: ARG002 - see policy/host_choice.py
        """Return True: the number of handlers limits the requests under way."""
        return True

    def target(self, body: bytes) -> bytes:
        """Return the path and query of a request; for GET they contain the message, escaped as in a query."""
        if self.method == "POST":
            return self.path
        return self.path.replace(_BODY, quote_plus(body).encode())


def post_endpoint(text: str) -> Endpoint:
    """Return the endpoint of a ``--post``.

    :raises InvalidOption: if the text is not an HTTP URL
    """
    return _endpoint("POST", text)


def get_endpoint(text: str) -> Endpoint:
    """Return the endpoint of a ``--get``; ``%%`` stands for ``%``, as in nsq_to_http.

    :raises InvalidOption: if the text is not an HTTP URL with one ``%s`` after the host
    """
    text = text.replace("%%", "%")
    if text.count("%s") != 1:
        raise InvalidOption(
            f"the GET address {_shown(text)!r} contains '%s' {text.count('%s')} times: write it once, where "
            "the message goes, as in 'http://127.0.0.1:8080/get?message=%s'"
        )
    return _endpoint("GET", text)


def _endpoint(method: str, text: str) -> Endpoint:
    try:
        if not text.isprintable() or " " in text:
            raise ValueError
        # httpx would escape the percent sign of '%s'.
        url = httpx.URL(text.replace("%s", _STAND_IN))
        path = url.raw_path.replace(_STAND_IN.encode(), _BODY)
        if url.scheme not in _PORTS or not url.host or (method == "GET" and _BODY not in path):
            raise ValueError
        origin = httpcore.Origin(
            url.raw_scheme, url.raw_host, _PORTS[url.scheme] if url.port is None else url.port
        )
        Address(origin.host.decode("ascii"), origin.port)
    except (ValueError, httpx.InvalidURL, InvalidAddress):
        # Not chained: the cause would quote the URL with its secrets.
        raise InvalidOption(
            f"{_shown(text)!r} is not an HTTP address: use 'http://host:port/path' or 'https://host/path'"
        ) from None
    return Endpoint(method, origin, url.netloc.decode("ascii"), path, _shown(text), _basic(url.userinfo))


_BODY = b"%s"
_STAND_IN = "nsq-message-here"
_PORTS = {"http": 80, "https": 443}


def _basic(userinfo: bytes) -> str | None:
    if not userinfo:
        return None
    user, _, password = userinfo.decode().partition(":")
    return f"Basic {b64encode(f'{unquote(user)}:{unquote(password)}'.encode()).decode()}"


def _shown(text: str) -> str:
    """Return ``text`` without parts that may be secret."""
    scheme, mark, rest = text.partition("://")
    path = (rest if mark else text).partition("?")[0]
    return f"{scheme}{mark}{path.rpartition('@')[2]}" if mark else path.rpartition("@")[2]
