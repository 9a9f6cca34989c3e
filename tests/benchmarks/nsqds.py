"""The real nsqds that are measured with: filled beforehand, and asked afterwards whether all is in order."""

from __future__ import annotations

import http.client
import json
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trustme
from anyio.from_thread import start_blocking_portal

from ..real_servers import RealServer, real_nsqd
from .payloads import mpub_body
from .surroundings import pinned_to

MEMORY_QUEUE = 2_000_000
"""Messages that an nsqd keeps in memory; more would need gigabytes, and go to its disk queue."""
MAX_RDY_COUNT = 10_000
"""How many messages an nsqd lets a connection have in flight; by default 2,500."""
_FILL_BYTES = 1024 * 1024
"""Of one /mpub, below nsqd's --max-body-size. Longer than what compression looks back."""
_PATIENCE = 120.0


class Miscounted(Exception):
    """Messages did not come, or were not published, exactly once."""


@dataclass(frozen=True, slots=True)
class Nsqds:
    """Running nsqds.

    :ivar ca_file: the authority of their certificates; empty when they have none
    """

    servers: Sequence[RealServer]
    ca_file: str = ""

    @property
    def addresses(self) -> list[str]:
        return [server.tcp_address for server in self.servers]

    def create(self, topic: str, channel: str) -> None:
        """Make an empty channel, or without its name an empty topic."""
        for server in self.servers:
            _request(server, "POST", f"/topic/create?topic={topic}")
            if channel:
                _request(server, "POST", f"/channel/create?topic={topic}&channel={channel}")

    def fill(self, topic: str, channel: str, messages: int, size: int) -> None:
        """Publish evenly over the nsqds, and wait until the channel has everything."""
        per_server, left = divmod(messages, len(self.servers))
        if left:
            raise ValueError(f"{messages} messages cannot be spread evenly over {len(self.servers)} nsqds")
        per_publish = max(min(_FILL_BYTES // (size + 4), per_server), 1)
        for server in self.servers:
            for first in range(0, per_server, per_publish):
                body = mpub_body(size, min(per_publish, per_server - first))
                _request(server, "POST", f"/mpub?topic={topic}&binary=true", body)
        give_up_at = time.monotonic() + _PATIENCE
        while (found := self._total(topic, channel, "depth")) != messages:
            if time.monotonic() > give_up_at:
                raise Miscounted(f"{found} of {messages} messages got into the channel")
            time.sleep(0.01)

    def check_consumed(self, topic: str, channel: str, taken: int, messages: int, *, answered: bool) -> None:
        """Raise unless each message was delivered once and taken once.

        nsqd delivers a message again only after a timeout or a requeue, and it counts both. So nothing has to
        be remembered of each message while the clock runs.

        :param answered: whether every FIN must have arrived as well; some clients lose the last ones at exit
        :raises Miscounted: naming what is wrong
        """
        expected = {"message_count": messages, "depth": 0, "requeue_count": 0, "timeout_count": 0}
        if answered:
            expected["in_flight_count"] = 0
        found = {name: self._total(topic, channel, name) for name in expected}
        if taken != messages or found != expected:
            raise Miscounted(f"{taken} of {messages} messages were taken; nsqd has {found}")

    def check_published(self, topic: str, messages: int) -> None:
        """Raise unless nsqd has counted so many messages.

        :raises Miscounted: if it counted others
        """
        found = sum(_topic(server, topic)["message_count"] for server in self.servers)
        if found != messages:
            raise Miscounted(f"nsqd has {found} of {messages} published messages")

    def delete(self, topic: str) -> None:
        """Forget the topic and its messages."""
        for server in self.servers:
            _request(server, "POST", f"/topic/delete?topic={topic}")

    def _total(self, topic: str, channel: str, name: str) -> int:
        return sum(
            found[name]
            for server in self.servers
            for found in _topic(server, topic)["channels"]
            if found["channel_name"] == channel
        )


@contextmanager
def running_nsqds(
    count: int = 1,
    *,
    tls: bool = False,
    cores: Sequence[int] = (),
    max_rdy_count: int = MAX_RDY_COUNT,
    memory_queue: int = MEMORY_QUEUE,
) -> Generator[Nsqds]:
    """Run `count` real nsqds for the length of the block, on some cores; none: on any."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        flags = [f"--mem-queue-size={memory_queue}", f"--max-rdy-count={max_rdy_count}"]
        ca_file = ""
        if tls:
            authority = trustme.CA()
            certificate = authority.issue_cert("127.0.0.1")
            certificate.cert_chain_pems[0].write_to_path(str(directory / "cert.pem"))
            certificate.private_key_pem.write_to_path(str(directory / "key.pem"))
            ca_file = str(directory / "ca.pem")
            authority.cert_pem.write_to_path(ca_file)
            flags += [f"--tls-cert={directory / 'cert.pem'}", f"--tls-key={directory / 'key.pem'}"]
        # What the portal's thread starts runs on the same cores as it does.
        with pinned_to(cores):
            portal = stack.enter_context(start_blocking_portal())
        servers = [
            stack.enter_context(portal.wrap_async_context_manager(real_nsqd(flags=flags)))
            for _ in range(count)
        ]
        yield Nsqds(servers, ca_file)


def _topic(server: RealServer, topic: str) -> dict[str, Any]:
    stats = json.loads(_request(server, "GET", f"/stats?format=json&topic={topic}"))
    found: dict[str, Any] = stats["topics"][0]
    return found


def _request(server: RealServer, method: str, path: str, body: bytes = b"") -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=_PATIENCE)
    try:
        connection.request(method, path, body)
        reply = connection.getresponse()
        data = reply.read()
        if reply.status != http.client.OK:
            raise ConnectionError(f"nsqd answered {reply.status} {data!r} to {method} {path}")
        return data
    finally:
        connection.close()
