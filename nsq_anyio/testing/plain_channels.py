"""The assertions of `Channels` for plain tests."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, TypeVar

from anyio.from_thread import BlockingPortal

from ..consumer import Message
from ..errors import WouldDeadlock
from ..producer import Body
from .channels import KIT_CHANNEL, Channels
from .event_loop import is_in_event_loop

T = TypeVar("T")


class PlainChannels:
    """The topics and channels of one or several nsqds, for plain tests.

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
        """Do what `Nsqd.publish` does."""
        __tracebackhide__ = True
        self._run(partial(self.channels.publish, topic, payload, headers=headers, defer=defer), "publish")

    def tap(self, topic: str) -> None:
        """Do what `Nsqd.tap` does."""
        __tracebackhide__ = True
        self._run(partial(self.channels.tap, topic), "tap")

    def messages(
        self, topic: str, channel: str = KIT_CHANNEL, *, count: int | None = None, timeout: float = 5.0
    ) -> list[Message]:
        """Do what `Nsqd.messages` does."""
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
        """Do what `Nsqd.assert_published` does."""
        __tracebackhide__ = True
        ask = partial(
            self.channels.assert_published, topic, payload, where=where, channel=channel, timeout=timeout
        )
        return self._run(ask, "assert_published")

    def wait_for_depth(self, topic: str, channel: str | None, depth: int, *, timeout: float = 5.0) -> None:
        """Do what `Nsqd.wait_for_depth` does."""
        __tracebackhide__ = True
        self._run(
            partial(self.channels.wait_for_depth, topic, channel, depth, timeout=timeout), "wait_for_depth"
        )

    def wait_until_empty(self, topic: str, channel: str, *, timeout: float = 5.0) -> None:
        """Do what `Nsqd.wait_until_empty` does."""
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
