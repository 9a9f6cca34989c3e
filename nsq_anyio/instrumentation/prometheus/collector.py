"""The collector of consumers, producers and services, which prometheus_client calls at each scrape."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from threading import RLock, get_ident

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.metrics_core import Metric as Family

from ... import sync
from ...consumer import Consumer
from ...delaying import Delays
from ...errors import DelayFileUnusable, InvalidOption
from ...producer import Producer
from ...sync.outcome import Outcome
from .metrics import LOOP_DELAY
from .readers import ConsumerReader, DelaysReader, ProducerReader, Reader
from .samples import Samples, check_buckets, families

_log = logging.getLogger(__name__)


class Member:
    """One measured object, which any thread can read. Create it in the thread of its event loop.

    Its numbers change in that thread, and are read only there: a scrape in another thread asks the event loop
    to read them, and waits. So a scrape takes no lock, and never sees a partial change. If the event loop is
    blocked, the scrape soon continues with the values of the previous scrape.

    :param begin: begins to measure it
    :ivar channel: the topic and channel of a consumer or service; empty for a producer
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

    def waiting(self) -> Samples:
        """Return what waits in the file of a service for delays; nothing for others, or if it has ended."""
        if not isinstance(self._reader, DelaysReader) or self.is_last:
            return Samples()
        try:
            return self._reader.waiting()
        except DelayFileUnusable as error:
            _log.warning("a scrape has no figures of what waits: %s", error)
            return Samples()

    def update(self) -> None:
        """Read the samples; only in its event loop, or once it has ended."""
        has_ended = self._reader.has_ended
        self.samples = self._reader.read()
        self.is_last = has_ended  # set after the samples, because another thread checks it first

    def request(self) -> Outcome[None]:
        """Request that the samples are read; the outcome is set when they are."""
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

    The returned function raises RuntimeError once the loop has ended. Unlike its counterpart in
    `nsq_anyio.transport`, this also works in callbacks. If Trio runs as a guest, the host loop will do,
    because both run in the same thread.
    """
    with suppress(RuntimeError):
        return asyncio.get_running_loop().call_soon_threadsafe
    with suppress(ModuleNotFoundError, RuntimeError):
        import trio  # noqa: PLC0415 - an extra

        return trio.lowlevel.current_trio_token().run_sync_soon
    raise InvalidOption("add() was called outside of an event loop: call it inside the `async with` block")


_BUCKETS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
PATIENCE = 1.0
"""Seconds that a scrape waits for event loops."""

MOST_ENDED = 100
"""The number of channels whose counts stay after their last consumer has ended. Without this limit, ephemeral
channels would add up."""


class NSQCollector:
    """Collects the metrics of any number of consumers, producers and services for delays.

    :param registry: the registry to register with; default: prometheus_client's own; None for none
    :param duration_buckets: the bucket bounds of the duration histograms, in ascending seconds, more than 0;
        default: 18 bounds from 0.0001 to 60
    :raises InvalidOption: if the buckets are not valid
    :raises ValueError: if the registry already has such a collector
    """

    def __init__(
        self,
        registry: CollectorRegistry | None = REGISTRY,
        *,
        duration_buckets: Sequence[float] = _BUCKETS,
    ) -> None:
        self._buckets = check_buckets(duration_buckets)
        self._lock = RLock()  # a signal handler may scrape while it is held
        self._members: list[Member] = []
        self._ended: OrderedDict[tuple[str, ...], Samples] = OrderedDict()
        if registry is not None:
            registry.register(self)

    @property
    def measured(self) -> int:
        """The number of measured objects, including any that ended since the last scrape.

        A service for delays counts as three: itself, its consumer and its producer.
        """
        return len(self._members)

    def add(self, measured: Consumer | Producer | Delays | sync.Consumer | sync.Producer) -> None:
        """Measure a consumer, producer or service until it ends. Call this at the beginning of its block.

        After its end, its counts stay in later scrapes. For an async consumer, producer or service, call this
        in its event loop. A consumer or producer of ``nsq_anyio.sync`` is opened by this call, if it was not
        open. With a service for delays, its consumer and its producer are measured, too.

        :param measured: a consumer or producer, of ``nsq_anyio`` or of ``nsq_anyio.sync``, or what
            `delays` yields
        :raises InvalidOption: if it is something else, if it was added before, or outside of an event loop
        """
        match measured:
            case Consumer():
                member = Member(partial(ConsumerReader, measured, self._buckets))
            case Producer():
                member = Member(partial(ProducerReader, measured, self._buckets))
            case Delays():
                self.add(measured._consumer)
                self.add(measured._producer)
                member = Member(partial(DelaysReader, measured))
            case sync.Consumer() | sync.Producer():
                measured._measure(self.add)
                return
            case _:
                raise InvalidOption(f"add({measured!r}) is not valid: use a consumer, producer or service")
        with self._lock:
            self._drop([each for each in self._members if each.has_ended])
            self._members.append(member)

    def describe(self) -> Iterable[Family]:
        """Return the metrics without values. Called when the collector is registered."""
        return families()

    def collect(self) -> Iterable[Family]:
        """Return the metrics with their current values. Any thread may call this."""
        with self._lock:
            self._members = [member for member in self._members if not member.is_forked]
            members = list(self._members)
            samples = Samples()
            for ended in self._ended.values():
                samples.merge(ended)
        started = time.monotonic()
        requests = [member.request() for member in members]
        for request in requests:
            with suppress(TimeoutError):  # the event loop is blocked: keep the samples of the previous scrape
                request.result(max(started + PATIENCE - time.monotonic(), 0))
        samples.add(LOOP_DELAY, time.monotonic() - started)
        for member in members:
            samples.merge(member.samples.without_gauges() if member.is_last else member.samples)
            samples.merge(member.waiting())
        with self._lock:
            self._drop([member for member in members if member.is_last])
        return samples.families()

    def _drop(self, ended: Iterable[Member]) -> None:
        """Drop members that have ended, and keep their counts."""
        for member in ended:
            if member in self._members:  # otherwise another thread was faster
                if not member.is_last:
                    member.update()
                self._members.remove(member)
                kept = self._ended.setdefault(member.channel, Samples())
                kept.merge(member.samples.without_gauges())
                self._ended.move_to_end(member.channel)
        while len(self._ended) > MOST_ENDED:
            self._ended.popitem(last=False)
