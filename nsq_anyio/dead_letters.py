"""Dead letters: a scan of the channel that holds them, and operations that read, retry or drop them.

`ChannelScan` takes every message that waits in a channel once, and hands back the unfinished ones. It holds
them until the end, because a message that is handed back earlier would be delivered again. A connection holds
at most nsqd's ``--max-rdy-count`` messages, and an nsqd that hangs is as silent as one that has no more. So
when no more messages come, another consumer takes over, until a consumer gets none.

nsqd does not answer FIN. Only the orderly end of a connection proves that nsqd has handled the FINs before
it: nsqd answers the CLS that follows them. So a message that was finished on a lost connection may still be
there.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import anyio
from anyio.abc import TaskGroup, TaskStatus

from .address import nsqd_addresses
from .connection import prepared
from .consumer import Consumer, Message
from .consumer.dead_letter import DeadLetterHeaders, original_body
from .consumer.supervisor import BeforeSubscribing
from .discovery import nsqlookupd_urls
from .envelope import without_id
from .errors import Closed, InvalidEnvelope, InvalidName, NSQError
from .events import (
    Connected,
    ConnectFailed,
    ConnectionClosed,
    Disconnected,
    Event,
    MessageFinished,
    ResponseFailed,
    Subscribed,
)
from .exceptions import ungrouped
from .names import check_channel, check_topic
from .options import ConnectionOptions, ConsumerOptions, ProducerOptions

if TYPE_CHECKING:
    from .producer import Producer

_NANO = 1e9

T = TypeVar("T")

HELD_BY_ONE = 2500
"""The most messages that a connection may hold, by nsqd's default."""

_BATCH = 500
_GATHER = 0.02
_MAX_SLEEP = 0.5


def key_of(message: Message) -> str:
    """Return ``NSQD/ID``, which identifies a message of a topic: the id is unique only within one nsqd."""
    return f"{message.nsqd}/{message.id}"


@dataclass(frozen=True, slots=True)
class Letter:
    """A message in a topic of dead letters.

    :ivar body: the original body; None if this is not a dead letter
    :ivar problem: why this is not a dead letter; empty if it is one
    :ivar died: when the original message was given up or discarded, in seconds since the epoch; if that is
        not known, when the letter was published
    """

    message: Message
    headers: dict[str, str]
    body: bytes | None
    problem: str
    died: float

    @classmethod
    def of(cls, message: Message) -> Letter:
        """Read a message. If it is not a dead letter, `problem` says why."""
        published = message.timestamp / _NANO
        try:
            headers = dict(message.headers)
            body = original_body(message.payload, headers)
        except InvalidEnvelope as error:
            return cls(message, {}, None, str(error), published)
        time = headers.get(DeadLetterHeaders.TIME, "")
        died = int(time) / _NANO if time.isascii() and time.isdigit() and len(time) < 20 else published
        return cls(message, headers, body, "", died)

    def get(self, name: str) -> str:
        """Return the value of a header; empty if there is none."""
        return self.headers.get(name, "")

    @property
    def error(self) -> str:
        """The class and the text of the error."""
        kind, text = self.get(DeadLetterHeaders.ERROR_TYPE), self.get(DeadLetterHeaders.ERROR)
        return f"{kind}: {text}" if kind else text

    @property
    def key(self) -> str:
        """``NSQD/ID``, which names the letter."""
        return key_of(self.message)

    @property
    def ids(self) -> set[str]:
        """The letter's id and the original message's, each also as ``NSQD/ID``."""
        nsqd, id = self.get(DeadLetterHeaders.NSQD), self.get(DeadLetterHeaders.ID)
        return {self.key, self.message.id, f"{nsqd}/{id}", id}


@dataclass(frozen=True, slots=True)
class Filter:
    """Selects letters; a field that is None or empty selects all.

    :ivar error: a text that the error's class and text contain
    :ivar died_before: seconds since the epoch
    :ivar died_after: seconds since the epoch
    :ivar keys: the keys of single letters, see `Letter.key`
    :ivar ids: ids as in `Letter.ids`; several letters may share an id
    :ivar letters_only: whether to leave out messages that are not dead letters
    """

    error: str | None = None
    died_before: float | None = None
    died_after: float | None = None
    topic: str | None = None
    channel: str | None = None
    keys: Collection[str] = ()
    ids: Collection[str] = ()
    letters_only: bool = False

    def takes(self, letter: Letter) -> bool:
        """Return whether this letter is selected."""
        return (
            (self.error is None or self.error in letter.error)
            and (self.died_before is None or letter.died <= self.died_before)
            and (self.died_after is None or letter.died >= self.died_after)
            and (self.topic is None or letter.get(DeadLetterHeaders.TOPIC) == self.topic)
            and (self.channel is None or letter.get(DeadLetterHeaders.CHANNEL) == self.channel)
            and (not self.keys or letter.key in self.keys)
            and (not self.ids or not letter.ids.isdisjoint(self.ids))
            and not (self.letters_only and letter.problem)
        )


Visitor = Callable[[Sequence[Message]], Awaitable[None]]
"""Called with messages; calls `ChannelScan.finish` for each that should leave the channel."""


class NoSubscription(NSQError):
    """No nsqd has accepted a subscription in time."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds at which a scan ends early; inf for no bound.

    :ivar visited: messages that are visited; each takes about 300 bytes until the end
    :ivar held: messages that were visited and not finished
    :ivar held_bytes: the total size of their bodies
    """

    visited: float = math.inf
    held: float = math.inf
    held_bytes: float = math.inf


class ChannelScan:
    """A scan of a channel: passes each message that waits there to a visitor, once.

    :param nsqd: as for `consume`, and so are ``nsqlookupd``, ``options`` and ``connection``
    :param max_in_flight: how many messages one connection holds, 1 or more
    :param options: default: no limit of attempts, since each scan counts as an attempt
    :param wait: seconds without a message after which the scan ends, in addition to the time for which nsqd
        may buffer one
    :param only_earlier: whether to skip messages that were published after the scan began, by the clock of
        this machine. Otherwise a message that fails again after a retry would be retried forever
    :param bounds: when to end early
    :param patience: seconds until an nsqd must have accepted a subscription
    :param before_subscribing: see `BeforeSubscribing`; None if there is nothing to await
    :ivar nsqds: the nsqds that were connected, each with the address to which ``map_address`` mapped it
    :ivar finished: the messages that visitors have finished, by their keys
    :ivar confirmed: the finished messages that nsqd has confirmed; it does so only at the end
    :ivar is_cut: whether the scan ended early because of ``bounds``
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

    async def run(self, visit: Visitor, stop: anyio.Event) -> None:
        """Pass all messages to the visitor; return when there are no more or ``stop`` is set.

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
                            consumer.stop()  # hands back the messages not taken, for the next consumer
                            if not taken or not self._alive:
                                break
                    finally:
                        for consumer in consumers:
                            consumer.stop()  # or one would receive the messages that another hands back
                        self._over.set()
                tasks.cancel_scope.cancel()

    def finish(self, message: Message) -> None:
        """Finish a message, also when it comes again after its connection was lost; for visitors."""
        self.finished.add(key_of(message))
        if not message.responded:
            message.finish()

    def _note(self, sent: dict[str, set[str]], event: Event) -> None:
        """Take note of the events of one consumer's connections.

        :param sent: by nsqd, the messages that were finished on the open connection
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
                sent[nsqd].discard(f"{nsqd}/{message_id}")  # it had timed out, and will come again
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
        """Enter a block that lasts until the scan ends; for visitors.

        Each block has its own task, so that all end together: the waits for last answers do not add up.
        """
        if self._blocks is None:
            raise Closed("the scan has not begun: enter blocks in a visitor")
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
        """Wait until a consumer is subscribed to an nsqd, and to all live nsqds of earlier consumers."""
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

    async def _empty(self, consumer: Consumer, visit: Visitor, stop: anyio.Event) -> int:
        """Pass the messages of one consumer to the visitor; return how many it got."""
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
        """Return whether to visit a message: it was not visited before, and is not to be skipped."""
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
        """Touch each held message half-way to its deadline, as long as nsqd allows."""
        while True:
            now = anyio.current_time()
            for message, due in list(self._held.items()):
                if message.responded or not message._arrival.delegate.holds(message):
                    del self._held[message]
                elif due <= now < message._arrival.hard_deadline:
                    message.touch()
                    self._held[message] = (now + message.deadline) / 2
            await anyio.sleep(min([_MAX_SLEEP, *(max(due - now, 0.05) for due in self._held.values())]))


class LetterReader:
    """Reads dead letters, and leaves all of them in the topic.

    :param limit: how many letters to keep in ``letters``; 0 for all
    :param enough: whether to end once ``limit`` letters are found, rather than count the others too
    :ivar letters: the selected letters
    :ivar count: how many letters are selected
    """

    def __init__(self, scan: ChannelScan, meant: Filter, limit: int, *, enough: bool) -> None:
        self.letters: list[Letter] = []
        self.count = 0
        self._scan = scan
        self._meant = meant
        self._limit = limit
        self._enough = enough

    async def run(self, stop: anyio.Event) -> None:
        """Read all letters that are waiting.

        :raises NSQError: as `ChannelScan.run` does
        """

        async def visit(messages: Sequence[Message]) -> None:
            meant = [letter for letter in map(Letter.of, messages) if self._meant.takes(letter)]
            self.count += len(meant)
            self.letters += meant if not self._limit else meant[: self._limit - len(self.letters)]
            if self._enough and len(self.letters) == self._limit:
                stop.set()

        await self._scan.run(visit, stop)


class LetterProcessor:
    """Retries or drops each selected letter of a scan.

    :param limit: the most letters to process; 0 for all
    :param progress: called for each letter that is finished
    :ivar left: how many selected letters stay
    :ivar first_problem: why the first of them stays
    """

    def __init__(
        self, scan: ChannelScan, meant: Filter, limit: int, progress: Callable[[], None] = lambda: None
    ) -> None:
        self.left: int = 0
        self.first_problem: str = ""
        self._scan = scan
        self._meant = meant
        self._limit = limit
        self._chosen_so_far = 0
        self._progress = progress
        self._stop = anyio.Event()
        self._producer: Producer | None = None

    @property
    def finished(self) -> int:
        """How many letters were retried or dropped, whether or not nsqd has confirmed it."""
        return len(self._scan.finished)

    @property
    def done(self) -> int:
        """How many letters were retried or dropped, as confirmed by nsqd at the end."""
        return len(self._scan.confirmed)

    @property
    def unconfirmed(self) -> int:
        """How many letters were finished and may still be there, because the connection was lost."""
        return self.finished - self.done

    async def drop(self, stop: anyio.Event) -> None:
        """Finish the letters.

        :raises NSQError: as `ChannelScan.run` does
        """
        self._stop = stop
        await self._scan.run(self._drop, stop)

    async def retry(
        self,
        stop: anyio.Event,
        *,
        options: ProducerOptions | None = None,
        connection: ConnectionOptions | None = None,
    ) -> None:
        """Publish the original bodies to their original topics, and then finish the letters.

        A body loses its ``nsq-id``, if it has one: to consumers that deduplicate, the message was handled.

        They are published on the nsqds that hold the letters.

        :raises NSQError: as `ChannelScan.run` does
        """
        from .producer import produce  # noqa: PLC0415 - reading needs no producer

        self._stop = stop

        async def visit(messages: Sequence[Message]) -> None:
            if self._producer is None:
                block = produce([*self._scan.nsqds.values()], options=options, connection=connection)
                self._producer = await self._scan.enter(block)
            async with anyio.create_task_group() as tasks:
                for letter in self._chosen(messages):
                    tasks.start_soon(self._retry, self._producer, letter)

        await self._scan.run(visit, stop)

    async def _drop(self, messages: Sequence[Message]) -> None:
        for letter in self._chosen(messages):
            self._finish(letter)

    async def _retry(self, producer: Producer, letter: Letter) -> None:
        try:
            topic = check_topic(letter.get(DeadLetterHeaders.TOPIC))
        except InvalidName as error:
            self._stays(letter, letter.problem or str(error))
            return
        if letter.body is None:
            self._stays(letter, letter.problem)
            return
        try:
            await producer.publish(topic, without_id(letter.body))
        except NSQError as error:
            self._stays(letter, str(error))
        else:
            self._finish(letter)

    def _chosen(self, messages: Sequence[Message]) -> list[Letter]:
        """Return the selected letters, up to the limit."""
        letters = [letter for letter in map(Letter.of, messages) if self._meant.takes(letter)]
        if self._limit:
            letters = letters[: self._limit - self._chosen_so_far]
            self._chosen_so_far += len(letters)
            if self._chosen_so_far == self._limit:
                self._stop.set()
        return letters

    def _finish(self, letter: Letter) -> None:
        self._scan.finish(letter.message)
        self._progress()

    def _stays(self, letter: Letter, problem: str) -> None:
        self.left += 1
        self.first_problem = self.first_problem or f"letter {letter.key}: {problem}"
