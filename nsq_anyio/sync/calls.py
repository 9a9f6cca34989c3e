"""Plain functions on their way to the thread of the event loop, which calls them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ..errors import Closed
from .outcome import Outcome


class Calls:
    """A queue without a lock: any thread and any signal handler may add to it.

    :ivar over: whether no more calls are accepted; the event loop makes its last calls after it has set this
    """

    def __init__(self) -> None:
        self.over: bool = False
        self._calls: deque[tuple[Callable[[], object], Outcome[Any] | None]] = deque()

    def check_open(self) -> None:
        """Check that calls are accepted.

        :raises Closed: if they are not
        """
        if self.over:
            raise Closed("the block has ended")

    def add(self, function: Callable[[], object], outcome: Outcome[Any] | None) -> None:
        """Add a call, whose outcome somebody may wait for.

        :raises Closed: if no more calls are accepted
        """
        call = (function, outcome)
        self._calls.append(call)
        if self.over:
            with suppress(ValueError):  # the call was among the last ones
                self._calls.remove(call)
                self.check_open()

    def make(self) -> None:
        """Make the calls."""
        while self._calls:
            function, _ = self._calls.popleft()
            function()

    def give_up(self) -> None:
        """Drop the calls, which an event loop that has crashed left behind: their outcome is `Closed`."""
        while self._calls:
            _, outcome = self._calls.popleft()
            if outcome is not None:
                outcome.fail(Closed("the block has ended"))
