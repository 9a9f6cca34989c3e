"""The topics of one nsqd."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from ...names import is_ephemeral
from ..data_path.disk import Disk
from ..data_path.topic_list import StoredTopic, format_topics
from ..identity import NSQ_VERSION
from .channel import Channel
from .nsqd_options import NsqdOptions
from .scheduler import Scheduler
from .topic import MessageIds, Topic

ChangeCallback: TypeAlias = Callable[[str, str | None, bool], None]
"""Called as ``callback(topic, channel, exists)``; ``channel`` is None for a change of the topic itself."""


class Broker:
    """Creates and deletes topics, and reports each change to its subscribers.

    :param node: see `MessageIds`
    :param disk: where messages and the list of topics are kept; None keeps all in memory
    """

    def __init__(
        self, options: NsqdOptions, scheduler: Scheduler, node: int, disk: Disk | None = None
    ) -> None:
        self.options = options
        self.scheduler = scheduler
        self.disk = disk
        self._ids = MessageIds(node)
        self._topics: dict[str, Topic] = {}
        self._callbacks: list[ChangeCallback] = []
        self._prepare: Callable[[Topic], None] | None = None

    @property
    def topics(self) -> Mapping[str, Topic]:
        """The topics by name."""
        return MappingProxyType(self._topics)

    def subscribe_changes(self, callback: ChangeCallback) -> None:
        """Call ``callback`` whenever a topic or channel was created or deleted, until the server ends."""
        self._callbacks.append(callback)

    def prepare_topics(self, prepare: Callable[[Topic], None]) -> None:
        """Pass each new topic to ``prepare``, which has to call `Topic.start`.

        Until then the topic holds its messages back: nsqd first asks nsqlookupd for the channels of a new
        topic, so that all of them get its first messages.
        """
        self._prepare = prepare

    def get_topic(self, name: str) -> Topic:
        """Return the topic ``name``; create it if it does not exist."""
        topic = self._topics.get(name)
        if topic is None:
            topic = Topic(
                name,
                options=self.options,
                scheduler=self.scheduler,
                ids=self._ids,
                started=self._prepare is None,
                on_change=self._changed,
                on_abandoned=lambda abandoned: self.delete_topic(abandoned.name),
                disk=self.disk,
            )
            self._topics[name] = topic
            self._changed(name, None, True)
            if self._prepare is not None:
                self._prepare(topic)
        return topic

    def delete_topic(self, name: str) -> None:
        """Delete a topic with its channels and messages, and disconnect the clients of its channels.

        :raises KeyError: if it does not exist
        """
        topic = self._topics.pop(name)
        self._changed(name, None, False)
        topic.close()

    def restore(self, topics: Mapping[str, StoredTopic]) -> None:
        """Create the topics and channels that are on disk, before `prepare_topics` is called."""
        for name, stored in topics.items():
            topic = self.get_topic(name)
            topic.is_paused = stored.is_paused
            for channel_name, is_paused in stored.channels.items():
                topic.get_channel(channel_name).is_paused = is_paused

    def list_topics(self) -> bytes:
        """Return the content of ``nsqd.dat``."""
        topics = {
            name: StoredTopic(
                topic.is_paused, {each.name: each.is_paused for each in topic.channels.values()}
            )
            for name, topic in self._topics.items()
        }
        return format_topics(topics, NSQ_VERSION)

    async def pauses_changed(self) -> None:
        """Store on disk which topics and channels are paused."""
        if self.disk is not None:
            self.disk.topics_changed()
            await self.stored()

    async def stored(self, *changed: Topic | Channel) -> OSError | None:
        """Wait until the latest changes are on disk; return an error of ``changed`` or the list of topics."""
        if self.disk is None:
            return None
        return await self.disk.receipt(
            [each.disk.backend for each in changed if each.disk is not None]
        ).wait()

    def _changed(self, topic: str, channel: str | None, exists: bool) -> None:
        if self.disk is not None and not is_ephemeral(channel or topic):
            self.disk.topics_changed()
        for callback in self._callbacks:
            callback(topic, channel, exists)
