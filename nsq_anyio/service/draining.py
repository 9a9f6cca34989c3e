"""Signals of services and commands: the first drains, the second ends the process.

The second signal ends the process in the signal handler itself, because the event loop may be blocked.
`vital` ends a process whose server would live on without its consumers.
"""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial
from threading import current_thread, main_thread
from types import FrameType
from typing import Any, TypeAlias

import anyio

from ..errors import InvalidOption
from ..signals import end_now
from ..transport.event_loop import call_from_threads

Draining: TypeAlias = Callable[[anyio.Event], Awaitable[object]]
"""Runs until its work is done or the event is set, then finishes the work in progress and returns."""

_receivers: list[Callable[[int], None]] = []
"""Called with each signal. All blocks of the program share one pair of signal handlers: otherwise the first
block to restore the former handlers would take the signals from the others."""

_before: dict[int, Any] = {}
"""The signal handlers before the first of these blocks."""

_log = logging.getLogger("nsq_anyio.service")


async def drain_at_signal(
    main: Draining, stop: anyio.Event | None = None, on_signal: Callable[[int], None] | None = None
) -> None:
    """Run ``main``; the first SIGINT or SIGTERM sets its stop event, the second ends the process at once.

    :param stop: the stop event; default: a new one
    :param on_signal: called first, with the number of each signal
    """
    stop = anyio.Event() if stop is None else stop
    with handling_signals(lambda _number: stop.set(), on_signal):
        await main(stop)


@contextmanager
def handling_signals(
    on_first: Callable[[int], None], on_signal: Callable[[int], None] | None = None
) -> Generator[None]:
    """Have the event loop call ``on_first`` for the first SIGINT or SIGTERM; the second ends the process.

    :param on_signal: called first, in the signal handler, with the number of each signal
    """
    if sys.platform == "win32":
        yield  # asyncio has no signal receiver there; Ctrl-C raises KeyboardInterrupt
        return
    call_soon = call_from_threads()
    signalled = False

    def receive(number: int) -> None:
        nonlocal signalled
        if on_signal is not None:
            on_signal(number)
        if signalled:
            end_now(number)
        signalled = True
        call_soon(partial(on_first, number))

    if not _receivers:
        if current_thread() is not main_thread():
            raise InvalidOption(
                f"handle_signals=True is not valid in the thread {current_thread().name!r}: use "
                "handle_signals=False and `stop` there, or the main thread"
            )
        for each in (signal.SIGINT, signal.SIGTERM):
            _before[each] = signal.signal(each, _receive)
    _receivers.append(receive)
    try:
        yield
    finally:
        _receivers.remove(receive)
        if not _receivers:
            for number, handler in _before.items():
                signal.signal(number, handler)


def _receive(number: int, _frame: FrameType | None) -> None:
    for receive in tuple(_receivers):
        receive(number)


@contextmanager
def vital() -> Generator[None]:
    """End the process when the block fails, as SIGTERM does, so that its supervisor restarts it.

    Put it around the consumers of a web application, in its lifespan::

        @asynccontextmanager
        async def lifespan(app):
            with nsq.vital():
                async with nsq.consume("orders", "billing", nsqd="127.0.0.1:4150") as consumer:
                    ...
                    yield

    When a lifespan fails after its start, servers such as uvicorn only log the failure, and go on answering
    requests. This block logs the error, raises SIGTERM in this process, and then raises the error again.
    Where nothing handles SIGTERM, as in tests, it only raises the error. A block that is cancelled has not
    failed.

    systemd regards an end by SIGTERM as a clean exit, so the unit needs ``Restart=always``.
    """
    try:
        yield
    except Exception as error:
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            _log.exception("the process ends, because a part that it needs has failed: %r", error)
            signal.raise_signal(signal.SIGTERM)
        raise
