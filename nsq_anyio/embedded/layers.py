"""The layers between a connection and NSQ's bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyio.abc import ByteStream

if TYPE_CHECKING:
    from .server_tls import TLSInfo

__all__ = ["Layers"]


@dataclass(frozen=True, slots=True)
class Layers:
    """What runs on one connection.

    :ivar stream: the outermost layer, for NSQ's bytes
    :ivar tls: None without TLS
    """

    stream: ByteStream
    tls: TLSInfo | None = None
    snappy: bool = False
    deflate: bool = False
