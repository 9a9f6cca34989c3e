"""The connection pool of a producer that discovers its nsqds through nsqlookupds.

Only producers with nsqlookupds import this module, because it needs the HTTP client.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import anyio
from anyio.abc import TaskGroup

from ..address import Address, NsqdAddress
from ..discovery import Discovery
from ..discovery.discovery import LookupOptions
from ..events import Emitter, NoNsqdKnown
from ..http import Nsqlookupd
from ..http.models import Producer
from ..options import AuthSecret, ConnectionOptions, ProducerOptions
from ..policy.lookup_answers import Tombstones
from .pool import Pool, ProducerConnection


class DiscoveredPool(Pool):
    """A pool that also connects to the nsqds that nsqlookupds list.

    An nsqd that no nsqlookupd lists any more gets no new publishes. Its connection is closed once it has
    answered, or after ``drain_timeout``. This happens only while another wanted nsqd is connected: an
    nsqlookupd that has just started lists none or few nsqds until they have registered again.

    :param nsqds: nsqds that stay, whatever the nsqlookupds list
    :param nsqlookupds: the URLs of the nsqlookupds
    """

    def __init__(
        self,
        nsqds: Sequence[NsqdAddress],
        nsqlookupds: Sequence[str],
        *,
        options: ProducerOptions,
        connection_options: ConnectionOptions,
        emit: Emitter,
        fail: Callable[[Exception], None],
        changed: Callable[[], None],
        may_send: Callable[[], None],
    ) -> None:
        super().__init__(
            nsqds,
            options=options,
            connection_options=connection_options,
            emit=emit,
            fail=fail,
            changed=changed,
            may_send=may_send,
        )
        self._static = frozenset(nsqds)
        self._discovery = NodeDiscovery(
            nsqlookupds, options=options, emit=emit, auth_secret=connection_options.auth_secret
        )
        self._tombstones = self._discovery.tombstones
        self._tasks: TaskGroup
        self._is_closing = False

    @property
    def knows_none(self) -> bool:
        """Whether no nsqlookupd has listed an nsqd yet."""
        return not self.connections

    def start(self, tasks: TaskGroup) -> None:
        """Start a task for each connection, and the discovery of nsqds."""
        self._tasks = tasks
        super().start(tasks)
        tasks.start_soon(self._discovery.run, self._join, self._leave, lambda: bool(self.open))

    async def close(self) -> None:
        self._is_closing = True
        await super().close()

    def pick(
        self, topic: str, messages: int, size: int, now: float, refused_by: Sequence[ProducerConnection]
    ) -> ProducerConnection | None:
        """Choose a connection; avoid nsqds on which ``topic`` is tombstoned while another is connected."""
        if self._tombstones:
            avoided = [each for each in self.open if self._tombstones.avoids(each.address, topic)]
            if any(each not in avoided and each not in refused_by for each in self.open):
                refused_by = (*refused_by, *avoided)
        return super().pick(topic, messages, size, now, refused_by)

    def lost(self) -> None:
        """Poll soon: the nsqlookupds may know that the nsqd is gone, or list another."""
        self._discovery.poll_soon()

    def why_not_open(self) -> str:
        return self._discovery.why_nothing() if self.knows_none else super().why_not_open()

    def _join(self) -> None:
        """Connect to nsqds that are newly listed."""
        known = {each.address for each in self.connections}
        missing = (
            []
            if self._is_closing
            else [address for address in self._discovery.directory.wanted() if address not in known]
        )
        if not missing:
            return
        if self.knows_none:
            self.lost_at: float = anyio.current_time()  # `connect_timeout` begins now, for these nsqds
        for address in missing:
            connection = ProducerConnection(address, self, is_discovered=True)
            self.connections.append(connection)
            self._tasks.start_soon(connection.run)
        self.changed()

    def _leave(self) -> None:
        """Stop using nsqds that are no longer listed."""
        wanted = self._static | set(self._discovery.directory.wanted())
        if self._is_closing or not any(each.address in wanted for each in self.open):
            return
        left = [each for each in self.connections if each.address not in wanted]
        if left:
            self.connections: list[ProducerConnection] = [
                each for each in self.connections if each.address in wanted
            ]
            self.leaving.extend(left)
            self.changed()
        for connection in left:
            self._tasks.start_soon(self._drain, connection)

    async def _drain(self, connection: ProducerConnection) -> None:
        try:
            with anyio.move_on_after(self.options.drain_timeout):
                await connection.leave()
        finally:
            connection.closed.set()
            self.leaving.remove(connection)
            before = self.published_before
            before[connection.nsqd] = before.get(connection.nsqd, 0) + connection.published
            self.forget(connection)
            self.changed()


class NodeDiscovery(Discovery):
    """The discovery of all nsqds that nsqlookupds list; their API calls them nodes.

    :ivar tombstones: the nsqds that a publish to a topic avoids
    """

    def __init__(
        self,
        urls: Sequence[str],
        *,
        options: LookupOptions,
        emit: Emitter,
        auth_secret: AuthSecret | None = None,
    ) -> None:
        super().__init__(urls, options=options, emit=emit, auth_secret=auth_secret)
        self.tombstones: Tombstones[NsqdAddress] = Tombstones()

    async def _ask(self, lookupd: Nsqlookupd) -> Sequence[Producer]:
        return await lookupd.nodes()

    def _note(self, nsqlookupd: str, nsqds: dict[Address, Producer]) -> None:
        # If an nsqlookupd reports fewer tombstones than topics, the other topics are not tombstoned.
        tombstones: dict[NsqdAddress, dict[str, bool]] = {
            address: dict.fromkeys(node.topics, False) | dict(zip(node.topics, node.tombstones, strict=False))
            for address, node in nsqds.items()
        }
        self.tombstones.answered(nsqlookupd, tombstones)

    def _missed(self, retry_in: float, *, was_found: bool) -> NoNsqdKnown:
        return NoNsqdKnown(retry_in, was_found)
