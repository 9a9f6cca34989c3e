"""The actions on topics, channels and nodes, each with its plan."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...errors import HTTPError
    from ...http import ChannelStats, Cluster, ClusterReply, Node, TopicStats


@dataclass(frozen=True, slots=True)
class Plan:
    """The expected effect of an action.

    :ivar nsqds: the URLs of the nsqds, each with the number of messages that will be discarded there
    :ivar failures: the errors of servers that could not be asked
    """

    nsqds: Mapping[str, int]
    failures: tuple[HTTPError, ...] = ()

    @property
    def messages(self) -> int:
        """The number of messages that will be discarded on all nsqds."""
        return sum(self.nsqds.values())


@dataclass(frozen=True, slots=True)
class Action:
    """An action on a topic, on a channel, or on a topic of one node.

    :ivar verb: the action's verb, also the name of its command
    :ivar done: the past tense of the verb
    :ivar help: the help of its command
    :ivar call: performs the action, given the cluster and the names
    :ivar plan: finds the nsqds that the action will affect, given the cluster and each name; None if these
        are the nsqds on the command line
    :ivar is_destructive: whether the action discards messages
    :ivar includes_nsqlookupds: whether the action is sent to the nsqlookupds as well
    """

    verb: str
    done: str
    help: str
    call: Callable[[Cluster, Sequence[str]], Awaitable[ClusterReply[tuple[str, ...]]]]
    plan: Callable[..., Awaitable[Plan]] | None
    is_destructive: bool = False
    includes_nsqlookupds: bool = False


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


async def _tombstone(cluster: Cluster, names: Sequence[str]) -> ClusterReply[tuple[str, ...]]:
    topic, name = names
    return await cluster.tombstone_topic(topic, await _find(cluster, name))


async def _find(cluster: Cluster, name: str) -> Node:
    """Return the node with this name, host name or URL.

    :raises InvalidOption: if there is not exactly one such node
    """
    from ...errors import InvalidOption

    nodes = (await cluster.nodes()).value
    # nsqlookupd writes an IPv6 address without brackets.
    found = [
        node
        for node in nodes
        if name in {node.name, node.name.replace("[", "").replace("]", ""), node.url, node.hostname}
    ]
    if len(found) != 1:
        names = ", ".join(node.name for node in found or nodes) or "none"
        count = "several nodes are" if found else "no node is"
        raise InvalidOption(f"{count} named {name!r}: use one of {names}")
    return found[0]


def _topic_messages(topic: TopicStats) -> int:
    return topic.depth + sum(map(_channel_messages, topic.channels))


def _channel_messages(channel: ChannelStats) -> int:
    """Count waiting, in-flight and deferred messages: all are discarded."""
    return channel.depth + channel.in_flight_count + channel.deferred_count


TOPIC_ACTIONS = (
    Action(
        "create",
        "created",
        "Register a topic with all nsqlookupds, and create it on the nsqds given.",
        lambda cluster, names: cluster.create_topic(*names),
        None,
        includes_nsqlookupds=True,
    ),
    Action(
        "delete",
        "deleted",
        "Delete a topic, with its channels and messages, from all nsqlookupds and nsqds.",
        lambda cluster, names: cluster.delete_topic(*names),
        _in_topic,
        is_destructive=True,
        includes_nsqlookupds=True,
    ),
    Action(
        "empty",
        "emptied",
        "Discard the messages of a topic that no channel has received yet.",
        lambda cluster, names: cluster.empty_topic(*names),
        _waiting_in_topic,
        is_destructive=True,
    ),
    Action(
        "pause",
        "paused",
        "Stop the flow of messages from a topic to its channels.",
        lambda cluster, names: cluster.pause_topic(*names),
        _producers,
    ),
    Action(
        "unpause",
        "unpaused",
        "Let the messages of a paused topic flow again.",
        lambda cluster, names: cluster.unpause_topic(*names),
        _producers,
    ),
)

CHANNEL_ACTIONS = (
    Action(
        "create",
        "created",
        "Register a channel with all nsqlookupds, and create it on all nsqds that have the topic.",
        lambda cluster, names: cluster.create_channel(*names),
        _producers,
        includes_nsqlookupds=True,
    ),
    Action(
        "delete",
        "deleted",
        "Delete a channel, with its messages, from all nsqlookupds and nsqds.",
        lambda cluster, names: cluster.delete_channel(*names),
        _in_channel,
        is_destructive=True,
        includes_nsqlookupds=True,
    ),
    Action(
        "empty",
        "emptied",
        "Discard the messages of a channel, including those in flight and deferred.",
        lambda cluster, names: cluster.empty_channel(*names),
        _in_channel,
        is_destructive=True,
    ),
    Action(
        "pause",
        "paused",
        "Stop the flow of messages from a channel to its clients.",
        lambda cluster, names: cluster.pause_channel(*names),
        _producers,
    ),
    Action(
        "unpause",
        "unpaused",
        "Let the messages of a paused channel flow again.",
        lambda cluster, names: cluster.unpause_channel(*names),
        _producers,
    ),
)

TOMBSTONE = Action(
    "tombstone",
    "tombstoned",
    "Tombstone a node for a topic at all nsqlookupds, and delete the topic with its messages on the node.",
    _tombstone,
    _on_node,
    is_destructive=True,
    includes_nsqlookupds=True,
)
