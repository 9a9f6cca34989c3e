"""The topics of one nsqd."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from .message_ids import MessageIds
from .nsqd_options import NsqdOptions
from .scheduler import Scheduler
from .topic import Topic

__all__ = ["Broker", "ChangeCallback"]

ChangeCallback: TypeAlias = Callable[[str, str | None, bool], None]
"""Called as ``callback(topic, channel, exists)``; ``channel`` is None for a change of the topic itself."""


class Broker:
    """Creates and deletes topics, and reports each change to its subscribers.

    :param node: see `MessageIds`
    """

    def __init__(self, options: NsqdOptions, scheduler: Scheduler, node: int) -> None:
        self.options = options
        self.scheduler = scheduler
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

    def _changed(self, topic: str, channel: str | None, exists: bool) -> None:
        for callback in self._callbacks:
            callback(topic, channel, exists)
