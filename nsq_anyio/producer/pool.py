"""The nsqds of a producer: where a publish goes, where it waits, and where it goes next."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import anyio

from ..address import NsqdAddress
from ..errors import NotSent, OutcomeUnknown, PublishError, PublishRejected
from ..events import Emitter, NsqdLeftOut, PublishedMessages, PublishFailed, PublishResent
from ..options import ConnectionOptions, ProducerOptions
from ..policy.host_pool import EpsilonGreedy, FailingHosts, LeastOutstanding, RoundRobin
from .backlog import Backlog
from .deadlines import Deadlines
from .link import Link, Sent
from .one_shot import OneShot, one_shot_class
from .outcomes import Verdict, block_ended, certain, rejected, verdict
from .publication import Publication
from .statistics import Counters

__all__ = ["Pool"]

_MODES: dict[str, Callable[[], RoundRobin[Link]]] = {
    "round_robin": RoundRobin,
    "least_outstanding": LeastOutstanding,
    "hostpool": FailingHosts,
    "epsilon_greedy": lambda: EpsilonGreedy(random.Random()),
}


class Pool:
    """Sends publications on connections with room, again if need be, until each has its outcome.

    A publication is on a connection, or it waits here, in order.
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
        self.accepted: bool = False
        self.counters: Counters = Counters()
        self.new_event: Callable[[], OneShot] = anyio.Event
        self.links: list[Link] = [
            Link(address, options=options, connection_options=connection_options, emit=emit, owner=self)
            for address in nsqds
        ]
        self._options = options
        self._emit = emit
        self._fail = fail
        self._deadlines = Deadlines(self._expired)
        self._live = self._deadlines.live
        self._hosts = _MODES[options.mode]()
        self._tells_success = self._hosts.tracks or emit.has_hook
        self._open: list[Link] = []
        self._without_since = 0.0  # when the last connection was lost
        self._backlog = Backlog()
        self._change: anyio.Event | None = None
        self._draining = False
        self._ended = False

    @property
    def waiting(self) -> int:
        """How many messages wait for room or a connection."""
        return sum(publication.messages for publication in self._backlog)

    @property
    def connected(self) -> int:
        """How many connections there are."""
        return len(self._open)

    async def run(self) -> None:
        """Keep all links connected, until cancelled."""
        self.new_event = one_shot_class()
        self._without_since = anyio.current_time()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._deadlines.watch)
            tasks.start_soon(self._watch_connections)
            for link in self.links:
                tasks.start_soon(link.run)

    # From the callers

    def watch(self, publication: Publication) -> None:
        """Let it end at its deadline, although it is not submitted yet."""
        self._deadlines.add(publication)

    def submit(self, publication: Publication, now: float) -> None:
        """Send it, now or as soon as there is room, and again if need be, until it is done."""
        self._deadlines.add(publication)
        if self._backlog or not self._send(publication, now):
            self._backlog.add(publication)
            if not self._open:
                self._notify()

    def abandon(self, publication: Publication) -> None:
        """Nobody waits for it any more: it is not sent, or not again. Its place among the answers stays."""
        publication.abandoned = True
        self._live.pop(publication, None)
        if publication.link is None and not publication.done:
            self._backlog.remove(publication)
            publication.finish(None)  # nobody reads it
        if self._draining:
            self._notify()

    def give_up(self, topic: str, messages: int, error: PublishError) -> None:
        """Count messages that get no further, and tell of them."""
        self.counters.count(error, messages)
        self._emit.to_hook(PublishFailed(topic, messages, error))

    def timed_out(self, publication: Publication) -> PublishError:
        """What a caller of ``publication`` gets whose time is over."""
        timeout = self._options.publish_timeout
        if publication.link is not None:
            return OutcomeUnknown(f"no answer within publish_timeout={timeout:g} s")
        return certain(publication, NotSent(f"no room on a connection within publish_timeout={timeout:g} s"))

    # From the links

    def link_changed(self, link: Link) -> None:  # noqa: ARG002
        """A connection came or went."""
        had = bool(self._open)
        self._open = [each for each in self.links if each.connection is not None]
        if had and not self._open:
            self._without_since = anyio.current_time()
        self.progressed()
        self._notify()

    def link_failed(self, link: Link, error: Exception) -> None:
        """No connection came about, or it was lost, or did not do what it is for."""
        seconds = self._hosts.failed(link, anyio.current_time())
        if seconds is not None:
            self._emit(NsqdLeftOut(link.nsqd, seconds, error))

    def link_refused(self, error: Exception) -> None:
        """No retry can change that there is no connection."""
        self._fail(error)

    def progressed(self) -> None:
        """There may be room: send what waits, in order."""
        if not self._backlog:
            return
        now = anyio.current_time()
        while (publication := self._backlog.first()) is not None:
            if self._send(publication, now):
                self._backlog.remove(publication)
            elif publication.refusal is not None and self._open and self._all_refused(publication):
                self._finish(publication, publication.refusal)
            else:
                return

    def answered(self, publication: Publication, link: Link, request: Sent) -> None:
        """Nothing more will come for what was sent: this is the outcome, or it is sent again."""
        publication.link = None
        error = request.error
        if error is None:
            if self._tells_success:
                self._tell_success(publication, link)
            if not publication.done:
                self._finish(publication, None)
            return
        if publication.done:
            return  # its callers were told before
        match verdict(request, publication.sent_messages):
            case Verdict.NOT_EXECUTED:
                self._again(publication, link, error)
            case Verdict.NOT_STORED:
                self.link_failed(link, error)
                publication.refusal = rejected(error)
                publication.refused_by = (*publication.refused_by, link)
                if self._all_refused(publication):
                    self._finish(publication, publication.refusal)
                else:
                    self._again(publication, link, error)
            case Verdict.REJECTED:
                self._refused(publication, rejected(error))
            case Verdict.UNKNOWN:
                publication.lost = OutcomeUnknown(f"the answer was lost: {error}")
                publication.lost.__cause__ = error
                if self._options.resend_unknown:
                    self._again(publication, link, error)
                else:
                    self._finish(publication, publication.lost)

    # The end

    async def drain(self) -> None:
        """Wait until all is sent and answered, as far as there are connections."""
        self._draining = True
        # What was sent before and has to be sent again is worth waiting for its nsqd to come back.
        while self._live and (self._open or self._backlog.has_returned):
            await self._changed()

    async def close(self) -> None:
        """Send nothing more, and disconnect once nsqd has handled what was sent."""
        self.end()
        async with anyio.create_task_group() as tasks:
            for link in self.links:
                tasks.start_soon(link.close)

    def end(self) -> None:
        """Send nothing more: whoever waits for a place on a connection learns that it is over."""
        self._ended = True
        for publication in list(self._backlog):
            self._finish(publication, block_ended())

    # Sending

    def _send(self, publication: Publication, now: float) -> bool:
        """Send it on the connection that the mode picks; False if there is none with room."""
        hosts = self._open
        if publication.refused_by:
            hosts = [link for link in hosts if link not in publication.refused_by]
        if not hosts:
            return False
        count, size = publication.messages, publication.size
        if len(self.links) > 1:
            link = self._hosts.pick(hosts, count, size, now)
        else:
            link = hosts[0] if hosts[0].has_room(count, size) else None
        if link is None:
            return False
        publication.sent_at = now
        link.send(publication)
        return True

    def _all_refused(self, publication: Publication) -> bool:
        """Whether no connected nsqd is left that has not said that it cannot store it."""
        return all(link in publication.refused_by for link in self._open)

    def _refused(self, publication: Publication, refusal: PublishRejected) -> None:
        parts = publication.split(refusal)
        if parts is None:
            self._finish(publication, refusal)
            return
        self._live.pop(publication, None)
        for part in parts:
            self._deadlines.add(part)
            self._put_back(part)

    def _again(self, publication: Publication, link: Link, error: Exception) -> None:
        if publication.abandoned:
            publication.finish(None)  # nobody reads it
            return
        if not self._ended:
            self.counters.resent += publication.messages
            self._emit.to_hook(PublishResent(link.nsqd, publication.topic, publication.messages, error))
        self._put_back(publication)

    def _put_back(self, publication: Publication) -> None:
        """Let one be sent again: when all that its connection, which is ending, carried has come back."""
        if self._ended:
            self._finish(publication, block_ended())
        else:
            self._backlog.add_returned(publication)

    def _finish(self, publication: Publication, error: PublishError | None) -> None:
        self._live.pop(publication, None)
        if error is not None:
            self._backlog.remove(publication)
            error = certain(publication, error)
            if publication.messages:
                self.give_up(publication.topic, publication.messages, error)
        publication.finish(error)
        if self._draining:
            self._notify()

    def _tell_success(self, publication: Publication, link: Link) -> None:
        now = anyio.current_time()
        seconds = now - publication.sent_at
        self._hosts.succeeded(link, seconds, now)
        if self._emit.has_hook:
            event = PublishedMessages(link.nsqd, publication.topic, publication.sent_messages, seconds)
            self._emit.to_hook(event)

    # Time

    def _expired(self, publication: Publication, now: float) -> None:
        error = self.timed_out(publication)
        if publication.link is not None:
            self.link_failed(publication.link, error)
        if publication.expire(now):
            self._finish(publication, error)

    async def _watch_connections(self) -> None:
        """Give up what waits when there is no connection for ``connect_timeout``."""
        timeout = self._options.connect_timeout
        while True:
            publication = self._backlog.first()
            if self._open or publication is None:
                await self._changed()
                continue
            remaining = max(self._without_since, publication.started) + timeout - anyio.current_time()
            if remaining > 0:
                with anyio.move_on_after(remaining):
                    await self._changed()
                continue
            reasons = (str(link.last_error or f"nsqd {link.nsqd}: not connected yet") for link in self.links)
            text = f"no connection within connect_timeout={timeout} s: {'; '.join(reasons)}"
            self._finish(publication, NotSent(text))

    def _notify(self) -> None:
        if self._change is not None:
            self._change.set()
            self._change = None

    async def _changed(self) -> None:
        if self._change is None:
            self._change = anyio.Event()
        await self._change.wait()
