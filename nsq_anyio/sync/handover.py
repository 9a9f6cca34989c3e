"""The hand-over of messages from the event loop to the threads that take them.

Taking a message that has been handed over costs no lock and no wake-up. A thread that finds none asks the
event loop for more, and waits. The event loop hands over many at a time, and only while threads wait. So
messages that no thread takes stay in the consumer's inbox, which drops them when they time out.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence

from ..consumer import Message as AsyncMessage
from ..consumer.inbox import Stop
from .waiters import Waiters


class Over(Exception):
    """No more messages come."""


class Handover:
    """The queue of messages between the event loop and the threads. Signal handlers may use it during a wait.

    :param want: called when a thread begins to wait and the event loop is not about to hand over messages;
        it must not wait for the event loop
    :ivar feeding: whether the event loop is about to hand over messages
    :ivar ended: whether no more messages come
    """

    def __init__(self, want: Callable[[], None]) -> None:
        self.feeding: bool = False
        self.ended: bool = False
        self._clock_offset = 0.0
        self._want = want
        self._messages: deque[AsyncMessage] = deque()
        self._takers = Waiters()
        # Separate, or a thread that waits for something else could be woken in place of a taker.
        self._others = Waiters()

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def waiting(self) -> int:
        """The number of threads that wait for messages."""
        return len(self._takers)

    # In the event loop

    def set_clock(self, now: float) -> None:
        """Note the time on the event loop's clock, by which the messages' deadlines are given."""
        self._clock_offset = now - time.monotonic()

    def put(self, messages: Sequence[AsyncMessage]) -> None:
        """Hand over messages, and wake one thread for each."""
        self._messages.extend(messages)
        self._takers.wake(len(messages))

    def end(self) -> list[AsyncMessage]:
        """End all waits, and return the messages that no thread has taken."""
        self.ended = True
        left = self._take_ready(len(self._messages))
        self.wake_all()
        return left

    # In the other threads

    def take(self, deadline: float | None, stop: Stop) -> AsyncMessage | None:
        """Wait for a message that can still be answered; return None if none arrives by ``deadline``.

        :param deadline: on `time.monotonic`'s clock; None to wait for ever
        :raises Over: if no more messages come, or ``stop`` is reached
        """
        messages = self._messages
        try:
            while not stop.reached:
                try:
                    message = messages.popleft()
                except IndexError:
                    if not self.wait(deadline, stop):
                        return None
                else:
                    if self.is_current(message):
                        return message
            raise Over
        except BaseException:
            self._takers.wake()  # this thread may have been woken for a message, which others can take
            raise

    def take_ready(self, most: int) -> list[AsyncMessage]:
        """Take up to ``most`` messages that have been handed over and can still be answered."""
        return [message for message in self._take_ready(most) if self.is_current(message)]

    def wait(self, deadline: float | None, stop: Stop) -> bool:
        """Wait until there are messages; return False if none arrives by ``deadline``.

        :raises Over: as `take` does
        """
        messages = self._messages

        def has_messages() -> bool:
            if messages:
                return True
            if self.ended or stop.reached:
                raise Over
            return False

        return self._takers.wait_for(has_messages, deadline, self._ask)

    def wait_until(self, is_true: Callable[[], bool], seconds: float | None = None) -> None:
        """Wait up to ``seconds`` until ``is_true()``. Code that makes it true must call `wake_all`."""
        self._others.wait_for(is_true, None if seconds is None else time.monotonic() + seconds)

    def wake_all(self) -> None:
        """Have all waiting threads check their conditions again."""
        self._takers.wake_all()
        self._others.wake_all()

    def put_back(self, messages: Sequence[AsyncMessage]) -> None:
        """Put messages that were taken but not used back at the front."""
        self._messages.extendleft(reversed(messages))
        self.wake_all()

    def seconds_left(self, message: AsyncMessage) -> float:
        """Return the seconds until nsqd stops waiting for the answer."""
        return message._arrival.deadline - self.now()

    def now(self) -> float:
        """Return the time on AnyIO's clock, which only the event loop can read."""
        return time.monotonic() + self._clock_offset

    def is_current(self, message: AsyncMessage) -> bool:
        """Return whether nsqd still waits for the answer to a message, as far as is known here."""
        return message._arrival.delegate.holds(message) and self.seconds_left(message) > 0

    def _ask(self) -> None:
        if not self.feeding:
            self._want()

    def _take_ready(self, most: int) -> list[AsyncMessage]:
        taken: list[AsyncMessage] = []
        try:
            while len(taken) < most:
                taken.append(self._messages.popleft())
        except IndexError:
            pass
        return taken
