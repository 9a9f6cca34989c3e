"""The event loop of a command, with its signals, and with error messages instead of tracebacks."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, NoReturn, TypeAlias

import anyio
import click

from ..errors import InvalidOption, NSQError
from ..exceptions import leaves, only_error
from ..service.draining import Draining, drain_at_signal, handling_signals
from .backend import require_backend
from .flag_names import with_flags
from .signals import EndedBySignal
from .streams import OutputClosed, OutputFailed

if TYPE_CHECKING:
    from ..consumer import Consumer, Handler

Start: TypeAlias = Callable[[AsyncExitStack], Awaitable[object]]
"""Enters the servers into the stack, and prints or logs their addresses."""

Main: TypeAlias = Callable[[], Awaitable[object]]

_log = logging.getLogger(__name__)

_DESCRIPTORS = 16_384
"""Enough for a server of this package; memory and the event loop bound it sooner."""


def run_servers(start: Start, backend: str) -> None:
    """Run the servers that ``start`` enters; return after SIGINT or SIGTERM, once all have ended.

    A second signal ends the process at once, with 130 or 143.

    :raises click.UsageError: for an option out of range, or if the backend is not installed
    :raises click.ClickException: if a server cannot start
    """

    async def serve() -> None:
        async with AsyncExitStack() as servers:
            await start(servers)
            await anyio.sleep_forever()

    _raise_descriptor_limit()
    _run(partial(_until_signal, serve), backend)


def _raise_descriptor_limit() -> None:
    """Let this process open as many files as it may, up to a bound.

    Each connection needs a file descriptor. The usual soft limit of 1024 protects programs that call
    ``select``, which the event loops do not use, and Go's runtime raises it for NSQ's own programs.
    """
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:  # macOS has a lower limit than the hard one
        _log.debug("the limit of open files stays %d: %s", soft, error)


def run_to_end(main: Main, backend: str) -> None:
    """Run ``main`` to its end.

    A second signal ends the process at once, with 130 or 143.

    :raises EndedBySignal: after SIGINT or SIGTERM, when ``main`` has been cancelled and has ended
    :raises click.UsageError: for an option out of range, or if the backend is not installed
    :raises click.ClickException: for any other error of this package
    """
    _run_command(partial(_until_signal, main), backend)


def run_draining(main: Draining, backend: str, on_signal: Callable[[int], None] | None = None) -> None:
    """Run ``main``; the first SIGINT or SIGTERM sets its stop event.

    A second signal ends the process at once, with 130 or 143.

    :param on_signal: called with the number of each signal, before the signal has these effects
    :raises EndedBySignal: on Windows, where Ctrl-C cancels ``main``
    :raises OutputClosed: if the reader of the output went away
    :raises OutputFailed: if the output cannot be written
    :raises click.UsageError: for an option out of range, or if the backend is not installed
    :raises click.ClickException: if ``main`` raises it, and for any other error of this package
    """
    _run_command(partial(drain_at_signal, main, on_signal=on_signal), backend)


async def handle_until(stop: anyio.Event, consumer: Consumer, handler: Handler, concurrency: int) -> None:
    """Handle messages until ``stop`` is set, then wait for the handlers that are running."""

    async def stop_consumer() -> None:
        await stop.wait()
        consumer.stop()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stop_consumer)
        await consumer.run(handler, concurrency=concurrency)
        tasks.cancel_scope.cancel()


def _run_command(main: Callable[[], Awaitable[int | None]], backend: str) -> None:
    """Run ``main``; raise `EndedBySignal` if a signal ended it."""
    number = _run(main, backend)
    if number is not None:
        raise EndedBySignal(number)


def _run(main: Callable[[], Awaitable[int | None]], backend: str) -> int | None:
    """Run ``main``; return the number of the signal that ended it, or None."""
    require_backend(backend)
    try:
        if backend == "uvloop":
            return anyio.run(main, backend_options={"use_uvloop": True})
        return anyio.run(main, backend=backend)
    except BaseException as error:
        ended_by = only_error(error)
        if isinstance(ended_by, KeyboardInterrupt):
            return signal.SIGINT  # it came before the signal receiver was open, or on Windows, which has none
        if isinstance(ended_by, SystemExit):
            raise ended_by from None  # raised by a handler of `nsq-anyio run`
        errors = list(leaves(error))
        if isinstance(errors[0], ModuleNotFoundError):
            raise errors[0] from error  # an extra that is not installed
        if not all(isinstance(each, _EXPECTED) for each in errors):
            raise  # a bug in this program: show the traceback
        _end_with(errors)


_EXPECTED = (NSQError, click.ClickException, OutputClosed, OutputFailed)


def _end_with(errors: list[BaseException]) -> NoReturn:
    """Raise the error to show: a command's own error takes precedence over an error of the package."""
    for kind in (click.ClickException, OutputClosed, OutputFailed):
        for error in errors:
            if isinstance(error, kind):
                raise error
    error = errors[0]
    if isinstance(error, InvalidOption):
        raise click.UsageError(with_flags(error)) from error
    raise click.ClickException(with_flags(error)) from error


async def _until_signal(main: Main) -> int | None:
    """Run ``main`` until it ends or a signal cancels it; return that signal's number, or None."""
    first: int | None = None
    signalled = anyio.Event()

    def note(number: int) -> None:
        nonlocal first
        first = number
        signalled.set()

    async def cancel() -> None:
        await signalled.wait()
        tasks.cancel_scope.cancel()

    with handling_signals(note):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel)
            await main()
            tasks.cancel_scope.cancel()
    return first
