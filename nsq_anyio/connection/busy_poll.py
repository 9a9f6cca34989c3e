"""Busy polling: a task waits for nsqd's next bytes on the socket itself, before it waits in the event loop.

Where each message is a round trip, most of its time is spent by the event loop on going to sleep and being
woken. nsqd often answers within some microseconds. A task that has nothing else to do polls for them as long,
and handles what came as the reader would, which waits in the loop meanwhile.

Polling takes time from the other tasks of the loop. So they have a turn before each poll, and when that shows
that they are busy, no task of this loop polls for a while.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import perf_counter

from anyio.lowlevel import checkpoint

from ..errors import ProtocolError
from ..transport.socket_stream import DirectSocketStream

_STRETCH = 50e-6
"""Seconds for which the other tasks may wait while nsqd has always answered already."""
_SYSTEM_CALL = 3e-6
"""Seconds that a yield to other processes takes if none of them wants this core: at most this."""
_MOST_SKIPPED = 512
_WATCHED = 8
"""Turns of the other tasks over which it is judged how much they have to do."""
_IDLE_TURN = 10e-6
"""Seconds that such a turn takes, at most, if they have little to do: some 3 µs on asyncio, and 5 on Trio."""


class Turns(threading.local):
    """What the polls of one event loop, which is that of its thread, have in common.

    :ivar ended_at: when the other tasks last had a turn
    :ivar count: how many turns the other tasks had since it was last judged ...
    :ivar seconds: ... and how long these took
    :ivar skip: how many polls to leave out, because the other tasks are busy
    :ivar next_skip: how many to leave out if they still are then
    """

    ended_at: float = 0.0
    count: int = 0
    seconds: float = 0.0
    skip: int = 0
    next_skip: int = _WATCHED


turns: Turns = Turns()


class BusyPoll:
    """Polls the socket of one connection.

    :param seconds: how long to poll for bytes
    :param handle: called with the bytes that came
    :param failed: called with an error after bytes came: nobody knows how much of them was handled. It is
        raised, except for a ProtocolError
    :param last_received: returns when any came last, to this object or to the reader
    """

    def __init__(
        self,
        stream: DirectSocketStream,
        seconds: float,
        max_bytes: int,
        handle: Callable[[bytes], None],
        failed: Callable[[BaseException], None],
        last_received: Callable[[], float],
    ) -> None:
        self._stream = stream
        self._seconds = seconds
        self._max_bytes = max_bytes
        self._handle = handle
        self._failed = failed
        self._last_received = last_received
        self._ended = False
        self._shares_core = False
        self._skip = 0
        self._next_skip = 1

    def end(self) -> None:
        """Receive nothing more: the connection has ended, although its socket may be open."""
        self._ended = True

    async def poll(self) -> None:
        """Wait a moment for bytes, and handle them; or return at once, if that would be of no use."""
        if turns.skip:
            turns.skip -= 1
        elif self._skip:
            self._skip -= 1
        elif self._ended:
            return
        elif self._receive(0):  # nsqd runs on this core, and has done so meanwhile
            self._next_skip = 1
            if perf_counter() - turns.ended_at > _STRETCH:
                await _let_others_run()
        elif await self._has_received():
            self._next_skip = 1
        else:
            self._shares_core = False
            self._skip = self._next_skip  # this nsqd is too far away, or has nothing to send
            self._next_skip = min(2 * self._next_skip, _MOST_SKIPPED)

    async def _has_received(self) -> bool:
        if self._shares_core:
            return False  # a poll would keep nsqd from running
        before = self._last_received()
        await _let_others_run()  # meanwhile nsqd works, too
        return self._ended or self._last_received() != before or self._receive(self._seconds)

    def _receive(self, seconds: float) -> bool:
        received: list[bytes] = []
        try:
            waited = self._stream.receive_soon(self._max_bytes, seconds, received)
            if received:
                self._shares_core = waited > _SYSTEM_CALL
                self._handle(received[0])
        except BaseException as error:
            if received:
                self._failed(error)
            if not isinstance(error, ProtocolError):
                raise  # such as that of a signal handler
        return bool(received)


async def _let_others_run() -> None:
    """Give the other tasks a turn, and judge how much they have to do."""
    began = perf_counter()
    await checkpoint()
    turns.ended_at = ended = perf_counter()
    turns.count += 1
    turns.seconds += ended - began
    if turns.count < _WATCHED:
        return
    if turns.seconds > _WATCHED * _IDLE_TURN:
        turns.skip = turns.next_skip
        turns.next_skip = min(2 * turns.next_skip, _MOST_SKIPPED)
    else:
        turns.next_skip = max(turns.next_skip // 2, _WATCHED)
    turns.count = 0
    turns.seconds = 0.0
