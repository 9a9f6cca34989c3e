"""Run async work for a command: the event loop, signals, and errors without tracebacks."""

from __future__ import annotations

import importlib.util
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast

import anyio
import click

from ..errors import InvalidOption, NSQError

__all__ = ["Start", "backend_option", "run_servers", "run_to_end"]

Start: TypeAlias = Callable[[AsyncExitStack], Awaitable[None]]
"""Enters the servers into the stack and tells where they listen."""

Main: TypeAlias = Callable[[], Awaitable[object]]

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

    _run(serve, backend)


def run_to_end(main: Main, backend: str) -> None:
    """Run ``main`` to its end.

    :raises click.Abort: after SIGINT or SIGTERM, when ``main`` has been cancelled and has ended
    :raises click.UsageError: for an option out of range, or if the backend is not installed
    :raises click.ClickException: for any other error of this package
    """
    if _run(main, backend):
        raise click.Abort


def _run(main: Main, backend: str) -> bool:
    """Run ``main`` until it ends or is cancelled by a signal; whether a signal came."""
    if backend == "trio" and importlib.util.find_spec("trio") is None:
        raise click.UsageError("trio is not installed: pip install 'nsq-anyio[trio]'")
    signalled = False
    try:
        signalled = anyio.run(partial(_until_signal, main), backend=backend)
    except* NSQError as errors:
        error = _first(errors)
        if isinstance(error, InvalidOption):
            raise click.UsageError(str(error)) from error
        raise click.ClickException(str(error)) from error
    except* KeyboardInterrupt:
        signalled = True  # before the first or, on Windows, any signal could be received
    return signalled


async def _until_signal(main: Main) -> bool:
    if sys.platform == "win32":
        await main()  # asyncio has no signal receiver there; Ctrl-C raises KeyboardInterrupt
        return False
    signalled = False
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with anyio.create_task_group() as tasks:

            async def cancel_on_signal() -> None:
                nonlocal signalled
                await anext(signals)
                signalled = True
                tasks.cancel_scope.cancel()

            tasks.start_soon(cancel_on_signal)
            await main()
            tasks.cancel_scope.cancel()
    return signalled


def _first(errors: BaseExceptionGroup[NSQError]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error
