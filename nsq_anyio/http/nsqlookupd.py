"""The HTTP API of nsqlookupd."""

from __future__ import annotations

from ..errors import InvalidOption
from .client import Client, channel_parameters, topic_parameters
from .models import Lookup, NsqlookupdInfo, Producer, Registration, read_producers, read_registrations
from .reply import Fields


class Nsqlookupd(Client):
    """The HTTP API of one nsqlookupd, by default on port 4161.

    ::

        async with nsq.http.Nsqlookupd("http://127.0.0.1:4161") as nsqlookupd:
            reply = await nsqlookupd.lookup("clicks")

    The parameters and the errors of every request are those of `Client`. A URL may end in ``/lookup``, as
    other clients require.
    """

    _PPROF_INDEX = "/debug/pprof"
    _DROPPED_SUFFIX = "/lookup"

    async def info(self) -> NsqlookupdInfo:
        """Ask for the version."""
        return await self._get("/info", NsqlookupdInfo.read)

    async def lookup(self, topic: str) -> Lookup:
        """Ask for the nsqds that have a topic, and for its channels.

        :raises InvalidName: for a name that NSQ would refuse
        :raises HTTPStatusError: ``TOPIC_NOT_FOUND``: nothing was published to the topic yet, or not lately
        """
        return await self._get("/lookup", Lookup.read, topic_parameters(topic))

    async def topics(self) -> tuple[str, ...]:
        """Ask for all topics, including those without an nsqd."""
        return await self._get("/topics", lambda value: _names(value, "topics"))

    async def channels(self, topic: str) -> tuple[str, ...]:
        """Ask for the channels of a topic; an unknown topic has none.

        :raises InvalidName: for a name that NSQ would refuse
        """
        parameters = topic_parameters(topic)
        return await self._get("/channels", lambda value: _names(value, "channels"), parameters)

    async def nodes(self) -> tuple[Producer, ...]:
        """Ask for all active nsqds, with their topics and tombstones."""
        return await self._get("/nodes", lambda value: read_producers(Fields(value, "nodes")))

    async def debug(self) -> dict[str, tuple[Registration, ...]]:
        """Ask for the whole database, by ``category:key:subkey``; a category is client, topic or channel."""
        return await self._get("/debug", read_registrations)

    async def create_topic(self, topic: str) -> None:
        """Register a topic before an nsqd has it.

        :raises InvalidName: for a name that NSQ would refuse
        """
        await self._post("/topic/create", topic_parameters(topic))

    async def delete_topic(self, topic: str) -> None:
        """Forget a topic and its channels; an nsqd that still has them keeps them, unregistered.

        :raises InvalidName: for a name that NSQ would refuse
        """
        await self._post("/topic/delete", topic_parameters(topic))

    async def create_channel(self, topic: str, channel: str) -> None:
        """Register a channel. Every nsqd that creates the topic later creates the channel with it.

        :raises InvalidName: for a name that NSQ would refuse
        """
        await self._post("/channel/create", channel_parameters(topic, channel))

    async def delete_channel(self, topic: str, channel: str) -> None:
        """Forget a channel; an nsqd that still has it keeps it, unregistered.

        :raises InvalidName: for a name that NSQ would refuse
        :raises HTTPStatusError: ``CHANNEL_NOT_FOUND``
        """
        await self._post("/channel/delete", channel_parameters(topic, channel))

    async def tombstone_topic(self, topic: str, node: str) -> None:
        """Hide one nsqd from the `lookup` of a topic, for 45 s by default, so that it can be deleted there.

        :param node: its ``broadcast_address:http_port``, as in `Producer.node`; an unknown one is ignored
        :raises InvalidName: for a name that NSQ would refuse
        :raises InvalidOption: if ``node`` does not have that form
        """
        host, colon, port = node.rpartition(":") if isinstance(node, str) else ("", "", "")
        if not host or not colon or not (port.isascii() and port.isdigit()):
            raise InvalidOption(f"node={node!r} is not valid: use 'broadcast_address:http_port'")
        await self._post("/topic/tombstone", {**topic_parameters(topic), "node": node})


def _names(value: object, name: str) -> tuple[str, ...]:
    reply = Fields(value, "reply")
    reply.require(name)
    return reply.values(name, "")
