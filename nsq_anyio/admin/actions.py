"""The actions, with their lines in the log and their notifications."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from ..http import Nsqd
from ..serving.http_messages import Request
from .access import Access
from .cluster_info import ClusterInfo
from .notifications import Notifications
from .producers import KnownNsqd

__all__ = ["Actions"]

_log = logging.getLogger(__name__)

_ON_TOPICS: dict[str, Callable[[Nsqd, str], Awaitable[None]]] = {
    "pause": Nsqd.pause_topic,
    "unpause": Nsqd.unpause_topic,
    "empty": Nsqd.empty_topic,
}
_ON_CHANNELS: dict[str, Callable[[Nsqd, str, str], Awaitable[None]]] = {
    "pause": Nsqd.pause_channel,
    "unpause": Nsqd.unpause_channel,
    "empty": Nsqd.empty_channel,
}


class Actions:
    """Acts on the servers. Each method adds what failed to ``cluster.warnings``.

    Every method raises:

    :raises UpstreamError: if nobody can tell which nsqds have the topic
    """

    def __init__(self, access: Access, notifications: Notifications) -> None:
        self._access = access
        self._notifications = notifications

    async def create(self, cluster: ClusterInfo, request: Request, topic: str, channel: str) -> None:
        """Create a topic, and a channel unless ``channel`` is empty."""
        await cluster.create(topic, channel)
        self._record("create_topic", topic, "", "", request)
        if channel:
            self._record("create_channel", topic, channel, "", request)

    async def perform(
        self, cluster: ClusterInfo, request: Request, action: str, topic: str, channel: str
    ) -> None:
        """Pause, unpause or empty a channel, or the topic if ``channel`` is empty."""
        try:
            nsqds = await cluster.nsqds_of(topic)
            if channel:
                await cluster.tell(nsqds, lambda nsqd: _ON_CHANNELS[action](nsqd, topic, channel))
            else:
                await cluster.tell(nsqds, lambda nsqd: _ON_TOPICS[action](nsqd, topic))
        finally:
            # Like nsqadmin, whether it succeeds or not: some servers may have done it.
            kind = "channel" if channel else "topic"
            self._record(f"{action}_{kind}", topic, channel, "", request)

    async def delete_topic(self, cluster: ClusterInfo, request: Request, topic: str) -> None:
        """Delete a topic, from nsqlookupds first."""
        nsqds = await cluster.nsqds_of(topic)  # which nsqlookupds are about to forget
        await cluster.tell_nsqlookupds(lambda nsqlookupd: nsqlookupd.delete_topic(topic))
        await cluster.tell(nsqds, lambda nsqd: nsqd.delete_topic(topic))
        self._record("delete_topic", topic, "", "", request)

    async def delete_channel(self, cluster: ClusterInfo, request: Request, topic: str, channel: str) -> None:
        """Delete a channel, from nsqlookupds first."""
        nsqds = await cluster.nsqds_of(topic)
        await cluster.tell_nsqlookupds(lambda nsqlookupd: nsqlookupd.delete_channel(topic, channel))
        await cluster.tell(nsqds, lambda nsqd: nsqd.delete_channel(topic, channel))
        self._record("delete_channel", topic, channel, "", request)

    async def tombstone(self, cluster: ClusterInfo, request: Request, topic: str, nsqd: KnownNsqd) -> None:
        """Hide an nsqd from the lookups of a topic, then delete the topic there."""
        name = nsqd.producer.node  # as nsqlookupd compares it
        await cluster.tell_nsqlookupds(lambda nsqlookupd: nsqlookupd.tombstone_topic(topic, name))
        await cluster.tell([nsqd], lambda each: each.delete_topic(topic))
        self._record("tombstone_topic_producer", topic, "", nsqd.name, request)

    def _record(self, action: str, topic: str, channel: str, node: str, request: Request) -> None:
        subject = "".join(f" {kind} {name}" for kind, name in (("channel", channel), ("node", node)) if name)
        _log.info(
            "%s: topic %s%s, by %s from %s",
            action,
            topic,
            subject,
            self._access.user(request) or "an unnamed user",
            request.remote or "an unknown address",
        )
        self._notifications.note(action, topic, channel, node, request)
