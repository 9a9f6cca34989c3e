"""The dispatcher of publications: it sends each, and resends it if necessary, until there is an outcome."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from itertools import chain
from typing import Protocol

import anyio

from ..errors import NotSent, OutcomeUnknown, PublishError, PublishRejected
from ..events import Emitter, PublishFailed, PublishResent
from ..options import ProducerOptions
from ..transport.event_loop import LoopEvent, clock, current_task, event_class
from .meter import ProducerMeter
from .pool import Pool, ProducerConnection
from .publication import (
    Attempt,
    Deadlines,
    Publication,
    Successes,
    Verdict,
    answer_lost,
    block_ended,
    rejected,
    verdict,
)
from .statistics import PublishCounters


class NewPool(Protocol):
    """Creates the pool of a dispatcher, with the functions that the pool calls."""

    def __call__(self, *, changed: Callable[[], None], may_send: Callable[[], None]) -> Pool: ...


class Dispatcher:
    """Sends publications, and completes or resends them after nsqd's answers.

    A publication without an outcome either has an attempt on a connection, or waits here for room on one.
    Publications to resend go first, in the order in which they were sent; then the others, in the order of
    `submit`.

    :param noting: whether to set `Publication.stored_by`
    :ivar new_event: makes an event of the running loop; set by `begin`
    :ivar now: the clock of the running loop; set by `begin`
    :ivar current_task: returns the task that runs; set by `begin`
    """

    new_event: Callable[[], LoopEvent]
    now: Callable[[], float]
    current_task: Callable[[], object]

    def __init__(self, new_pool: NewPool, *, options: ProducerOptions, emit: Emitter, noting: bool) -> None:
        self.counters: PublishCounters = PublishCounters()
        self.pool: Pool = new_pool(changed=self._connections_changed, may_send=self._send_waiting)
        self._options = options
        self._emit = emit
        self.successes: Successes = Successes(self.pool, emit, noting=noting)
        self._reports_success = self.successes.are_wanted
        self._take_answer = self._answered
        self._pending: dict[Publication, None] = {}
        self._deadlines = Deadlines(self._pending, self._expire)
        self._to_resend: OrderedDict[Publication, None] = OrderedDict()
        self._to_send: OrderedDict[Publication, None] = OrderedDict()
        self._change: anyio.Event | None = None
        self._draining = False
        self._ended = False

    @property
    def waiting(self) -> int:
        """The number of messages that wait for room or a connection."""
        return sum(publication.messages for publication in chain(self._to_resend, self._to_send))

    def begin(self) -> None:
        """Take the clock and the events of the running loop. Called first, at the beginning of the block."""
        self.new_event = event_class()
        self.now = clock()
        self.current_task = current_task()

    async def run(self) -> None:
        """Keep the connections up and watch the deadlines of publications, until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._deadlines.run)
            tasks.start_soon(self._watch_connections)
            self.pool.start(tasks)

    def measure(self, meter: ProducerMeter) -> None:
        """Report to ``meter`` from now on."""
        self.successes.meter = meter
        self._reports_success = True
        self._emit.observe(meter.happened)

    # From the callers

    def watch(self, publication: Publication) -> None:
        """Expire a publication at its deadline even if it is not submitted yet."""
        self._pending[publication] = None
        if publication.deadline < self._deadlines.next_check:
            self._deadlines.check_earlier(publication.deadline)

    def submit(self, publication: Publication, now: float) -> None:
        """Send a publication once there is room, and resend it if necessary, until it has an outcome."""
        self.watch(publication)
        if self._to_resend or self._to_send or not self._send(publication, now):
            self._to_send[publication] = None
            if not self.pool.open:
                self._notify()

    def abandon(self, publication: Publication) -> None:
        """Stop sending and resending a publication whose callers have gone; an answer still counts."""
        publication.abandoned = True
        self._pending.pop(publication, None)
        if publication.attempt is None and not publication.done:
            self._stop_waiting(publication)
            publication.complete(None)  # no caller is left to read the outcome
        if self._draining:
            self._notify()

    def give_up(self, topic: str, messages: int, error: PublishError) -> None:
        """Count messages whose publish has failed, and report them to the event hook."""
        self.counters.count(error, messages)
        self._emit.to_hook(PublishFailed(messages, error, topic=topic))

    def timed_out(self, publication: Publication) -> PublishError:
        """Return the error of a caller of ``publication`` whose publish has timed out."""
        timeout = self._options.publish_timeout
        if publication.attempt is not None:
            return OutcomeUnknown(f"no answer within publish_timeout={timeout:g} s")
        why = "no room on a connection" if self.pool.open else "no connection"
        more = "" if self.pool.open else f": {self.pool.why_not_open()}"
        return publication.or_unknown(NotSent(f"{why} within publish_timeout={timeout:g} s{more}"))

    # The end

    async def drain(self) -> None:
        """Wait until all publications have an outcome, or no connection is left to give them one."""
        self._draining = True
        self._notify()
        # A publication that was sent before waits for its nsqd to come back.
        while self._pending and (self.pool.open or self.pool.leaving or self._to_resend):
            await self.changed()

    def end(self) -> None:
        """Send nothing more: publications that wait for room fail, since the block has ended."""
        self._ended = True
        self._notify()
        for publication in [*self._to_resend, *self._to_send]:
            self._complete(publication, block_ended())

    # Sending

    def _send(self, publication: Publication, now: float) -> bool:
        """Send a publication on the connection that the pool picks; return False if none has room."""
        connection = self.pool.pick(
            publication.topic, publication.messages, publication.size, now, publication.refused_by
        )
        if connection is None:
            return False
        command, data = publication.encode()
        attempt = publication.attempt = Attempt(publication, connection, len(data), now, self._take_answer)
        connection.send(command, data, attempt.messages, attempt)
        return True

    def _send_waiting(self) -> None:
        """Send the publications that wait, in order, while there is room."""
        if not (self._to_resend or self._to_send):
            return
        now = self.now()
        while (publication := self._first_waiting()) is not None:
            if self._send(publication, now):
                self._stop_waiting(publication)
            elif publication.refusal is not None and self.pool.open and self._all_refused(publication):
                self._complete(publication, publication.refusal)
            else:
                return

    def _first_waiting(self) -> Publication | None:
        return next(chain(self._to_resend, self._to_send), None)

    def _stop_waiting(self, publication: Publication) -> None:
        self._to_resend.pop(publication, None)
        self._to_send.pop(publication, None)

    # Answers

    def _answered(self, attempt: Attempt) -> None:
        """Called when an attempt has succeeded or failed: complete its publication, or resend it."""
        publication, connection, error = attempt.publication, attempt.connection, attempt.error
        connection.answered(attempt.messages, attempt.size, stored=error is None)
        publication.attempt = None
        if error is None:
            if self._reports_success:
                self.successes.report(attempt)
            if not publication.done:
                self._complete(publication, None)
            return
        meaning = verdict(attempt)
        if meaning is Verdict.REJECTED:
            connection.was_rejected = True
        if publication.done:
            return  # the publication's callers have timed out
        match meaning:
            case Verdict.NOT_EXECUTED:
                self._resend(publication, connection, error)
            case Verdict.NOT_STORED:
                self.pool.failed(connection, error)
                publication.refusal = rejected(error)
                publication.refused_by = (*publication.refused_by, connection)
                if self._all_refused(publication):
                    self._complete(publication, publication.refusal)
                else:
                    self._resend(publication, connection, error)
            case Verdict.REJECTED:
                self._refused(publication, rejected(error), attempt.messages)
            case Verdict.UNKNOWN:
                publication.unknown = answer_lost(error)
                if self._options.resend_unknown:
                    self._resend(publication, connection, error)
                else:
                    self._complete(publication, publication.unknown)

    def _all_refused(self, publication: Publication) -> bool:
        """Return whether every connected nsqd has refused to store the publication."""
        return all(connection in publication.refused_by for connection in self.pool.open)

    def _refused(self, publication: Publication, refusal: PublishRejected, messages: int) -> None:
        parts = publication.split(refusal, messages)
        if parts is None:
            self._complete(publication, refusal)
            return
        self._pending.pop(publication, None)
        for part in parts:
            self.watch(part)
            self._put_back(part)

    def _resend(self, publication: Publication, connection: ProducerConnection, error: Exception) -> None:
        if publication.abandoned:
            publication.complete(None)  # no caller is left to read the outcome
            return
        if not self._ended:
            self.counters.resent += (messages := publication.messages)
            self._emit.to_hook(PublishResent(connection.nsqd, messages, error, topic=publication.topic))
        self._put_back(publication)

    def _put_back(self, publication: Publication) -> None:
        """Queue a publication to resend after its lost connection has returned all of its publications."""
        if self._ended:
            self._complete(publication, block_ended())
        else:
            self._to_resend[publication] = None

    def _complete(self, publication: Publication, error: PublishError | None) -> None:
        self._pending.pop(publication, None)
        if error is not None:
            self._stop_waiting(publication)
            error = publication.or_unknown(error)
            if publication.messages:
                self.give_up(publication.topic, publication.messages, error)
        publication.complete(error)
        if self._draining:
            self._notify()

    # Time

    def _expire(self, publication: Publication, now: float) -> None:
        error = self.timed_out(publication)
        if publication.attempt is not None:
            self.pool.failed(publication.attempt.connection, error)
        if publication.expire(now):
            self._complete(publication, error)

    async def _watch_connections(self) -> None:
        """Fail the waiting publications after ``connect_timeout`` without a connection."""
        timeout = self._options.connect_timeout
        while True:
            publication = self._first_waiting()
            if self.pool.open or self.pool.knows_none or publication is None:
                await self.changed()
                continue
            remaining = max(self.pool.lost_at, publication.started) + timeout - anyio.current_time()
            if remaining > 0:
                with anyio.move_on_after(remaining):
                    await self.changed()
                continue
            why = self.pool.why_not_open()
            self._complete(publication, NotSent(f"no connection within connect_timeout={timeout} s: {why}"))

    def _connections_changed(self) -> None:
        self._send_waiting()
        self._notify()

    def _notify(self) -> None:
        if self._change is not None:
            self._change.set()
            self._change = None

    async def changed(self) -> None:
        """Wait until a connection is opened or lost, or the block begins to end."""
        if self._change is None:
            self._change = anyio.Event()
        await self._change.wait()
