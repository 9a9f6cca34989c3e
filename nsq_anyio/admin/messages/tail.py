"""Live tails: copies of a topic's messages, shared by all of its viewers.

The first viewer of a topic starts its tail, and the last to leave cancels it. When a connection is lost, or a
poll sees other nsqds with the topic, the tail asks the nsqds again. Messages are rendered once for all
viewers, who read them from a ring.
"""

from __future__ import annotations

import logging
import math
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Literal

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from ...errors import InvalidOption, NSQError, PermanentRefusal, TLSFailed
from ...exceptions import ungrouped
from ...monitoring import Watch
from ...options import ConnectionOptions
from ..upstream import Upstream
from .bounds import MessageBounds
from .content import MessageRow
from .copies import Copies, Copy, NothingLasts
from .topic_nodes import TopicNode, TopicNodes


@dataclass(frozen=True, slots=True)
class TailState:
    """The state of a tail, which viewers see beside the messages.

    :ivar phase: ``draining``: it would consume the backlog, which no viewer has confirmed; ``gone``: no nsqd
        has the topic; ``closed``: the application ends
    :ivar connected: the names of the nsqds that send messages
    :ivar left_out: the nsqds that are left out, each with the reason
    :ivar waiting: in the phase ``draining``, the size of the backlog
    :ivar sample_rate: the sample rate that nsqd was asked for; 0 for all messages
    :ivar received: messages received per second
    :ivar shown: messages shown per second
    :ivar is_paused: whether nsqd passes on no messages of the topic
    :ivar takes: whether it consumes the backlog
    :ivar problem: why it ended
    """

    phase: Literal["starting", "live", "draining", "gone", "failed", "closed"] = "starting"
    connected: Sequence[str] = ()
    left_out: Sequence[tuple[str, str]] = ()
    waiting: int = 0
    sample_rate: int = 0
    received: float = 0.0
    shown: float = 0.0
    is_paused: bool = False
    takes: bool = False
    problem: str = ""

    @property
    def estimated(self) -> float:
        """The estimated rate of the topic, in messages per second."""
        return self.received * 100 / self.percent_sent

    @property
    def percent_sent(self) -> int:
        """The percentage of the messages that nsqd sends."""
        return percent_sent(self.sample_rate)

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self.phase not in ("starting", "live")


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rendered messages.

    :ivar number: how many messages were shown, up to and including its last
    """

    number: int
    html: str


_log = logging.getLogger(__name__)

_TICK = 0.25
_TICKS_A_STATE = 4
_FACTOR = 4.0
"""The sample rate is changed when the rate of messages is off by more than this factor."""
_SETTLED = 10.0
_PAUSE = 1.0


class Tail:
    """Shows copies of the messages of a topic, through its own ephemeral channel.

    It never creates a topic. Unless ``may_drain``, it uses only nsqds where the topic has a lasting channel:
    elsewhere it would consume the backlog.

    :param render: renders messages; called in a worker thread
    :ivar state: the last state
    """

    def __init__(
        self,
        topic: str,
        watch: Watch,
        upstream: Upstream,
        connection: ConnectionOptions,
        render: Callable[[Sequence[MessageRow]], str],
        bounds: MessageBounds,
        *,
        may_drain: bool = False,
    ) -> None:
        self.state: TailState = TailState()
        self.may_drain = may_drain
        self._topic = topic
        self._channel = f"admin-tail-{secrets.token_hex(4)}#ephemeral"
        self._watch = watch
        self._upstream = upstream
        self._connection = connection
        self._render = render
        self._bounds = bounds
        self._pieces: deque[Piece] = deque()
        self._number = 0
        self._changed = anyio.Event()
        self._begin_session(())

    def _begin_session(self, nodes: Sequence[TopicNode]) -> None:
        """Reset the state of the previous connections."""
        self._nodes = nodes
        self._names = {node.address: node.name for node in nodes}
        self._connected: set[str] = set()
        self._failed: dict[str, str] = {}
        self._restart = anyio.Event()
        self._sampler = Sampler(self._bounds.shown_per_second)
        self._picked: list[Copy] = []
        self._begun = 0.0
        self._is_rate_wrong = False

    @property
    def number(self) -> int:
        """How many messages were shown so far."""
        return self._number

    def since(self, number: int) -> list[Piece]:
        """Return the kept pieces after the first ``number`` messages."""
        return [piece for piece in self._pieces if piece.number > number]

    async def changed(self) -> None:
        """Wait for new messages or a new state."""
        await self._changed.wait()

    def close(self) -> None:
        """Tell viewers that the tail has ended, unless its state says so already."""
        if not self.state.is_over:
            self._tell(TailState("closed"))

    async def run(self) -> None:
        """Show messages until cancelled, or until the tail cannot go on; then `state` says why."""
        try:
            with ungrouped():
                sample_rate = self._first_sample_rate()
                while (nodes := await self._planned()) is not None:
                    sample_rate = await self._session(nodes, sample_rate)
                    await anyio.sleep(_PAUSE)
        except NSQError as error:
            self._tell(replace(self.state, phase="failed", connected=(), problem=str(error)))
        except Exception as error:  # noqa: BLE001 - one tail must not end the application
            _log.exception("the tail of topic %s failed", self._topic)
            text = f"{type(error).__name__}: see the log of the application"
            self._tell(replace(self.state, phase="failed", connected=(), problem=text))

    async def _planned(self) -> Sequence[TopicNode] | None:
        """Return the nsqds to connect to; None if there is none, and then `state` says why."""
        snapshot = await self._watch.after(None)
        found = await TopicNodes.asked(self._upstream, snapshot, self._topic, self._connection)
        if not found.all:
            self._tell(TailState("gone"))
            return None
        nodes = found.reachable if self.may_drain else found.safe
        left_out = [(node.name, node.problem) for node in found.all if not node.address]
        if not self.may_drain:
            left_out += [(node.name, _no_channel(node)) for node in found.drained]
        if not nodes:
            if found.drained:
                self._tell(TailState("draining", left_out=left_out, waiting=found.waiting))
            else:
                self._tell(TailState("failed", left_out=left_out, problem="no nsqd can be reached by TCP"))
            return None
        is_paused = any(node.topic.paused for node in nodes)
        takes = bool(found.drained) and self.may_drain
        self._tell(TailState("starting", left_out=left_out, is_paused=is_paused, takes=takes))
        return nodes

    async def _session(self, nodes: Sequence[TopicNode], sample_rate: int) -> int:
        """Show messages until the nsqds change or the sample rate no longer fits; return the next rate."""
        self._begin_session(nodes)
        self._begun = anyio.current_time()
        self._tell(replace(self.state, sample_rate=sample_rate))
        async with anyio.create_task_group() as tasks:

            async def end() -> None:
                await self._restart.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(end)
            tasks.start_soon(self._show)
            tasks.start_soon(self._watch_nodes)
            for node in nodes:
                tasks.start_soon(self._copy, node, sample_rate)
        if not self._is_rate_wrong:
            return sample_rate
        received, _ = self._sampler.rates(anyio.current_time())
        return sample_rate_for(received * 100 / percent_sent(sample_rate), self._bounds.received_per_second)

    async def _copy(self, node: TopicNode, sample_rate: int) -> None:
        """Receive copies from one nsqd; end the session if they stop or the connection is lost."""
        copies = Copies(node, self._channel, self._upstream, self._took, may_drain=self.may_drain)

        def subscribed() -> None:
            self._connected.add(node.address)
            self._tell_rates()

        try:
            await copies.run(replace(self._connection, sample_rate=sample_rate), subscribed)
        except (InvalidOption, PermanentRefusal, TLSFailed):
            raise
        except NSQError as error:
            if isinstance(error, NothingLasts) or node.address in self._connected:
                self._restart.set()
            self._failed[node.address] = str(error)
            self._tell_rates()

    def _took(self, copies: Sequence[Copy]) -> None:
        now = anyio.current_time()
        self._picked += [copy for copy in copies if self._sampler.pick(now)]

    async def _show(self) -> None:
        """Render the picked messages and update the state, repeatedly."""
        for ticks in range(1 << 62):
            await anyio.sleep(_TICK)
            picked, self._picked = self._picked, []
            if picked:
                html = await anyio.to_thread.run_sync(self._rendered, picked)
                self._number += len(picked)
                self._keep(Piece(self._number, html))
            if ticks % _TICKS_A_STATE == 0:
                self._tell_rates()

    def _rendered(self, messages: Sequence[Copy]) -> str:
        return self._render([MessageRow.of(message) for message in messages])

    def _keep(self, piece: Piece) -> None:
        self._pieces.append(piece)
        while len(self._pieces) > 1 and self._number - self._pieces[0].number >= self._bounds.kept:
            self._pieces.popleft()
        self._note_change()

    async def _watch_nodes(self) -> None:
        """End the session when a poll sees the topic, or a lasting channel, on other nsqds."""
        snapshot = self._watch.last
        while True:
            snapshot = await self._watch.after(snapshot)
            if anyio.current_time() - self._begun < snapshot.survey.seconds + _TICK:
                continue  # its answers may be older than the session
            found = TopicNodes.in_snapshot(snapshot, self._topic, self._connection)
            wanted = found.reachable if self.may_drain else found.safe
            asked = {each.node.url for each in snapshot.survey.nsqds if not each.error}
            before = {node.address for node in self._nodes if node.url in asked}
            if {node.address for node in wanted if node.url in asked} != before:
                self._restart.set()
            self._tell(replace(self.state, is_paused=any(node.topic.paused for node in wanted)))

    def _tell_rates(self) -> None:
        received, picked = self._sampler.rates(anyio.current_time())
        wanted, sample_rate = self._bounds.received_per_second, self.state.sample_rate
        too_many = received > wanted * _FACTOR and sample_rate != 1
        is_settled = anyio.current_time() - self._begun > _SETTLED
        if too_many or (is_settled and sample_rate and received < wanted / _FACTOR):
            self._is_rate_wrong = True
            self._restart.set()
        names = self._names
        out = [each for each in self.state.left_out if each[0] not in names.values()]
        self._tell(
            replace(
                self.state,
                phase="live" if self._connected else "starting",
                connected=sorted(names.get(nsqd, nsqd) for nsqd in self._connected),
                left_out=[*out, *((names.get(nsqd, nsqd), text) for nsqd, text in self._failed.items())],
                received=received,
                shown=picked,
            )
        )

    def _tell(self, state: TailState) -> None:
        if state != self.state:
            self.state = state
            self._note_change()

    def _note_change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    def _first_sample_rate(self) -> int:
        snapshot = self._watch.last
        rates = None if snapshot is None else snapshot.figures.rates.get((self._topic, ""))
        return 0 if rates is None else sample_rate_for(rates.ingress, self._bounds.received_per_second)


def _no_channel(node: TopicNode) -> str:
    waiting = "1 message waits" if node.topic.depth == 1 else f"{node.topic.depth:,} messages wait"
    return f"the topic has no lasting channel there, and {waiting}"


_PERMIT_SECONDS = 120.0
_MOST_PERMITS = 100


class TooManyViewers(Exception):
    """There are as many viewers, or tailed topics, as the application allows."""


class _Watched:
    """A tail, and the number of its viewers."""

    def __init__(self, tail: Tail) -> None:
        self.tail = tail
        self.viewers = 0
        self.scope = anyio.CancelScope()


class Tails:
    """Starts and ends tails.

    :param tasks: the task group that runs them, and with which they end
    """

    def __init__(
        self,
        tasks: TaskGroup,
        watch: Watch,
        upstream: Upstream,
        connection: ConnectionOptions,
        bounds: MessageBounds,
    ) -> None:
        self._tasks = tasks
        self._watch = watch
        self._upstream = upstream
        self._connection = connection
        self._bounds = bounds
        self._watched: dict[tuple[str, bool], _Watched] = {}
        self._permits: dict[str, tuple[str, float]] = {}

    @property
    def viewers(self) -> int:
        """How many viewers there are, of all topics."""
        return sum(each.viewers for each in self._watched.values())

    @property
    def topics(self) -> int:
        """How many topics are tailed."""
        return len(self._watched)

    def permit(self, topic: str) -> str:
        """Return a token that permits a tail, for two minutes, to consume a topic's backlog."""
        now = anyio.current_time()
        self._permits = {token: each for token, each in self._permits.items() if each[1] > now}
        while len(self._permits) >= _MOST_PERMITS:
            del self._permits[next(iter(self._permits))]
        token = secrets.token_urlsafe(16)
        self._permits[token] = (topic, now + _PERMIT_SECONDS)
        return token

    def is_permitted(self, topic: str, token: str) -> bool:
        """Return whether a token is valid for a topic now."""
        permitted, until = self._permits.get(token, ("", 0.0))
        return permitted == topic and until > anyio.current_time()

    @asynccontextmanager
    async def watching(
        self, topic: str, render: Callable[[Sequence[MessageRow]], str], *, may_drain: bool = False
    ) -> AsyncGenerator[Tail]:
        """Yield the tail of a topic, which all viewers share; the last viewer to leave ends it.

        A tail that consumes the backlog is shared only by viewers who have confirmed that.

        :param render: renders messages, in a worker thread; the first viewer's serves all viewers
        :raises TooManyViewers: if there are too many viewers or tailed topics
        """
        key = topic, may_drain
        if self.viewers >= self._bounds.viewers:
            raise TooManyViewers(f"there are {self._bounds.viewers} viewers of messages already")
        watched = self._watched.get(key)
        if watched is None:
            if self.topics >= self._bounds.tails:
                raise TooManyViewers(f"{self._bounds.tails} topics are being watched already")
            watched = self._watched[key] = _Watched(self._new_tail(topic, render, may_drain=may_drain))
            self._tasks.start_soon(self._run, key, watched)
        watched.viewers += 1
        try:
            yield watched.tail
        finally:
            watched.viewers -= 1
            if not watched.viewers:
                self._forget(key, watched)
                watched.scope.cancel()

    async def _run(self, key: tuple[str, bool], watched: _Watched) -> None:
        try:
            with watched.scope:
                await watched.tail.run()
        finally:
            # Its viewers learn why it ended; the next viewer gets a new tail.
            watched.tail.close()
            self._forget(key, watched)

    def _forget(self, key: tuple[str, bool], watched: _Watched) -> None:
        if self._watched.get(key) is watched:
            del self._watched[key]

    def _new_tail(
        self, topic: str, render: Callable[[Sequence[MessageRow]], str], *, may_drain: bool
    ) -> Tail:
        return Tail(
            topic,
            self._watch,
            self._upstream,
            self._connection,
            render,
            self._bounds,
            may_drain=may_drain,
        )


_WINDOW = 0.25
"""The length of a window in seconds. All have the same limit, so a burst does not use up the whole second."""

_KEPT = 20
"""The number of windows whose counts are kept: rates are those of the last 5 seconds."""

_ALL = 0
"""The sample rate with which nsqd sends all messages."""


class Sampler:
    """Picks messages.

    :param per_second: the most that are picked in a second, 4 or more
    """

    def __init__(self, per_second: int) -> None:
        self._per_window = max(int(per_second * _WINDOW), 1)
        self._window = -math.inf
        self._picked = 0
        self._counts: deque[list[float]] = deque(maxlen=_KEPT)  # of each window: its number, all, picked
        self._begun: float | None = None

    def pick(self, now: float) -> bool:
        """Count a message; return whether to show it."""
        window = now // _WINDOW
        if self._begun is None:
            self._begun = now
        if window != self._window:
            self._window = window
            self._picked = 0
            self._counts.append([window, 0, 0])
        counts = self._counts[-1]
        counts[1] += 1
        if self._picked >= self._per_window:
            return False
        self._picked += 1
        counts[2] += 1
        return True

    def rates(self, now: float) -> tuple[float, float]:
        """Return the messages received per second, and how many of them were picked."""
        if self._begun is None:
            return 0.0, 0.0
        first = now // _WINDOW - _KEPT
        recent = [counts for counts in self._counts if counts[0] > first]
        seconds = min(max(now - self._begun, 1.0), _KEPT * _WINDOW)
        return sum(each[1] for each in recent) / seconds, sum(each[2] for each in recent) / seconds


def percent_sent(sample_rate: int) -> int:
    """Return the percentage of messages that nsqd sends at a sample rate: one more, as of nsqd 1.3.0.

    nsqd discards a message if a random number from 0 to 99 is greater than the sample rate.
    """
    return min(sample_rate + 1, 100) if sample_rate else 100


def sample_rate_for(per_second: float, wanted: float) -> int:
    """Return the sample rate that leaves about ``wanted`` messages a second; 0 for all.

    nsqd drops the other messages itself, so a busy topic costs this process little. The lowest sample rate is
    1, at which nsqd sends two percent.
    """
    if math.isnan(per_second) or per_second <= wanted:
        return _ALL
    return max(math.floor(100 * wanted / per_second) - 1, 1)
