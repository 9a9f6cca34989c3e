"""Commands to a cluster, with their log lines and notifications."""

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
class Command:
    """An action on a topic or a channel. The names are valid.

    :ivar action: the action's name
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
        """The channel's name, or the topic's if there is no channel."""
        return self.channel or self.topic

    @property
    def deletes(self) -> bool:
        """Whether the action deletes a topic or channel, which disconnects its consumers."""
        return self.action in ("delete", "tombstone")

    @property
    def discards(self) -> bool:
        """Whether the action deletes messages."""
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
    """Performs commands, for the API and the pages.

    :param acted: called after each action
    """

    def __init__(
        self, access: Access, notifications: Notifications, acted: Callable[[], object] = lambda: None
    ) -> None:
        self._access = access
        self._notifications = notifications
        self._acted = acted

    async def perform(self, cluster: ClusterInfo, request: Request, command: Command) -> None:
        """Perform a command. Failures are added to ``cluster.warnings`` and ``cluster.results``.

        The caller has checked that ``request`` may act.

        :raises UpstreamError: if no server says which nsqds have the topic or, for a tombstone, which nsqds
            there are
        :raises UnknownNode: if no server knows an nsqd ``command.node``
        """
        if command.action == "create":
            await self._create(cluster, request, command.topic, command.channel)
        elif command.action == "tombstone":
            await self._tombstone(cluster, request, command.topic, command.node)
        elif command.action == "delete":
            await self._delete(cluster, request, command.topic, command.channel)
        else:
            await self._change(cluster, request, command.action, command.topic, command.channel)
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
            nsqds = await cluster.nsqds_of(topic, channel)
            if channel:
                await cluster.tell(nsqds, lambda nsqd: _ON_CHANNELS[action](nsqd, topic, channel))
            else:
                await cluster.tell(nsqds, lambda nsqd: _ON_TOPICS[action](nsqd, topic))
        finally:
            # Recorded even after a failure, as nsqadmin does: some servers may have done it.
            kind = "channel" if channel else "topic"
            self.record(f"{action}_{kind}", topic, channel, "", request)

    async def _delete(self, cluster: ClusterInfo, request: Request, topic: str, channel: str) -> None:
        """Delete a channel, or the topic if ``channel`` is empty, from nsqlookupds first."""
        nsqds = await cluster.nsqds_of(topic, channel)  # before nsqlookupds forget them
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
        nsqd = await cluster.nsqd_named(node)  # nsqadmin would ask any host that the path names
        name = nsqd.producer.node  # the form that nsqlookupd compares
        await cluster.tell_nsqlookupds(lambda nsqlookupd: nsqlookupd.tombstone_topic(topic, name))
        await cluster.tell([nsqd], lambda each: each.delete_topic(topic))
        self.record("tombstone_topic_producer", topic, "", nsqd.name, request)

    def record(self, action: str, topic: str, channel: str, node: str, request: Request) -> None:
        """Log an action, queue its notification, and poll soon. ``channel`` and ``node`` may be empty."""
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
