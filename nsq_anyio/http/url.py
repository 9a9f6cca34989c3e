"""The URL of an nsqd's or nsqlookupd's HTTP API, with its secrets kept apart from the text to show."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import unquote, urlencode, urlsplit

import httpx

from ..address import UnixAddress, host_port
from ..errors import InvalidAddress

_EXAMPLE = "use 'http://host:port', 'https://host:port', 'host:port' or '/path/of/a/unix/socket'"
_UNIX = "unix:"


@dataclass(frozen=True, slots=True)
class ServerURL:
    """A checked URL. Only ``shown`` is for errors, reprs and logs.

    :ivar shown: scheme, host, port and path, or ``unix:`` and the path of a socket
    :ivar query: the URL's query, where people put tokens
    :ivar authorization: the header made of the URL's user and password, or None
    :ivar socket: the path of a unix socket, or None
    """

    shown: str
    query: str = field(default="", repr=False)
    authorization: str | None = field(default=None, repr=False)
    socket: str | None = None

    @classmethod
    def parse(cls, text: str) -> ServerURL:
        """Parse an ``http`` or ``https`` URL, ``host:port``, ``/path`` or ``unix:/path``.

        :raises InvalidAddress: if it is anything else
        """
        if not isinstance(text, str):
            raise InvalidAddress(f"a URL of type {type(text).__name__} is not valid: {_EXAMPLE}")
        if (path := text.removeprefix(_UNIX)).startswith("/"):
            socket = UnixAddress(path).path
            return cls(f"{_UNIX}{socket}", socket=socket)
        try:
            return cls._parse(text if "://" in text else f"http://{text}", bare="://" not in text)
        except (ValueError, httpx.InvalidURL) as error:
            # The cause would quote the secrets in full, so it is not chained.
            reason = str(error) if isinstance(error, _Refused) else "malformed"
            if "," in text:
                reason = "if it is several, give each by itself"
            raise InvalidAddress(f"URL {_redacted(text)!r} is not valid ({reason}): {_EXAMPLE}") from None

    @classmethod
    def _parse(cls, text: str, *, bare: bool) -> ServerURL:
        if not text.isprintable() or " " in text:
            # urlsplit would drop line ends silently.
            raise _Refused("it contains white space or control characters")
        parts = urlsplit(text)
        if parts.scheme not in {"http", "https"}:
            raise _Refused("the scheme is neither http nor https")
        if not parts.hostname:
            raise _Refused("no host")
        if "#" in text:
            raise _Refused("a fragment has no meaning here; write '#' in a password as '%23'")
        if "@" in parts.path + parts.query:
            # Most likely a '/' or '?' in a password: the text before it would be mistaken for the host.
            raise _Refused(
                "write '@' in a path or query as '%40', '/' and '?' in a password as '%2F' and '%3F'"
            )
        if bare and (parts.port is None or parts.path or parts.query or "@" in parts.netloc):
            raise _Refused("without a scheme it must be host:port")
        if parts.port == 0:
            raise _Refused("port 0")
        parts.hostname.encode("idna")  # as resolving does: labels must have 1 to 63 characters
        location = parts.netloc.rpartition("@")[2]
        # httpx decodes the host. Without this, a host that it refuses would fail only at the first request.
        _ = httpx.URL(text).host
        return cls(
            shown=f"{parts.scheme}://{location}{parts.path.rstrip('/')}",
            query=parts.query,
            authorization=_basic(parts.username, parts.password),
        )

    @property
    def is_https(self) -> bool:
        """Whether requests go over TLS."""
        return self.shown.startswith("https:")

    def secured(self, port: int | None) -> ServerURL | None:
        """Return the same URL by https at another port; None without a port, or if the scheme is not http."""
        if port is None or not self.shown.startswith("http:"):
            return None
        parts = urlsplit(self.shown)
        location = host_port(parts.hostname or "", port)
        return replace(self, shown=parts._replace(scheme="https", netloc=location).geturl())

    def without_suffix(self, path: str) -> ServerURL:
        """Return the same URL without ``path`` at its end."""
        return self if self.socket else replace(self, shown=self.shown.removesuffix(path))

    def endpoint(self, path: str, parameters: Mapping[str, str]) -> tuple[str, str]:
        """Return the URL of an endpoint twice: the one to request, and the one to show."""
        own = urlencode(parameters)
        query = "&".join(part for part in (self.query, own) if part)
        if self.socket:
            requested, shown = f"http://localhost{path}", f"{self.shown}:{path}"
        else:
            requested = shown = f"{self.shown}{path}"
        return (f"{requested}?{query}" if query else requested), (f"{shown}?{own}" if own else shown)


class _Refused(ValueError):
    """A refusal whose text may be shown, unlike those of the parsers."""


def _basic(user: str | None, password: str | None) -> str | None:
    if user is None and password is None:
        return None
    pair = f"{unquote(user or '')}:{unquote(password or '')}"
    return f"Basic {b64encode(pair.encode()).decode()}"


def _redacted(text: str) -> str:
    """Return ``text`` without possible secrets: everything up to the last ``@``, and the query."""
    hidden = re.sub(r"^([a-zA-Z][a-zA-Z0-9+.-]*://)?.*@", r"\1***@", text, flags=re.DOTALL)
    return re.sub(r"[?#].*", "?***", hidden, flags=re.DOTALL)
