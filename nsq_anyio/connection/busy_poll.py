"""Busy polling: a task polls the socket for nsqd's next bytes before it waits in the event loop.

Where each message is a round trip, the event loop spends most of the time on going to sleep and being woken.
nsqd often answers within some microseconds. A task that has nothing else to do polls for that long, and
handles the bytes exactly as the reader would. Meanwhile the reader waits in the loop; only the reader handles
errors and the end of the stream.

Two tasks poll: a taker of messages whose connection has just sent the answer to its last message in flight,
and a task that publishes again while nothing else is outstanding.

Polling takes time from the other tasks of the loop. So they have a turn before each poll, and if they turn
out to be busy, no task of this loop polls for a while. A connection whose nsqd does not answer in time is
skipped more and more often. If nsqd runs on the same core, no task spins, because that would keep nsqd from
running: the socket is only checked once. The duration of a yield to other processes reveals a shared core.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import perf_counter

from anyio.lowlevel import checkpoint

from ..errors import ProtocolError
from ..transport.socket_stream import DirectSocketStream

_STRETCH = 50e-6
"""The seconds for which the other tasks may wait as long as each answer has already arrived."""
_SYSTEM_CALL = 3e-6
"""The most seconds that a yield to other processes takes if none of them wants this core."""
_MOST_SKIPPED = 512
_WATCHED = 8
"""The number of turns after which the load of the other tasks is judged."""
_IDLE_TURN = 10e-6
"""The most seconds that a turn takes if the other tasks have little to do: 3 µs on asyncio, 5 on Trio."""


class Turns(threading.local):
    """The turns of the other tasks, shared by all polls of a thread's event loop.

    :ivar ended_at: the end of the last turn
    :ivar count: the number of turns since the last judgement
    :ivar seconds: the duration of these turns
    :ivar skip: the number of polls to skip, because the other tasks are busy
    :ivar next_skip: the number of polls to skip if the tasks are still busy after that
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
    :param failed: called with an error in the handling of bytes: some of them may not have been handled. The
        error is then raised, except for a ProtocolError
    :param last_received: returns when bytes last came, to this object or to the reader
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
        """Wait a moment for bytes, and handle them; return at once if a poll would be useless."""
        if turns.skip:
            turns.skip -= 1
        elif self._skip:
            self._skip -= 1
        elif self._ended:
            return
        elif self._receive(0):  # nsqd runs on this core, and has answered meanwhile
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
        await _let_others_run()  # nsqd works meanwhile, too
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
                raise  # for example, from a signal handler
        return bool(received)


async def _let_others_run() -> None:
    """Give the other tasks a turn, and judge how busy they are."""
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
