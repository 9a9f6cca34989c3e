"""The channel at each nsqd: whether it is there and delivers, and how it is created."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from ..errors import HTTPStatusError, InvalidOption
from ..http import Lookup, Nsqd, Nsqlookupd
from ..http.stats import ChannelStats, TopicStats
from .options import ReadOptions
from .plan import Depth

_TOPIC_NOT_FOUND = "TOPIC_NOT_FOUND"

_IS_NEW = "channel %s of topic %s is new at %s: it gets no message that other channels have got before"

_log = logging.getLogger("nsq_anyio.spark")


class ChannelWatch:
    """Tells of a channel that is paused or missing: once when it begins, and once when it ends."""

    def __init__(self, options: ReadOptions) -> None:
        self._topic = options.topic
        self._channel = options.channel
        self._told: dict[str, str] = {}

    def check(self, depths: Sequence[Depth]) -> None:
        """Warn of the nsqds that deliver nothing because of the channel's state.

        :raises InvalidOption: if no nsqd has the channel, and ``createChannel=false``
        """
        if depths and all(depth.is_missing for depth in depths):
            raise InvalidOption(
                f"no nsqd has the channel {self._channel} of topic {self._topic}, and createChannel=false: "
                "create it before messages are published, or leave createChannel out"
            )
        now = {depth.nsqd: text for depth in depths if (text := self._text(depth))}
        for nsqd, text in now.items():
            if self._told.get(nsqd) != text:
                _log.warning("nsqd %s: %s", nsqd, text)
        for nsqd in self._told.keys() - now.keys():
            _log.warning("nsqd %s: topic %s and channel %s deliver again", nsqd, self._topic, self._channel)
        self._told = now

    def _text(self, depth: Depth) -> str:
        if depth.is_missing:
            return f"it has topic {self._topic}, but not channel {self._channel}, and createChannel=false"
        if depth.paused:
            name = self._topic if depth.paused == "topic" else f"{self._channel} of topic {self._topic}"
            return f"{depth.paused} {name} is paused, so its messages wait until somebody unpauses it"
        return ""


async def depth_at(address: str, nsqd: Nsqd, options: ReadOptions) -> Depth:
    """Return the depth of the channel at one nsqd, and create the channel if it is missing and wanted.

    It is one request, unless the channel is missing.
    """
    topic, channel = options.topic, options.channel
    ask = partial(nsqd.stats, topic=topic, include_clients=False, include_mem=False)
    # Only this channel, because a topic may have hundreds. Then a topic without it is left out as well.
    topics = (await ask(channel=channel)).topics or (await ask()).topics
    of_topic = next((row for row in topics if row.topic_name == topic), None)
    creates = options.create_channel != "false"
    if of_topic is None:
        if not options.nsqds:
            return Depth(address, 0)  # it was deleted there, and nsqlookupd does not know yet
        if creates:
            await create_at(nsqd, options)
            _log.warning(_IS_NEW, channel, topic, f"nsqd {address}")
        return Depth(address, 0, is_missing=not creates)
    found = next((row for row in of_topic.channels if row.channel_name == channel), None)
    if found is None and creates:
        await nsqd.create_channel(topic, channel)
        _log.warning(_IS_NEW, channel, topic, f"nsqd {address}")
    return _depth(address, of_topic, found, is_missing=found is None and not creates)


def _depth(address: str, topic: TopicStats, channel: ChannelStats | None, *, is_missing: bool) -> Depth:
    # A paused topic fills no channel. Its own messages are copied to a channel that was just created.
    paused = "topic" if topic.paused else ""
    waiting, held = (0 if topic.paused or is_missing else topic.depth), 0
    if channel is not None:
        paused = "channel" if channel.paused else paused
        waiting = 0 if channel.paused else channel.depth
        held = channel.in_flight_count + channel.deferred_count
    return Depth(
        address,
        waiting,
        topic.message_bytes / topic.message_count if topic.message_count else None,
        paused=paused,
        held=held,
        published=topic.message_count,
        is_missing=is_missing,
    )


async def create_at(nsqd: Nsqd, options: ReadOptions) -> None:
    """Create the topic and the channel, unless they exist."""
    await nsqd.create_topic(options.topic)
    await nsqd.create_channel(options.topic, options.channel)


async def look_up(nsqlookupd: Nsqlookupd, options: ReadOptions) -> Lookup:
    """Ask which nsqds have the topic; unless ``createChannel=false``, make the channel known there."""
    topic, channel = options.topic, options.channel
    try:
        lookup = await nsqlookupd.lookup(topic)
    except HTTPStatusError as error:
        if error.code != _TOPIC_NOT_FOUND:
            raise
        lookup = Lookup(channels=(), producers=())
    if channel not in lookup.channels and options.create_channel != "false":
        # An nsqd that gets the topic later asks for its channels, and creates them before the first message.
        await nsqlookupd.create_channel(topic, channel)
        _log.warning(_IS_NEW, channel, topic, f"nsqlookupd {nsqlookupd.url}")
    return lookup
