"""The exceptions inside exception groups, or along a chain of causes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TypeVarTuple, cast

ArgsT = TypeVarTuple("ArgsT")

_EXITS = (SystemExit, KeyboardInterrupt)


def single(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the only exception in a task group's exception group; the group if there are several.

    In a group, an error of the user's block would not be caught where it is expected, and `SystemExit` and
    `KeyboardInterrupt` would not end the program as they should. Raise the result after the ``except``, or
    the group becomes its context.
    """
    # Several handlers may call `sys.exit`, and a second Ctrl-C may end another task. The program ends once.
    if len(group.exceptions) == 1 or group.split(_EXITS)[1] is None:
        return group.exceptions[0]
    return group


async def exits_in_group(function: Callable[[*ArgsT], Awaitable[object]], *arguments: *ArgsT) -> None:
    """Run a child task, and raise its `SystemExit` or `KeyboardInterrupt` in an exception group.

    asyncio aborts the event loop when a task raises one of them bare. The clean-up of the loop then cancels
    the other tasks, and a second bare exception aborts the clean-up, too. Then AnyIO's worker threads never
    end, nor does the process. An exception group waits for the other tasks on its way to the caller's task,
    which may raise the exception bare.
    """
    try:
        await function(*arguments)
    except _EXITS as error:
        raise BaseExceptionGroup("the program ends", [error]) from None


def only_error(error: BaseException) -> BaseException:
    """Return the single exception inside nested groups; a group of several, or any other error, unchanged."""
    while isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        error = single(group)
        if error is group:
            break
    return error


@contextmanager
def ungrouped() -> Generator[None]:
    """Remove the exception groups of nested task groups from an error raised in the block.

    On Trio, KeyboardInterrupt may be raised in any of their tasks.
    """
    raised: BaseException | None = None
    try:
        yield
    except BaseExceptionGroup as group:
        raised = only_error(group)
    if raised is not None:
        raise raised


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions inside nested groups in order, or ``error`` itself if it is not a group."""
    if isinstance(error, BaseExceptionGroup):
        for each in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from leaves(each)
    else:
        yield error


def first_error(error: BaseException) -> BaseException:
    """Return the first exception inside nested groups, or ``error`` itself if it is not a group."""
    return next(leaves(error))


def first_text(error: BaseException) -> str:
    """Return the first text along the causes of ``error``, or the name of its type if none has a text.

    Some errors of httpx have no text, while their cause names the system's or TLS's reason.
    """
    cause: BaseException | None = error
    while cause is not None:
        if text := str(cause):
            return text
        cause = cause.__cause__ or cause.__context__  # httpcore's pool drops the cause
    return type(error).__name__
