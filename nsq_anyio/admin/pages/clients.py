"""The consumers of a channel. Polls leave them out; they are asked for when somebody looks at the channel."""

from __future__ import annotations

import anyio

from ...http import Nsqd
from ...names import is_valid_name
from .client_rows import Client, Clients
from .digest import Digest
from .visit import Visit

_PATIENCE = 4.0
"""The seconds that nsqds have to answer; a page does not wait longer for them."""


async def clients_of(visit: Visit, topic: str, channel: str) -> Clients:
    """Ask the nsqds that have a channel for its consumers, once for each view."""

    async def ask() -> Clients:
        return await _ask(visit, await visit.digest(), topic, channel)

    return await visit.site.clients.get(visit.view.number, (topic, channel), ask)


async def _ask(visit: Visit, digest: Digest, topic: str, channel: str) -> Clients:
    names = {row.node.url: row.name for row in digest.nodes}
    holders = [
        url
        for url, row in digest.totals[topic].nodes.items()
        if any(each.channel_name == channel for each in row.channels)
    ]
    found: dict[str, list[Client]] = {}

    async def ask(nsqd: Nsqd) -> None:
        stats = await nsqd.stats(topic=topic, channel=channel, include_clients=True, include_mem=False)
        found[nsqd.url] = [
            Client(client, names[nsqd.url])
            for row in stats.topics
            for each in row.channels
            if (row.topic_name, each.channel_name) == (topic, channel)
            for client in each.clients
        ]

    # What an nsqd calls a name need not be one.
    if is_valid_name(topic) and is_valid_name(channel):
        with anyio.move_on_after(_PATIENCE):
            async with visit.site.upstream.used() as servers:
                await servers.ask_nsqds(holders, ask)
    clients = [client for url in holders for client in found.get(url, ())]
    return Clients(clients, [names[url] for url in holders if url not in found])
