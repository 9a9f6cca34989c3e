"""What an nsqd says of itself, by HTTP and to nsqlookupds."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field

from .nsq_version import NSQ_VERSION

__all__ = ["NsqdIdentity"]


@dataclass(frozen=True, slots=True)
class NsqdIdentity:
    """What an nsqd says of itself.

    :ivar tcp_port: where it listens; 0 on a unix socket, as ``http_port``
    :ivar broadcast_tcp_port: what nsqlookupds are told, like the next one
    :ivar started_at: in Unix seconds
    """

    broadcast_address: str
    tcp_port: int
    http_port: int
    broadcast_tcp_port: int
    broadcast_http_port: int
    started_at: float
    hostname: str = field(default_factory=socket.gethostname)

    def registration(self) -> dict[str, object]:
        """What it tells nsqlookupd."""
        return {
            "version": NSQ_VERSION,
            "hostname": self.hostname,
            "broadcast_address": self.broadcast_address,
            "tcp_port": self.broadcast_tcp_port,
            "http_port": self.broadcast_http_port,
        }
