"""A consumer or producer of a collector, which any thread can read.

Its numbers change in the thread of its event loop, and are read only in that thread: a scrape in another
thread asks the event loop for them, and waits. So a scrape takes no lock, and never sees a half-made change.
If the event loop is blocked, the scrape soon continues with the values of the previous scrape.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from threading import get_ident

from ...errors import InvalidOption
from ...sync.outcome import Outcome
from .readers import Reader
from .samples import Samples


class Member:
    """One consumer or producer. Created in the thread of its event loop.

    :param begin: begins to measure it
    :ivar channel: the topic and channel of a consumer; empty for a producer
    :ivar is_last: whether `samples` are final, because the block had ended when they were read
    :ivar samples: the samples that were read last
    """

    def __init__(self, begin: Callable[[], Reader]) -> None:
        self._process = os.getpid()
        self._thread = get_ident()
        self._call_soon = _call_from_threads()
        self._reader = reader = begin()
        self.channel: tuple[str, ...] = reader.channel
        self.is_last: bool = False
        self.samples: Samples = reader.read()

    @property
    def is_forked(self) -> bool:
        """Whether it belongs to the process that this one was forked from."""
        return os.getpid() != self._process

    @property
    def has_ended(self) -> bool:
        """Whether its block is over."""
        return self._reader.has_ended

    def update(self) -> None:
        """Read the samples; only in its event loop, or once it has ended."""
        has_ended = self._reader.has_ended
        self.samples = self._reader.read()
        self.is_last = has_ended  # after them, as another thread looks at this first

    def request(self) -> Outcome[None]:
        """Request that the samples are read; the outcome is there when that is done."""
        done: Outcome[None] = Outcome()

        def read() -> None:
            done.settle(self.update)

        if get_ident() == self._thread or self.has_ended:
            read()
            return done
        try:
            self._call_soon(read)
        except RuntimeError:  # the event loop has ended, and nothing changes any more
            read()
            self.is_last = True
        return done


def _call_from_threads() -> Callable[[Callable[[], None]], object]:
    """Return a function for any thread that schedules a plain function in the event loop of this thread.

    It raises RuntimeError once the loop has ended. Unlike the one in `nsq_anyio.transport`, this also works
    in callbacks. If Trio runs as a guest, the host loop serves too, because both run in the same thread.
    """
    with suppress(RuntimeError):
        return asyncio.get_running_loop().call_soon_threadsafe
    with suppress(ModuleNotFoundError, RuntimeError):
        import trio  # noqa: PLC0415 - an extra

        return trio.lowlevel.current_trio_token().run_sync_soon
    raise InvalidOption("add() was called outside of an event loop: call it inside the `async with` block")
