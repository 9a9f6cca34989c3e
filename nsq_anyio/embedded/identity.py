"""The identity of the embedded servers: the version of NSQ that they report, and an nsqd's addresses.

The servers behave like this version; nsqadmin and other tools parse it to decide what a server can do.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass, field

NSQ_VERSION = "1.3.0"


def version_line(program: str) -> str:
    """Return the output of ``program --version``; tools parse it."""
    return f"{program} v{NSQ_VERSION} (built w/nsq-anyio)"


@dataclass(frozen=True, slots=True)
class NsqdIdentity:
    """An nsqd's description of itself.

    :ivar tcp_port: the port on which it listens; 0 on a unix socket; likewise ``http_port``
    :ivar broadcast_tcp_port: the port to register with nsqlookupds; likewise ``broadcast_http_port``
    :ivar started_at: the start in Unix seconds
    """

    broadcast_address: str
    tcp_port: int
    http_port: int
    broadcast_tcp_port: int
    broadcast_http_port: int
    started_at: float
    hostname: str = field(default_factory=socket.gethostname)

    def registration(self) -> dict[str, object]:
        """Return the description that nsqd sends to nsqlookupd."""
        return {
            "version": NSQ_VERSION,
            "hostname": self.hostname,
            "broadcast_address": self.broadcast_address,
            "tcp_port": self.broadcast_tcp_port,
            "http_port": self.broadcast_http_port,
        }
