"""The layers of a connection: TLS and compression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyio.abc import ByteStream

if TYPE_CHECKING:
    from .server_tls import TLSInfo


@dataclass(frozen=True, slots=True)
class Layers:
    """The layers of one connection.

    :ivar stream: the top layer, which carries NSQ's protocol
    :ivar tls: the TLS connection's parameters; None without TLS
    """

    stream: ByteStream
    tls: TLSInfo | None = None
    snappy: bool = False
    deflate: bool = False
