"""Assertions about the messages in the topics and channels of one or several nsqds.

The assertions use nsqd's HTTP and TCP, so they work with embedded and with real servers. `Channels` is for
async tests, where waiting must not block the program under test; `PlainChannels` runs the same functions in
the servers' thread. Each class refuses calls where the other belongs: a coroutine that is never awaited would
let a test pass. A message can be seen only by taking it, so the assertions use their own channel, and
remember the messages.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from itertools import cycle
from typing import Any, TypeVar

import anyio
from anyio.from_thread import BlockingPortal

from ..consumer import Message, consume
from ..envelope import encode
from ..errors import InvalidOption, WouldDeadlock
from ..http.nsqd import Nsqd
from ..http.stats import TopicStats
from ..names import check_channel, check_topic
from ..options import ConsumerOptions
from ..options.checks import check_integer, check_seconds
from ..producer import Body
from ..producer.bodies import as_bytes
from .event_loop import awaited, is_in_event_loop
from .virtual_clock import is_virtual_time

KIT_CHANNEL = "nsq-testing"
"""The channel that the assertions read by default."""

_POLL_INTERVAL = 0.01
_MAX_IN_FLIGHT = 200
_MAX_SHOWN = 10
"""Messages in the text of a failed assertion."""

T = TypeVar("T")


class Channels:
    """The topics and channels of one or several nsqds, for async tests."""

    def __init__(self, tcp_addresses: Sequence[str], http_urls: Sequence[str], *, in_thread: bool) -> None:
        self._tcp_addresses = list(tcp_addresses)
        self._http_urls = list(http_urls)
        self._in_thread = in_thread
        self._next_url: Iterator[str] = cycle(self._http_urls)
        self._seen: dict[tuple[str, str], list[Message]] = {}

    @awaited
    async def publish(
        self,
        topic: str,
        payload: Body,
        *,
        headers: Mapping[str, str] | None = None,
        defer: float | None = None,
    ) -> None:
        """Publish a message; with several nsqds, to each in turn.

        :param payload: 1 byte or more; a str is encoded as UTF-8
        :param headers: text by name; the message is then published in an envelope. Default: none
        :param defer: seconds until nsqd delivers it; default: at once
        :raises InvalidName: for a name that nsqd would refuse
        :raises InvalidBody: for a payload that is neither bytes nor text, or is empty and has no headers
        :raises HTTPError: if nsqd refuses, or cannot be reached
        """
        self._check_clock()
        content = as_bytes(payload)
        body = content if headers is None else encode(content, headers)
        async with Nsqd(next(self._next_url)) as http:
            await http.publish(topic, body, defer=defer)

    @awaited
    async def tap(self, topic: str) -> None:
        """Create the channel ``nsq-testing`` of a topic. It gets a copy of each later message.

        `messages` and `assert_published` read this channel. If it is missing, they create it, and it gets the
        messages that wait in the topic. In a topic with another channel no messages wait, so `tap` is needed.

        :raises InvalidName: for a name that nsqd would refuse
        """
        self._check_clock()
        check_topic(topic)
        for url in self._http_urls:
            async with Nsqd(url) as http:
                await http.create_topic(topic)
                await http.create_channel(topic, KIT_CHANNEL)

    @awaited
    async def messages(
        self, topic: str, channel: str = KIT_CHANNEL, *, count: int | None = None, timeout: float = 5.0
    ) -> list[Message]:
        """Take the messages that wait in a channel, and return them after the messages taken earlier.

        The messages are finished. Deferred messages and messages in flight elsewhere do not count as waiting.

        :param channel: the channel; a missing one is created, and gets the messages that wait in the topic
        :param count: wait until at least this many were taken, 0 or more; default: take the messages that
            wait now
        :param timeout: seconds, 0 or more; default 5
        :raises AssertionError: if fewer than ``count`` came in time, or messages still wait after ``timeout``
        :raises InvalidOption: for the channel ``nsq-testing``, if the topic has only other channels, which
            got the messages; see `tap`
        """
        __tracebackhide__ = True
        check_integer("count", count, 0, special=(None,))
        seen = await self._begin(topic, channel, timeout)
        if count is None:
            left = await self._take_waiting(topic, channel, seen, timeout)
            if left:
                raise AssertionError(f"{left} messages of {topic}/{channel} still wait after {timeout:g} s")
        elif not await self._take(topic, channel, partial(_has, seen, count), timeout):
            raise AssertionError(
                f"{topic}/{channel} got {len(seen)} of {count} messages within {timeout:g} s{_shown(seen)}"
            )
        return list(seen)

    @awaited
    async def assert_published(
        self,
        topic: str,
        payload: Body | None = None,
        *,
        where: Callable[[Message], bool] | None = None,
        channel: str = KIT_CHANNEL,
        timeout: float = 5.0,
    ) -> Message:
        """Wait until a message is in a channel, and return the first such message.

        Messages are taken as by `messages`, and remembered: assertions may be repeated, and in any order.

        :param payload: the payload that the message must have, a str as UTF-8; default: any
        :param where: a function of the message that must return True; default: any message will do
        :param channel: as for `messages`
        :param timeout: seconds, 0 or more; default 5
        :raises AssertionError: if no such message came in time
        :raises InvalidBody: for a payload that is neither bytes nor text
        :raises InvalidOption: as `messages`
        """
        __tracebackhide__ = True
        expected = None if payload is None else as_bytes(payload)
        seen = await self._begin(topic, channel, timeout)

        def found() -> Message | None:
            for message in seen:
                if expected in {None, message.payload} and (where is None or where(message)):
                    return message
            return None

        if not await self._take(topic, channel, lambda: found() is not None, timeout):
            wanted = "" if expected is None else f" with the payload {expected!r}"
            wanted += "" if where is None else " that `where` accepts"
            raise AssertionError(
                f"no message{wanted} in {topic}/{channel} within {timeout:g} s{_shown(seen)}"
            )
        message = found()
        assert message is not None  # noqa: S101 - as `_take` has seen
        return message

    @awaited
    async def wait_for_depth(
        self, topic: str, channel: str | None, depth: int, *, timeout: float = 5.0
    ) -> None:
        """Wait until a channel exists and ``depth`` messages wait in it, on all nsqds together.

        :param channel: None for the depth of the topic itself, where messages wait for a first channel
        :param depth: NSQ's depth, which counts neither messages in flight nor deferred ones; 0 or more
        :param timeout: seconds, 0 or more; default 5
        :raises AssertionError: if the depth is not reached in time
        """
        __tracebackhide__ = True
        check_integer("depth", depth, 0)
        await self._wait(topic, channel, f"a depth of {depth}", lambda found: found.depth == depth, timeout)

    @awaited
    async def wait_until_empty(self, topic: str, channel: str, *, timeout: float = 5.0) -> None:
        """Wait until a channel exists and all messages of the topic have been finished in it.

        Then no message waits in the topic, and none waits, is in flight or is deferred in the channel.

        :param timeout: seconds, 0 or more; default 5
        :raises AssertionError: if the channel is missing or not empty after ``timeout``
        """
        __tracebackhide__ = True
        await self._wait(topic, channel, "no messages", lambda found: found.is_empty, timeout)

    def _check_clock(self) -> None:
        if self._in_thread and is_virtual_time():
            raise RuntimeError(
                "these servers are not in the event loop with the virtual clock: "
                "use `async with nsq.testing.cluster()` in the test"
            )

    async def _begin(self, topic: str, channel: str, timeout: float) -> list[Message]:
        self._check_clock()
        check_topic(topic)
        check_channel(channel)
        check_seconds("timeout", timeout, 0)
        if channel == KIT_CHANNEL:
            for stats in await topics_of(self._http_urls, topic):
                others = sorted(each.channel_name for each in stats.channels)
                if others and KIT_CHANNEL not in others:
                    raise InvalidOption(
                        f"channel={KIT_CHANNEL!r} is not valid: messages went to {', '.join(others)} "
                        f"of {topic}. Name one of these channels, or call tap({topic!r}) before"
                    )
        return self._seen.setdefault((topic, channel), [])

    async def _take_waiting(self, topic: str, channel: str, seen: list[Message], timeout: float) -> int:
        """Take the waiting messages, and return how many still wait."""
        waiting = 1
        with anyio.move_on_after(timeout):
            while waiting := await self._waiting(topic, channel):
                goal = len(seen) + waiting
                # Another consumer may take some of them.
                await self._take(topic, channel, partial(_has, seen, goal), 0.5)
        return waiting

    async def _waiting(self, topic: str, channel: str) -> int:
        for _ in range(2):  # a message that is on the way from the topic to the channel counts in neither
            found = Counts(await topics_of(self._http_urls, topic), channel)
            if waiting := found.topic_depth + found.depth:
                return waiting
            await anyio.sleep(_POLL_INTERVAL)
        return 0

    async def _take(self, topic: str, channel: str, is_enough: Callable[[], bool], timeout: float) -> bool:
        """Take messages until there are enough, and return whether there are."""
        if is_enough():
            return True
        seen = self._seen[topic, channel]
        options = ConsumerOptions(max_attempts=0)  # never gives up
        with anyio.move_on_after(timeout):
            async with consume(
                topic, channel, nsqd=self._tcp_addresses, max_in_flight=_MAX_IN_FLIGHT, options=options
            ) as consumer:
                async for message in consumer:
                    seen.append(message)
                    message.finish()
                    if is_enough():
                        break
        return is_enough()

    async def _wait(
        self,
        topic: str,
        channel: str | None,
        wanted: str,
        is_reached: Callable[[Counts], bool],
        timeout: float,
    ) -> None:
        __tracebackhide__ = True
        self._check_clock()
        check_topic(topic)
        if channel is not None:
            check_channel(channel)
        check_seconds("timeout", timeout, 0)
        # Ask at least once, however short the time is.
        found = Counts(await topics_of(self._http_urls, topic), channel)
        with anyio.move_on_after(timeout):
            for pause in _pauses():
                if found.exists and is_reached(found):
                    return
                await anyio.sleep(pause)
                found = Counts(await topics_of(self._http_urls, topic), channel)
        where = topic if channel is None else f"{topic}/{channel}"
        raise AssertionError(f"{where} has {found}, and not {wanted}, after {timeout:g} s")


def _pauses() -> Iterator[float]:
    """The seconds between polls. Virtual pauses may be long, because each poll takes real time."""
    pause, longest = _POLL_INTERVAL, 30.0 if is_virtual_time() else 0.1
    while True:
        yield pause
        pause = min(pause * 1.5, longest)


def _has(messages: Sequence[Message], count: int) -> bool:
    return len(messages) >= count


def _shown(messages: Sequence[Message]) -> str:
    if not messages:
        return ": it got none"
    texts = [repr(message.payload[:100]) for message in messages[:_MAX_SHOWN]]
    more = [f"and {len(messages) - _MAX_SHOWN} more"] if len(messages) > _MAX_SHOWN else []
    return f": it got {', '.join(texts + more)}"


async def topics_of(http_urls: Sequence[str], topic: str) -> list[TopicStats]:
    """Return the statistics of a topic on each nsqd that has it."""
    found: list[TopicStats] = []
    for url in http_urls:
        async with Nsqd(url) as http:
            stats = await http.stats(topic=topic, include_clients=False, include_mem=False)
        found += stats.topics
    return found


class Counts:
    """The messages of a topic and one of its channels, or of the topic alone.

    :ivar exists: whether any nsqd has the channel, or the topic
    :ivar topic_depth: messages that no channel has got yet
    :ivar depth: messages that wait in the channel, or in the topic
    """

    def __init__(self, topics: Sequence[TopicStats], channel: str | None) -> None:
        channels = [each for topic in topics for each in topic.channels if each.channel_name == channel]
        self.exists: bool = bool(topics) if channel is None else bool(channels)
        self.topic_depth: int = sum(topic.depth for topic in topics)
        self.depth: int = self.topic_depth if channel is None else sum(each.depth for each in channels)
        self.in_flight: int = sum(each.in_flight_count for each in channels)
        self.deferred: int = sum(each.deferred_count for each in channels)

    @property
    def is_empty(self) -> bool:
        """Whether there is no message in any state."""
        return not (self.topic_depth or self.depth or self.in_flight or self.deferred)

    def __str__(self) -> str:
        if not self.exists:
            return "not been created"
        return f"a depth of {self.depth}, {self.in_flight} messages in flight and {self.deferred} deferred"


class PlainChannels:
    """The methods of `Nsqd` and `Cluster`, as plain functions for plain tests.

    :raises WouldDeadlock: by each method, if it is called in an event loop, which it would block
    """

    def __init__(self, channels: Channels, portal: BlockingPortal | None) -> None:
        self.channels = channels
        self._portal = portal

    def publish(
        self,
        topic: str,
        payload: Body,
        *,
        headers: Mapping[str, str] | None = None,
        defer: float | None = None,
    ) -> None:
        __tracebackhide__ = True
        self._run(partial(self.channels.publish, topic, payload, headers=headers, defer=defer), "publish")

    def tap(self, topic: str) -> None:
        __tracebackhide__ = True
        self._run(partial(self.channels.tap, topic), "tap")

    def messages(
        self, topic: str, channel: str = KIT_CHANNEL, *, count: int | None = None, timeout: float = 5.0
    ) -> list[Message]:
        __tracebackhide__ = True
        ask = partial(self.channels.messages, topic, channel, count=count, timeout=timeout)
        return self._run(ask, "messages")

    def assert_published(
        self,
        topic: str,
        payload: Body | None = None,
        *,
        where: Callable[[Message], bool] | None = None,
        channel: str = KIT_CHANNEL,
        timeout: float = 5.0,
    ) -> Message:
        __tracebackhide__ = True
        ask = partial(
            self.channels.assert_published, topic, payload, where=where, channel=channel, timeout=timeout
        )
        return self._run(ask, "assert_published")

    def wait_for_depth(self, topic: str, channel: str | None, depth: int, *, timeout: float = 5.0) -> None:
        __tracebackhide__ = True
        self._run(
            partial(self.channels.wait_for_depth, topic, channel, depth, timeout=timeout), "wait_for_depth"
        )

    def wait_until_empty(self, topic: str, channel: str, *, timeout: float = 5.0) -> None:
        __tracebackhide__ = True
        self._run(
            partial(self.channels.wait_until_empty, topic, channel, timeout=timeout), "wait_until_empty"
        )

    def _run(self, function: Callable[[], Coroutine[Any, Any, T]], name: str) -> T:
        """Call an async function as `call` does, and keep the frames of the event loop out of a failure."""
        __tracebackhide__ = True
        try:
            return self.call(function, name)
        except AssertionError as error:
            raise AssertionError(str(error)) from None

    def call(self, function: Callable[[], Coroutine[Any, Any, T]], name: str) -> T:
        """Call an async function in the thread of the servers; internal."""
        __tracebackhide__ = True
        if is_in_event_loop() or self._portal is None:
            raise WouldDeadlock(
                f"sync.{name}() would block the event loop: write `await {name}()`, without sync"
            )
        result: T = self._portal.call(function)
        return result
