"""Consumers as tables show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...http import ClientStats


@dataclass(frozen=True, slots=True)
class Client:
    """A consumer that is connected to one nsqd.

    :ivar nsqd: the name of the nsqd
    """

    stats: ClientStats
    nsqd: str

    @property
    def title(self) -> str:
        """What it calls itself: its host name, or else its id or address."""
        return self.stats.hostname or self.stats.client_id or self.stats.remote_address

    def text(self) -> str:
        """Return what a search for it finds."""
        stats = self.stats
        words = stats.hostname, stats.client_id, stats.remote_address, stats.user_agent, stats.auth_identity
        return " ".join((*words, self.nsqd))


@dataclass(frozen=True, slots=True)
class Clients:
    """The consumers of a channel.

    :ivar unheard: the names of the nsqds that did not tell theirs
    """

    clients: Sequence[Client]
    unheard: Sequence[str]
