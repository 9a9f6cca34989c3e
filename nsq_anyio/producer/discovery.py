"""Finds the nsqds to publish to: all that the nsqlookupds list."""

from __future__ import annotations

from collections.abc import Sequence

from ..address import Address, NsqdAddress
from ..discovery import Discovery
from ..discovery.clients import LookupOptions
from ..events import Emitter, NoNsqdKnown
from ..http import Nsqlookupd
from ..http.models import Producer
from ..options import AuthSecret
from ..policy.tombstones import Tombstones


class NodeDiscovery(Discovery):
    """Polls nsqlookupds for their nsqds, which they call nodes; see `Discovery`.

    :ivar tombstones: which nsqds a publish avoids
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
