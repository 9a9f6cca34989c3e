"""What can be done to topics, channels and nodes, and what that would touch."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from ...errors import HTTPError
    from ...http import ChannelStats, Cluster, ClusterReply, Node, TopicStats

__all__ = ["CHANNEL_ACTIONS", "TOMBSTONE", "TOPIC_ACTIONS", "Action", "Call", "Plan", "cluster_method"]

Call: TypeAlias = "Callable[..., Awaitable[ClusterReply[tuple[str, ...]]]]"
"""Asks a cluster, which is its first argument, or does something to it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What an action will touch.

    :ivar nsqds: their URLs, with the messages that will be thrown away there
    :ivar failures: of servers that could not be asked
    """

    nsqds: Mapping[str, int] = field(default_factory=dict[str, int])
    failures: tuple[HTTPError, ...] = ()

    @property
    def messages(self) -> int:
        """Those that will be thrown away on all."""
        return sum(self.nsqds.values())


@dataclass(frozen=True, slots=True)
class Action:
    """What can be done to a topic, to a channel of one, or to a topic on a node.

    :ivar verb: also the name of its command
    :ivar done: its past tense
    :ivar help: of its command
    :ivar call: does it, given the cluster and the names
    :ivar plan: what that will touch, given the same; None for the nsqds that are named
    :ivar is_destructive: whether it throws messages away
    :ivar tells_nsqlookupds: whether these are asked to do it as well
    """

    verb: str
    done: str
    help: str
    call: Call
    plan: Callable[..., Awaitable[Plan]] | None
    is_destructive: bool = False
    tells_nsqlookupds: bool = False


async def _producers(cluster: Cluster, topic: str, _channel: str = "") -> Plan:
    producers = await cluster.producers(topic)
    return Plan({node.url: 0 for node in producers.value}, producers.failures)


async def _in_topic(cluster: Cluster, topic: str) -> Plan:
    reply = await cluster.topic_stats(topic)
    return Plan({url: _topic_messages(row) for url, row in reply.value.nodes.items()}, reply.failures)


async def _waiting_in_topic(cluster: Cluster, topic: str) -> Plan:
    reply = await cluster.topic_stats(topic)
    return Plan({url: row.depth for url, row in reply.value.nodes.items()}, reply.failures)


async def _in_channel(cluster: Cluster, topic: str, channel: str) -> Plan:
    reply = await cluster.channel_stats(topic, channel, include_clients=False)
    return Plan({url: _channel_messages(row) for url, row in reply.value.nodes.items()}, reply.failures)


async def _on_node(cluster: Cluster, topic: str, name: str) -> Plan:
    node = await _find(cluster, name)
    reply = await cluster.topic_stats(topic)
    row = reply.value.nodes.get(node.url)
    return Plan({node.url: _topic_messages(row) if row else 0}, reply.failures)


async def _tombstone(cluster: Cluster, topic: str, name: str) -> ClusterReply[tuple[str, ...]]:
    return await cluster.tombstone_topic(topic, await _find(cluster, name))


async def _find(cluster: Cluster, name: str) -> Node:
    """The node of that name, host name or URL.

    :raises InvalidOption: if there is not exactly one
    """
    from ...errors import InvalidOption

    nodes = (await cluster.nodes()).value
    found = [node for node in nodes if name in {node.name, node.url, node.hostname}]
    if len(found) != 1:
        names = ", ".join(node.name for node in found or nodes) or "none"
        count = "several nodes are" if found else "no node is"
        raise InvalidOption(f"{count} named {name!r}: use one of {names}")
    return found[0]


def _topic_messages(topic: TopicStats) -> int:
    return topic.depth + sum(map(_channel_messages, topic.channels))


def _channel_messages(channel: ChannelStats) -> int:
    """Those in flight and deferred too: they go with the others."""
    return channel.depth + channel.in_flight_count + channel.deferred_count


def cluster_method(name: str) -> Call:
    """The method of `nsq_anyio.http.Cluster` of that name, which is imported when it is used."""

    def call(cluster: Cluster, *arguments: str) -> Awaitable[ClusterReply[tuple[str, ...]]]:
        method: Call = getattr(cluster, name)
        return method(*arguments)

    return call


TOPIC_ACTIONS = (
    Action(
        "create",
        "created",
        "Make a topic known to all nsqlookupds, and create it on the nsqds that are named.",
        cluster_method("create_topic"),
        None,
        tells_nsqlookupds=True,
    ),
    Action(
        "delete",
        "deleted",
        "Delete a topic with its channels and messages, from all nsqlookupds and nsqds.",
        cluster_method("delete_topic"),
        _in_topic,
        is_destructive=True,
        tells_nsqlookupds=True,
    ),
    Action(
        "empty",
        "emptied",
        "Throw away the messages of a topic that no channel has taken yet.",
        cluster_method("empty_topic"),
        _waiting_in_topic,
        is_destructive=True,
    ),
    Action(
        "pause",
        "paused",
        "Stop the flow of messages from a topic to its channels.",
        cluster_method("pause_topic"),
        _producers,
    ),
    Action(
        "unpause",
        "unpaused",
        "Let the messages of a paused topic flow again.",
        cluster_method("unpause_topic"),
        _producers,
    ),
)

CHANNEL_ACTIONS = (
    Action(
        "create",
        "created",
        "Make a channel known to all nsqlookupds, and create it on all nsqds that have the topic.",
        cluster_method("create_channel"),
        _producers,
        tells_nsqlookupds=True,
    ),
    Action(
        "delete",
        "deleted",
        "Delete a channel with its messages, from all nsqlookupds and nsqds.",
        cluster_method("delete_channel"),
        _in_channel,
        is_destructive=True,
        tells_nsqlookupds=True,
    ),
    Action(
        "empty",
        "emptied",
        "Throw away the messages of a channel, those in flight and deferred too.",
        cluster_method("empty_channel"),
        _in_channel,
        is_destructive=True,
    ),
    Action(
        "pause",
        "paused",
        "Stop the flow of messages from a channel to its clients.",
        cluster_method("pause_channel"),
        _producers,
    ),
    Action(
        "unpause",
        "unpaused",
        "Let the messages of a paused channel flow again.",
        cluster_method("unpause_channel"),
        _producers,
    ),
)

TOMBSTONE = Action(
    "tombstone",
    "tombstoned",
    "Hide a node from all nsqlookupds for a topic, and delete the topic with its messages there.",
    _tombstone,
    _on_node,
    is_destructive=True,
    tells_nsqlookupds=True,
)
