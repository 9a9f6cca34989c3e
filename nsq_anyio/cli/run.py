"""Run async work for a command: the event loop, signals, and errors without tracebacks."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, NoReturn, TypeAlias, TypeVar, cast

import anyio
import click
from anyio.abc import TaskStatus

from ..errors import InvalidOption, NSQError
from .exit_codes import OUTPUT_CLOSED, SIGNALLED
from .output import OutputClosed

__all__ = [
    "Draining",
    "Start",
    "backend_option",
    "first_error",
    "leave_output",
    "run_draining",
    "run_servers",
    "run_to_end",
]

Start: TypeAlias = Callable[[AsyncExitStack], Awaitable[None]]
"""Enters the servers into the stack and tells where they listen."""

Main: TypeAlias = Callable[[], Awaitable[object]]

Draining: TypeAlias = Callable[[anyio.Event], Awaitable[object]]
"""Runs until its work is done, or until the event is set; then it ends what it has begun, and returns."""

_Command = TypeVar("_Command", bound=Callable[..., Any])


def backend_option(command: _Command) -> _Command:
    """Add ``--backend`` to a command."""
    return click.option(
        "--backend",
        type=click.Choice(["asyncio", "trio"]),
        default="asyncio",
        show_default=True,
        help="The event loop to run on.",
    )(command)


def run_servers(start: Start, backend: str) -> None:
    """Run what ``start`` enters; return after SIGINT or SIGTERM, when all of it has ended.

    :raises click.UsageError: for an option out of range, or if the backend is not installed
    :raises click.ClickException: if a server cannot start
    """

    async def serve() -> None:
        async with AsyncExitStack() as servers:
            await start(servers)
            await anyio.sleep_forever()

    _run(partial(_until_signal, serve), backend)


def run_to_end(main: Main, backend: str) -> None:
    """Run ``main`` to its end.

    :raises click.Abort: after SIGINT or SIGTERM, when ``main`` has been cancelled and has ended
    :raises click.UsageError: for an option out of range, or if the backend is not installed
    :raises click.ClickException: for any other error of this package
    """
    if _run(partial(_until_signal, main), backend):
        raise click.Abort


def run_draining(main: Draining, backend: str) -> None:
    """Run ``main`` to its end; the first SIGINT or SIGTERM asks it to come there.

    A second signal ends the process at once, with 130 or 143. When the reader of the output goes away, the
    process ends with 141 and says nothing.

    On Windows Ctrl-C cancels ``main``.

    :raises click.UsageError: for an option out of range, or if the backend is not installed
    :raises click.ClickException: what ``main`` raises, or any other error of this package
    """
    if _run(partial(_drain_at_signal, main), backend):
        raise click.Abort


def _run(main: Callable[[], Awaitable[bool]], backend: str) -> bool:
    """Run ``main``; what it returns, or True after a KeyboardInterrupt."""
    if backend == "trio" and importlib.util.find_spec("trio") is None:
        raise click.UsageError("trio is not installed: pip install 'nsq-anyio[trio]'")
    try:
        return anyio.run(main, backend=backend)
    except BaseException as error:
        errors = list(_leaves(error))
        if len(errors) == 1 and isinstance(errors[0], KeyboardInterrupt):
            return True  # before the first or, on Windows, any signal could be received
        if not all(isinstance(each, NSQError | click.ClickException | OutputClosed) for each in errors):
            raise  # a mistake of this program: with its traceback
        _end_with(errors)


def _end_with(errors: list[BaseException]) -> NoReturn:
    """Say what went wrong, a command's own words before those of the package."""
    for error in errors:
        if isinstance(error, click.ClickException):
            raise error
    for error in errors:
        if isinstance(error, OutputClosed):
            leave_output()
            sys.exit(OUTPUT_CLOSED)
    error = errors[0]
    if isinstance(error, InvalidOption):
        raise click.UsageError(str(error)) from error
    raise click.ClickException(str(error)) from error


def leave_output() -> None:
    """Let what is still buffered for the output vanish, where Python would complain of it at its end."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def first_error(error: BaseException) -> BaseException:
    """The first in a group, however deep; or the error itself."""
    return next(_leaves(error))


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _leaves(each)
    else:
        yield error


async def _until_signal(main: Main) -> bool:
    """Run ``main`` until it ends or is cancelled by a signal; whether a signal came."""
    signalled = False
    async with anyio.create_task_group() as tasks:

        def cancel_at_first(number: int) -> None:
            nonlocal signalled
            del number
            signalled = True
            tasks.cancel_scope.cancel()

        await tasks.start(_watch_signals, cancel_at_first)
        await main()
        tasks.cancel_scope.cancel()
    return signalled


async def _drain_at_signal(main: Draining) -> bool:
    """Run ``main`` to its end, which the first signal asks for, and the second does not wait for."""
    stop = anyio.Event()

    def stop_or_exit(number: int) -> None:
        if stop.is_set():
            os._exit(SIGNALLED + number)
        stop.set()

    async with anyio.create_task_group() as tasks:
        await tasks.start(_watch_signals, stop_or_exit)
        await main(stop)
        tasks.cancel_scope.cancel()
    return False


async def _watch_signals(
    on_signal: Callable[[int], None], *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    """Call ``on_signal`` for each SIGINT and SIGTERM; it has started when none can be missed."""
    if sys.platform == "win32":
        task_status.started()
        return  # asyncio has no signal receiver there; Ctrl-C raises KeyboardInterrupt
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for number in signals:
            on_signal(number)
