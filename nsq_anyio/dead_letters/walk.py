"""Takes every message that waits in a channel once, and puts back those that were not finished.

Messages that are not finished are held until the end, because a message that is put back earlier would come
again. A connection holds at most nsqd's --max-rdy-count messages, and an nsqd that hangs is as silent as one
that has no more. So when no more messages come, another consumer takes over, until one gets none.

nsqd does not answer FIN. Only the orderly end of a connection proves that it has handled those before: it
answers CLS after them. So a message that was finished on a connection which was lost may still be there.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import anyio
from anyio.abc import TaskGroup, TaskStatus

from ..address import nsqd_addresses
from ..connection import prepared
from ..consumer import Consumer, Message
from ..consumer.supervisor import BeforeSubscribing
from ..discovery import nsqlookupd_urls
from ..errors import Closed, NSQError
from ..events import (
    Connected,
    ConnectFailed,
    ConnectionClosed,
    Disconnected,
    Event,
    MessageFinished,
    ResponseFailed,
    Subscribed,
)
from ..exceptions import ungrouped
from ..names import check_channel, check_topic
from ..options import ConnectionOptions, ConsumerOptions
from .letters import key_of

T = TypeVar("T")

Visit = Callable[[Sequence[Message]], Awaitable[None]]
"""Called with messages; finishes those that should leave the channel, by `Walk.finish`."""

HELD_BY_ONE = 2500
"""How many messages a connection holds by nsqd's default."""

_BATCH = 500
_GATHER = 0.02
_NANO = 1e9
_MAX_SLEEP = 0.5


class NoSubscription(NSQError):
    """No nsqd has accepted a subscription in time."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much a walk takes before it ends early; inf for no bound.

    :ivar visited: messages that are visited; each takes about 300 bytes until the end
    :ivar held: messages that were visited and not finished
    :ivar held_bytes: the size of their bodies together
    """

    visited: float = math.inf
    held: float = math.inf
    held_bytes: float = math.inf


class Walk:
    """Visits the messages that wait in a channel, each once.

    :param nsqd: as for `consume`, and so are ``nsqlookupd``, ``options`` and ``connection``
    :param max_in_flight: how many messages one connection holds, 1 or more
    :param options: default: no limit of attempts, since each walk counts as one
    :param wait: seconds without a message after which the walk ends, beside those that nsqd may hold it back
    :param only_earlier: whether to skip messages that were published after the walk began, by the clock of
        this machine. Otherwise a message that fails again after a retry would be retried for ever
    :param bounds: when to end early
    :param patience: seconds until an nsqd must have accepted a subscription
    :param before_subscribing: see `BeforeSubscribing`; None if there is nothing to ask
    :ivar nsqds: the nsqds that were connected, each with the address that ``map_address`` put in its place
    :ivar finished: the messages that visits have finished, as `key_of` names them
    :ivar confirmed: those of them that nsqd has confirmed to be finished, which it does at the end
    :ivar is_cut: whether the walk ended early because of ``bounds``
    """

    def __init__(
        self,
        topic: str,
        channel: str,
        *,
        nsqd: Sequence[str] | None = None,
        nsqlookupd: Sequence[str] | None = None,
        max_in_flight: int = HELD_BY_ONE,
        options: ConsumerOptions | None = None,
        connection: ConnectionOptions | None = None,
        wait: float = 1.0,
        only_earlier: bool = False,
        bounds: Bounds | None = None,
        patience: float = 10.0,
        before_subscribing: BeforeSubscribing | None = None,
    ) -> None:
        self.nsqds: dict[str, str] = {}
        self.finished: set[str] = set()
        self.confirmed: set[str] = set()
        self.is_cut: bool = False
        self._topic = topic
        self._new_consumer = partial(
            Consumer,
            check_topic(topic),
            check_channel(channel),
            nsqds=() if nsqd is None else nsqd_addresses(nsqd),
            nsqlookupds=nsqlookupd_urls(nsqlookupd),
            max_in_flight=max_in_flight,
            limiter=None,
            on_give_up=None,
            dead_letter=None,
            middleware=(),
            options=options or ConsumerOptions(max_attempts=0),
            connection=prepared(connection or ConnectionOptions()),
            before_subscribing=before_subscribing,
        )
        self._wait = wait
        self._until = time.time() * _NANO if only_earlier else math.inf
        self._bounds = bounds or Bounds()
        self._patience = patience
        self._held: dict[Message, float] = {}  # when each is to be touched
        self._blocks: TaskGroup | None = None
        self._over = anyio.Event()
        self._changed = anyio.Event()
        self._lost: dict[str, str] = {}
        self._unreached: dict[str, str] = {}
        self._seen: set[str] = set()

    @property
    def visited(self) -> int:
        """How many messages were visited so far."""
        return len(self._seen)

    @property
    def lost(self) -> dict[str, str]:
        """The nsqds that were not reached or were lost on the way, each with the reason.

        Messages that they hold may not have been visited.
        """
        return {**self._unreached, **self._lost}

    async def run(self, visit: Visit, stop: anyio.Event) -> None:
        """Visit all messages; return when there are no more or ``stop`` is set.

        :raises NoSubscription: if no nsqd accepts a subscription in time
        :raises NSQError: as `consume` does
        """
        with ungrouped():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._touch)
                async with anyio.create_task_group() as self._blocks:
                    consumers: list[Consumer] = []
                    try:
                        while not stop.is_set():
                            sent: dict[str, set[str]] = defaultdict(set)
                            consumer = await self.enter(
                                self._new_consumer(on_event=partial(self._note, sent))._running()
                            )
                            consumers.append(consumer)
                            taken = await self._empty(consumer, visit, stop)
                            consumer.stop()  # it hands back what was not visited, and the next one gets that
                            if not taken or not self._alive:
                                break
                    finally:
                        for consumer in consumers:
                            consumer.stop()  # or one would receive what another puts back
                        self._over.set()
                tasks.cancel_scope.cancel()

    def finish(self, message: Message) -> None:
        """Finish a message, and again if it comes again after its connection was lost; for visits."""
        self.finished.add(key_of(message))
        if not message.responded:
            message.finish()

    def _note(self, sent: dict[str, set[str]], event: Event) -> None:
        """Note what became of one consumer's connections.

        :param sent: by nsqd, what was finished on the connection that is open
        """
        match event:
            case Connected(nsqd=nsqd):
                self.nsqds[nsqd] = event.mapped_to or nsqd
            case Subscribed(nsqd=nsqd):
                self._unreached.pop(nsqd, None)
            case ConnectFailed(nsqd=nsqd, error=error):
                self._unreached[nsqd] = str(error)
            case MessageFinished(nsqd=nsqd, message_id=message_id):
                sent[nsqd].add(f"{nsqd}/{message_id}")
            case ResponseFailed(nsqd=nsqd, message_id=str(message_id)):
                sent[nsqd].discard(f"{nsqd}/{message_id}")  # it had timed out, so that it comes again
            case Disconnected(nsqd=nsqd, error=error):
                sent.pop(nsqd, None)
                self._lost[nsqd] = str(error)
            case ConnectionClosed(nsqd=nsqd, confirmed=True):
                self.confirmed |= sent.pop(nsqd, set())
            case ConnectionClosed(nsqd=nsqd):
                self._lost.setdefault(nsqd, f"nsqd {nsqd}: it has not confirmed the end of the connection")
            case _:
                return
        self._changed.set()

    async def enter(self, block: AbstractAsyncContextManager[T]) -> T:
        """Enter a block that lasts until the walk ends; to be called in a visit.

        Each block has a task of its own, so that all of them end together: the time that an nsqd has for its
        last answers does not add up.
        """
        if self._blocks is None:
            raise Closed("the walk has not begun: enter blocks in a visit")
        entered: T = await self._blocks.start(self._keep, block)
        return entered

    async def _keep(self, block: AbstractAsyncContextManager[T], *, task_status: TaskStatus[T]) -> None:
        async with block as entered:
            task_status.started(entered)
            await self._over.wait()

    @property
    def _alive(self) -> set[str]:
        """The nsqds that were connected and not lost."""
        return self.nsqds.keys() - self.lost.keys()

    async def _subscribed(self, consumer: Consumer) -> None:
        """Wait until a consumer is subscribed to an nsqd, and to all that an earlier one had."""
        with anyio.move_on_after(self._patience):
            while not (consumer.connections and self._alive <= set(consumer.connections)):
                if self.nsqds and not self._alive:
                    return
                self._changed = anyio.Event()
                await self._changed.wait()
            return
        if not self.nsqds:
            raise NoSubscription(
                f"no nsqd has accepted a subscription to topic {self._topic} within {self._patience:g} s: "
                "check that an nsqd can be reached, and the name; the first dead letter creates the topic"
            )
        for nsqd in self._alive - set(consumer.connections):
            self._lost[nsqd] = f"nsqd {nsqd}: no other subscription was accepted within {self._patience:g} s"

    async def _empty(self, consumer: Consumer, visit: Visit, stop: anyio.Event) -> int:
        """Visit the messages of one consumer; return how many it got."""
        await self._subscribed(consumer)
        consumer._take_ahead()
        taken = 0
        batches = consumer.batches(_BATCH, _GATHER)
        subscribed = consumer.statistics().per_connection
        held_back = max((each.identity.output_buffer_timeout for each in subscribed), default=0.0)
        wait = self._wait + held_back
        quiet_at = anyio.current_time() + wait
        while not stop.is_set():
            batch: list[Message] | None = None
            with anyio.CancelScope(deadline=quiet_at):
                batch = await anext(batches, None)
            if batch is None:
                break
            taken += len(batch)
            now = anyio.current_time()
            self._held.update((message, (now + message.deadline) / 2) for message in batch)
            for message in batch:
                if key_of(message) in self.finished:
                    self.finish(message)  # its FIN was lost, or came too late
            new = [message for message in batch if self._is_new(message)]
            if new:
                await visit(new)
                quiet_at = anyio.current_time() + wait
            if self._is_full():
                self.is_cut = True
                stop.set()
        return taken

    def _is_new(self, message: Message) -> bool:
        """Return whether to visit a message: not if it was visited before or is skipped."""
        key = key_of(message)
        if key in self._seen or message.timestamp > self._until:
            return False
        self._seen.add(key)
        return True

    def _is_full(self) -> bool:
        bounds = self._bounds
        if len(self._seen) >= bounds.visited:
            return True
        if bounds.held == bounds.held_bytes == math.inf:
            return False
        held = [message for message in self._held if not message.responded]
        return len(held) >= bounds.held or sum(len(each.body) for each in held) >= bounds.held_bytes

    async def _touch(self) -> None:
        """Touch each message that is held half-way to its deadline, as long as nsqd allows."""
        while True:
            now = anyio.current_time()
            for message, due in list(self._held.items()):
                if message.responded or not message._arrival.delegate.holds(message):
                    del self._held[message]
                elif due <= now < message._arrival.hard_deadline:
                    message.touch()
                    self._held[message] = (now + message.deadline) / 2
            await anyio.sleep(min([_MAX_SLEEP, *(max(due - now, 0.05) for due in self._held.values())]))
