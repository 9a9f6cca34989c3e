"""The actions, with their lines in the log and their notifications."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeGuard, get_args

from ..http import Nsqd
from ..http.reply import printable
from ..serving.http_messages import Request
from .access import Access
from .api.cluster_info import ClusterInfo
from .notifications import Notifications

Action = Literal["create", "delete", "empty", "pause", "unpause", "tombstone"]

_ACTIONS = frozenset(get_args(Action))


def is_action(text: str) -> TypeGuard[Action]:
    """Return whether ``text`` names an action."""
    return text in _ACTIONS


@dataclass(frozen=True, slots=True)
class Order:
    """An action, and what it is for. The names are valid.

    :ivar action: what to do
    :ivar topic: the topic
    :ivar channel: its channel; empty for the topic itself
    :ivar node: the name of the nsqd on which to tombstone the topic; otherwise empty
    """

    action: Action
    topic: str
    channel: str = ""
    node: str = ""

    @property
    def name(self) -> str:
        """The name of the channel, or else of the topic."""
        return self.channel or self.topic

    @property
    def deletes(self) -> bool:
        """Whether a topic or channel is gone afterwards, and its consumers are disconnected."""
        return self.action in ("delete", "tombstone")

    @property
    def discards(self) -> bool:
        """Whether messages are gone afterwards."""
        return self.deletes or self.action == "empty"


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
    """Acts on the servers, for the API and for the pages alike.

    :param acted: called after each action
    """

    def __init__(
        self, access: Access, notifications: Notifications, acted: Callable[[], object] = lambda: None
    ) -> None:
        self._access = access
        self._notifications = notifications
        self._acted = acted

    async def perform(self, cluster: ClusterInfo, request: Request, order: Order) -> None:
        """Do what ``order`` says. What failed is added to ``cluster.warnings`` and ``cluster.outcomes``.

        The caller has checked that ``request`` may act.

        :raises UpstreamError: if nobody can tell which nsqds have the topic
        :raises UnknownNode: if nobody names an nsqd ``order.node``
        """
        if order.action == "create":
            await self._create(cluster, request, order.topic, order.channel)
        elif order.action == "tombstone":
            await self._tombstone(cluster, request, order.topic, order.node)
        elif order.action == "delete":
            await self._delete(cluster, request, order.topic, order.channel)
        else:
            await self._change(cluster, request, order.action, order.topic, order.channel)
        cluster.log_warnings()

    async def _create(self, cluster: ClusterInfo, request: Request, topic: str, channel: str) -> None:
        await cluster.create(topic, channel)
        self.record("create_topic", topic, "", "", request)
        if channel:
            self.record("create_channel", topic, channel, "", request)

    async def _change(
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
            self.record(f"{action}_{kind}", topic, channel, "", request)

    async def _delete(self, cluster: ClusterInfo, request: Request, topic: str, channel: str) -> None:
        """Delete a channel, or the topic if ``channel`` is empty, from nsqlookupds first."""
        nsqds = await cluster.nsqds_of(topic)  # which nsqlookupds are about to forget
        if channel:
            await cluster.tell_nsqlookupds(lambda nsqlookupd: nsqlookupd.delete_channel(topic, channel))
            await cluster.tell(nsqds, lambda nsqd: nsqd.delete_channel(topic, channel))
            self.record("delete_channel", topic, channel, "", request)
        else:
            await cluster.tell_nsqlookupds(lambda nsqlookupd: nsqlookupd.delete_topic(topic))
            await cluster.tell(nsqds, lambda nsqd: nsqd.delete_topic(topic))
            self.record("delete_topic", topic, "", "", request)

    async def _tombstone(self, cluster: ClusterInfo, request: Request, topic: str, node: str) -> None:
        """Hide an nsqd from the lookups of a topic, then delete the topic there."""
        nsqd = await cluster.nsqd_named(node)  # nsqadmin asks whatever host the path names
        name = nsqd.producer.node  # as nsqlookupd compares it
        await cluster.tell_nsqlookupds(lambda nsqlookupd: nsqlookupd.tombstone_topic(topic, name))
        await cluster.tell([nsqd], lambda each: each.delete_topic(topic))
        self.record("tombstone_topic_producer", topic, "", nsqd.name, request)

    def record(self, action: str, topic: str, channel: str, node: str, request: Request) -> None:
        """Log an action, notify of it, and poll soon. ``channel`` and ``node`` may be empty."""
        named = (("channel", channel), ("node", printable(node)))
        subject = "".join(f" {kind} {name}" for kind, name in named if name)
        _log.info(
            "%s: topic %s%s, by %s from %s",
            action,
            topic,
            subject,
            printable(self._access.user(request)) or "an unnamed user",
            request.remote or "an unknown address",
        )
        self._notifications.note(action, topic, channel, node, request)
        self._acted()
