"""Addresses of nsqd: ``host:port``, ``[ipv6]:port``, or the path of a unix socket.

`Address` is also the key of nsqlookupd's answers: ``broadcast_address:tcp_port``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .errors import InvalidAddress
from .options.checks import each_of

__all__ = [
    "Address",
    "ListenAddress",
    "NsqdAddress",
    "UnixAddress",
    "addresses",
    "host_port",
    "nsqd_addresses",
]

_MAX_PORT = 65535
_MAX_HOST_LENGTH = 255
_PORT = re.compile("[0-9]{1,5}")


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """A TCP address; ``str()`` gives ``host:port``, with brackets around an IPv6 literal."""

    host: str
    port: int

    def __post_init__(self) -> None:
        # The values may come from a peer's JSON, so their types and characters are not certain.
        if not isinstance(self.host, str) or not _is_host(self.host):
            raise InvalidAddress(f"host {self.host!r} is not valid: use a host name or an IP address")
        if type(self.port) is not int or not 1 <= self.port <= _MAX_PORT:
            raise InvalidAddress(f"port {self.port!r} of {self.host!r} is not valid: use 1 to {_MAX_PORT}")

    @classmethod
    def parse(cls, text: str) -> Address:
        """Parse ``host:port``.

        :raises InvalidAddress: if the port is missing or either part is not valid
        """
        if not isinstance(text, str):
            raise InvalidAddress(f"nsqd address {text!r} is not a string: use 'host:port'")
        if "://" in text:
            raise InvalidAddress(
                f"nsqd address {text!r} is a URL: use nsqd's TCP address, such as '127.0.0.1:4150'"
            )
        host, colon, port = text.rpartition(":")
        if not colon or not _PORT.fullmatch(port):
            raise InvalidAddress(
                f"nsqd address {text!r} has no valid port: use 'host:port', such as '127.0.0.1:4150'"
            )
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            if len(several := re.split("[,; ]+", text)) > 1:
                each = " and ".join(map(repr, several))
                raise InvalidAddress(f"nsqd address {text!r} is more than one: give each by itself, {each}")
            raise InvalidAddress(
                f"nsqd address {text!r} is ambiguous: put an IPv6 literal in brackets, as in '[::1]:4150'"
            )
        return cls(host, int(port))

    @classmethod
    def is_valid(cls, text: str) -> bool:
        """Return whether `parse` accepts ``text``."""
        try:
            cls.parse(text)
        except InvalidAddress:
            return False
        return True

    def __str__(self) -> str:
        return host_port(self.host, self.port)


@dataclass(frozen=True, slots=True, order=True)
class UnixAddress:
    """A unix socket, on which nsqd listens when ``--tcp-address`` is a path; ``str()`` gives the path."""

    path: str

    def __post_init__(self) -> None:
        if not self.path.startswith("/") or not self.path.isprintable():
            raise InvalidAddress(
                f"path {self.path!r} is not valid: use a socket's absolute path, such as '/run/nsqd.sock'"
            )

    def __str__(self) -> str:
        return self.path


class ListenAddress(NamedTuple):
    """An address to listen on; port 0 takes a free port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> ListenAddress:
        """Parse ``host:port``, or ``:port`` for all IPv4 interfaces.

        :raises InvalidAddress: if the text is not an address
        """
        host, colon, port = text.rpartition(":") if isinstance(text, str) else ("", "", "")
        if not colon or not _PORT.fullmatch(port) or int(port) > _MAX_PORT:
            raise InvalidAddress(f"{text!r} is not an address: use host:port, such as 127.0.0.1:4150")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            raise InvalidAddress(f"{text!r} is ambiguous: put an IPv6 literal in brackets, as in [::1]:4150")
        return cls(host or "0.0.0.0", int(port))  # noqa: S104 - asked for


NsqdAddress = Address | UnixAddress
"""An address where clients can reach an nsqd."""


def host_port(host: str, port: object) -> str:
    """Return ``host:port``, as Go's ``net.JoinHostPort`` does: an IPv6 address gets brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _is_host(text: str) -> bool:
    return 0 < len(text) <= _MAX_HOST_LENGTH and all(c.isprintable() and c not in " /[]@" for c in text)


def addresses(value: str | Sequence[str]) -> tuple[Address, ...]:
    """Parse one address or a sequence of addresses, and drop duplicates.

    :raises InvalidAddress: if an address is not valid, or there is none
    """
    return tuple(dict.fromkeys(Address.parse(text) for text in _texts(value)))


def nsqd_addresses(value: str | Sequence[str]) -> tuple[NsqdAddress, ...]:
    """Parse one address or a sequence of addresses, ``host:port`` or ``/path``, and drop duplicates.

    :raises InvalidAddress: if an address is not valid, or there is none
    """
    return tuple(
        dict.fromkeys(
            UnixAddress(text) if isinstance(text, str) and text.startswith("/") else Address.parse(text)
            for text in _texts(value)
        )
    )


def _texts(value: str | Sequence[str]) -> tuple[str, ...]:
    texts = each_of(value)
    if not texts:
        raise InvalidAddress("no nsqd address given: name at least one 'host:port'")
    return texts
