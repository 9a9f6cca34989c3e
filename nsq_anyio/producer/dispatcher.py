"""Send publications, and resend them if necessary, until each has an outcome."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import chain

import anyio

from ..address import NsqdAddress
from ..errors import NotSent, OutcomeUnknown, PublishError, PublishRejected
from ..events import Emitter, PublishedMessages, PublishFailed, PublishResent
from ..options import ConnectionOptions, ProducerOptions
from .outcomes import Verdict, answer_lost, block_ended, rejected, verdict
from .pool import Pool, ProducerConnection
from .publication import Attempt, OutcomeEvent, Publication, outcome_event_class
from .statistics import Counters

__all__ = ["Dispatcher"]

_RESOLUTION = 0.01
"""Seconds by which a deadline may be handled late, so that close deadlines are handled together."""


class Dispatcher:
    """Sends publications, and completes or resends them after nsqd's answers.

    A publication without an outcome either has an attempt on a connection, or waits here for room on one.
    Publications to resend go first, in the order in which they were sent. The others follow in the order in
    which they were submitted.
    """

    def __init__(
        self,
        nsqds: Sequence[NsqdAddress],
        *,
        options: ProducerOptions,
        connection_options: ConnectionOptions,
        emit: Emitter,
        fail: Callable[[Exception], None],
    ) -> None:
        self.counters: Counters = Counters()
        self.new_event: Callable[[], OutcomeEvent] = anyio.Event
        self.pool: Pool = Pool(
            nsqds,
            options=options,
            connection_options=connection_options,
            emit=emit,
            changed=self._connections_changed,
            may_send=self._send_waiting,
            fail=fail,
        )
        self._options = options
        self._emit = emit
        self._reports_success = self.pool.tracks_success or emit.has_hook
        self._take_answer = self._answered
        self._pending: dict[Publication, None] = {}
        self._first_deadline = math.inf  # the deadline that `_watch_deadlines` waits for
        self._earlier_deadline = anyio.Event()
        self._to_resend: OrderedDict[Publication, None] = OrderedDict()
        self._to_send: OrderedDict[Publication, None] = OrderedDict()
        self._change: anyio.Event | None = None
        self._draining = False
        self._ended = False

    @property
    def waiting(self) -> int:
        """The number of messages that wait for room or a connection."""
        return sum(publication.messages for publication in chain(self._to_resend, self._to_send))

    async def run(self) -> None:
        """Keep the connections up and watch the deadlines of publications, until cancelled."""
        self.new_event = outcome_event_class()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch_deadlines)
            tasks.start_soon(self._watch_connections)
            self.pool.start(tasks)

    # From the callers

    def watch(self, publication: Publication) -> None:
        """Expire a publication at its deadline even if it is not submitted yet."""
        self._pending[publication] = None
        if publication.deadline < self._first_deadline:  # rare: nearly all have the same timeout
            self._first_deadline = publication.deadline
            self._earlier_deadline.set()

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
        self._emit.to_hook(PublishFailed(topic, messages, error))

    def timed_out(self, publication: Publication) -> PublishError:
        """Return the error of a caller of ``publication`` whose publish has timed out."""
        timeout = self._options.publish_timeout
        if publication.attempt is not None:
            return OutcomeUnknown(f"no answer within publish_timeout={timeout:g} s")
        not_sent = NotSent(f"no room on a connection within publish_timeout={timeout:g} s")
        return publication.or_unknown(not_sent)

    # The end

    async def drain(self) -> None:
        """Wait until all publications have an outcome, or no connection is left to give them one."""
        self._draining = True
        # If a publication was sent before, wait for its nsqd to come back.
        while self._pending and (self.pool.open or self._to_resend):
            await self._changed()

    def end(self) -> None:
        """Send nothing more: publications that wait for room fail, since the block has ended."""
        self._ended = True
        for publication in [*self._to_resend, *self._to_send]:
            self._complete(publication, block_ended())

    # Sending

    def _send(self, publication: Publication, now: float) -> bool:
        """Send a publication on the connection that the pool picks; return False if none has room."""
        connection = self.pool.pick(publication.messages, publication.size, now, publication.refused_by)
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
        now = anyio.current_time()
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
                self._report_success(attempt)
            if not publication.done:
                self._complete(publication, None)
            return
        if publication.done:
            return  # the publication's callers have timed out
        match verdict(attempt):
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

    def _report_success(self, attempt: Attempt) -> None:
        now = anyio.current_time()
        seconds = now - attempt.sent_at
        self.pool.succeeded(attempt.connection, seconds, now)
        if self._emit.has_hook:
            topic = attempt.publication.topic
            self._emit.to_hook(PublishedMessages(attempt.connection.nsqd, topic, attempt.messages, seconds))

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
            self.counters.resent += publication.messages
            self._emit.to_hook(PublishResent(connection.nsqd, publication.topic, publication.messages, error))
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

    async def _watch_deadlines(self) -> None:
        """Expire publications. One task serves all: a timer for each would cost more than its publish."""
        while True:
            self._earlier_deadline = anyio.Event()
            now = anyio.current_time()
            for publication in [each for each in self._pending if each.deadline <= now]:
                self._expire(publication, now)
            self._first_deadline = min((each.deadline for each in self._pending), default=math.inf)
            with anyio.move_on_after(max(self._first_deadline - now, _RESOLUTION)):
                await self._earlier_deadline.wait()

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
            if self.pool.open or publication is None:
                await self._changed()
                continue
            remaining = max(self.pool.lost_at, publication.started) + timeout - anyio.current_time()
            if remaining > 0:
                with anyio.move_on_after(remaining):
                    await self._changed()
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

    async def _changed(self) -> None:
        if self._change is None:
            self._change = anyio.Event()
        await self._change.wait()
