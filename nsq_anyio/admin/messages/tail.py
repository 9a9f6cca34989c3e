"""The live tail of one topic, for all who watch it."""

from __future__ import annotations

import logging
import secrets
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

import anyio
import anyio.to_thread

from ...errors import InvalidOption, NSQError, PermanentRefusal, TLSFailed
from ...exceptions import ungrouped
from ...monitoring import Watch
from ...options import ConnectionOptions
from ..upstream import Upstream
from .copies import Copies, Copy, NothingLasts
from .places import Place, Places
from .rows import MessageRow
from .sampling import Sampler, sample_rate_for
from .settings import MessageBounds
from .tail_state import Piece, TailState

_log = logging.getLogger(__name__)

_TICK = 0.25
_TICKS_A_STATE = 4
_FACTOR = 4.0
"""By which factor more or fewer messages may come than are wanted before another sample rate is asked for."""
_SETTLED = 10.0
_PAUSE = 1.0


class Tail:
    """Shows copies of the messages of a topic, by an ephemeral channel of its own.

    It never creates a topic, and unless ``may_drain`` it uses only nsqds where the topic has a channel that
    lasts: elsewhere it would take messages that wait for their first consumer.

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
        self._kept = 0
        self._number = 0
        self._changed = anyio.Event()
        self._begin_session(())

    def _begin_session(self, places: Sequence[Place]) -> None:
        """Forget what is about the former connections."""
        self._places = places
        self._names = {place.address: place.name for place in places}
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
        """Return what was shown after the first ``number`` messages, as far as it is kept."""
        return [piece for piece in self._pieces if piece.number > number]

    async def changed(self) -> None:
        """Wait until there are new messages, or there is a new state."""
        await self._changed.wait()

    def close(self) -> None:
        """Tell those who watch that nothing more will come, unless they know."""
        if not self.state.is_over:
            self._tell(TailState("closed"))

    async def run(self) -> None:
        """Show messages until cancelled, or until it cannot go on, which `state` explains."""
        try:
            with ungrouped():
                sample_rate = self._first_sample_rate()
                while (places := await self._planned()) is not None:
                    sample_rate = await self._session(places, sample_rate)
                    await anyio.sleep(_PAUSE)
        except NSQError as error:
            self._tell(replace(self.state, phase="failed", connected=(), problem=str(error)))
        except Exception as error:  # noqa: BLE001 - one tail must not end the application
            _log.exception("the tail of topic %s failed", self._topic)
            text = f"{type(error).__name__}: see the log of the application"
            self._tell(replace(self.state, phase="failed", connected=(), problem=text))

    async def _planned(self) -> Sequence[Place] | None:
        """Return where to connect to; None, with a state that says why, if there is no such nsqd."""
        view = await self._watch.after(None)
        found = await Places.asked(self._upstream, view, self._topic, self._connection)
        if not found.all:
            self._tell(TailState("gone"))
            return None
        places = found.reachable if self.may_drain else found.safe
        left_out = [(place.name, place.problem) for place in found.all if not place.address]
        if not self.may_drain:
            left_out += [(place.name, _no_channel(place)) for place in found.drained]
        if not places:
            if found.drained:
                self._tell(TailState("draining", left_out=left_out, waiting=found.waiting))
            else:
                self._tell(TailState("failed", left_out=left_out, problem="no nsqd can be reached by TCP"))
            return None
        is_paused = any(place.topic.paused for place in places)
        takes = bool(found.drained) and self.may_drain
        self._tell(TailState("starting", left_out=left_out, is_paused=is_paused, takes=takes))
        return places

    async def _session(self, places: Sequence[Place], sample_rate: int) -> int:
        """Show messages until the nsqds change, or too many messages come; return the next sample rate."""
        self._begin_session(places)
        self._begun = anyio.current_time()
        self._tell(replace(self.state, sample_rate=sample_rate))
        async with anyio.create_task_group() as tasks:

            async def end() -> None:
                await self._restart.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(end)
            tasks.start_soon(self._show)
            tasks.start_soon(self._watch_places)
            for place in places:
                tasks.start_soon(self._copy, place, sample_rate)
        if not self._is_rate_wrong:
            return sample_rate
        received, _ = self._sampler.rates(anyio.current_time())
        return sample_rate_for(received * 100 / (sample_rate or 100), self._bounds.received_per_second)

    async def _copy(self, place: Place, sample_rate: int) -> None:
        """Take copies from one nsqd; end the session if it has none any more, or is lost."""
        copies = Copies(place, self._channel, self._upstream, self._took, may_drain=self.may_drain)

        def subscribed() -> None:
            self._connected.add(place.address)
            self._tell_rates()

        try:
            await copies.run(replace(self._connection, sample_rate=sample_rate), subscribed)
        except (InvalidOption, PermanentRefusal, TLSFailed):
            raise
        except NSQError as error:
            if isinstance(error, NothingLasts) or place.address in self._connected:
                self._restart.set()
            self._failed[place.address] = str(error)
            self._tell_rates()

    def _took(self, copies: Sequence[Copy]) -> None:
        now = anyio.current_time()
        self._picked += [copy for copy in copies if self._sampler.pick(now)]

    async def _show(self) -> None:
        """Render what was picked, and tell the state, again and again."""
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

    async def _watch_places(self) -> None:
        """End the session when a poll sees other nsqds with the topic, or a lasting channel less or more."""
        view = self._watch.last
        while True:
            view = await self._watch.after(view)
            if anyio.current_time() - self._begun < view.survey.seconds + _TICK:
                continue  # its answers may be older than the session
            found = Places.in_view(view, self._topic, self._connection)
            wanted = found.reachable if self.may_drain else found.safe
            asked = {each.node.url for each in view.survey.nsqds if not each.error}
            before = {place.address for place in self._places if place.url in asked}
            if {place.address for place in wanted if place.url in asked} != before:
                self._restart.set()
            self._tell(replace(self.state, is_paused=any(place.topic.paused for place in wanted)))

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
        view = self._watch.last
        rates = None if view is None else view.figures.rates.get((self._topic, ""))
        return 0 if rates is None else sample_rate_for(rates.ingress, self._bounds.received_per_second)


def _no_channel(place: Place) -> str:
    waiting = "1 message waits" if place.topic.depth == 1 else f"{place.topic.depth:,} messages wait"
    return f"the topic has no lasting channel there, and {waiting}"
