"""The assertions of `Channels` for plain tests."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from anyio.from_thread import BlockingPortal

from ..errors import WouldDeadlock
from .channels import Channels
from .event_loop import is_in_event_loop

__all__ = ["PlainChannels"]

P = ParamSpec("P")
T = TypeVar("T")


def _plain(
    method: Callable[Concatenate[Channels, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[PlainChannels, P], T]:
    @wraps(method)
    def call(self: PlainChannels, /, *args: P.args, **kwargs: P.kwargs) -> T:
        __tracebackhide__ = True
        try:
            return self.call(partial(method, self.channels, *args, **kwargs), method.__name__)
        except AssertionError as error:
            raise AssertionError(str(error)) from None  # without the frames of the event loop

    return call


class PlainChannels:
    """The topics and channels of one or several nsqds, for plain tests.

    :raises WouldDeadlock: by each method, if it is called in an event loop, which it would block
    """

    def __init__(self, channels: Channels, portal: BlockingPortal | None) -> None:
        self.channels = channels
        self._portal = portal

    publish = _plain(Channels.publish)
    tap = _plain(Channels.tap)
    messages = _plain(Channels.messages)
    assert_published = _plain(Channels.assert_published)
    wait_for_depth = _plain(Channels.wait_for_depth)
    wait_until_empty = _plain(Channels.wait_until_empty)

    def call(self, function: Callable[[], Coroutine[Any, Any, T]], name: str) -> T:
        """Call an async function in the thread of the servers; internal."""
        __tracebackhide__ = True
        if is_in_event_loop() or self._portal is None:
            raise WouldDeadlock(
                f"sync.{name}() would block the event loop: write `await {name}()`, without sync"
            )
        result: T = self._portal.call(function)
        return result
