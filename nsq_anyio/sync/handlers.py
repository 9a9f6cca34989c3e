"""The threads that run plain handlers, and answer their messages.

A thread cannot be cancelled. So a handler that does not return in time is abandoned: its message is requeued,
an event reports it, and because its thread is a daemon, it does not keep the interpreter from exiting.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from contextvars import ContextVar, copy_context
from threading import Thread
from typing import Any

from ..child_process import end_child
from ..consumer.handler import name_of
from ..consumer.inbox import Stop
from ..errors import Discard, InvalidOption, Requeue
from ..events import HandlerFailed, HandlerReturnedFalse, ThreadAbandoned
from ..exceptions import only_error
from ..options.checks import other_parameters
from .exchange import Exchange
from .handover import Over
from .message import Message

Handler = Callable[[Message], object]
"""A plain function of one message. The message is finished when the function returns and requeued when it
raises, unless it raises `Requeue` or `Discard`."""

_REMEDY = (
    "write `def handler(message): ...`; for async functions, use the run() of `async with nsq.consume(...)`"
)


class _Worker:
    """One thread, and the message that it handles."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.started = 0.0
        self.message: Message | None = None


class HandlerThreads:
    """The threads of one `run`.

    :param drain_timeout: seconds that running handlers have once the consumer is stopped
    :param cancelled_drain_timeout: the same once the consumer is closed or `run` is interrupted
    :param keep_alive: whether to touch each message while its handler and middleware run
    :raises InvalidOption: if the handler is not a plain function
    """

    def __init__(
        self,
        exchange: Exchange,
        handler: Handler,
        *,
        drain_timeout: float,
        cancelled_drain_timeout: float,
        keep_alive: bool,
    ) -> None:
        _check_handler(handler)
        self._exchange = exchange
        self._handler = handler
        self._invoke = handler if exchange.meter is None else self._measured
        self._drain_timeout = drain_timeout
        self._cancelled_drain_timeout = cancelled_drain_timeout
        self._keep_alive = keep_alive
        self._stop = Stop()
        self._error: BaseException | None = None
        self._running: set[_Worker] = set()
        self._warned = False

    def run(self, threads: int) -> None:
        """Handle messages in ``threads`` threads, until the consumer is stopped or closed.

        :raises BaseException: the error that ended one of the threads: `InvalidOption` for a handler that
            returns an awaitable, or a handler's `SystemExit`
        """
        handover = self._exchange.handover
        try:
            for number in range(1, threads + 1):
                worker = _Worker(f"nsq-anyio handler {number}")
                # A daemon, because a handler that hangs must not keep the interpreter from exiting.
                thread = Thread(
                    target=copy_context().run, args=(self._work, worker), name=worker.name, daemon=True
                )
                self._running.add(worker)
                try:
                    thread.start()
                except BaseException:
                    if not thread.is_alive():
                        self._running.discard(worker)
                    raise
            handover.wait_until(lambda: handover.ended or not self._running or self._error is not None)
        except BaseException:
            self._end_within(self._cancelled_drain_timeout)
            raise
        is_stopped = self._exchange.stopping.reached or self._error is not None
        self._end_within(self._drain_timeout if is_stopped else self._cancelled_drain_timeout)
        if self._error is not None:
            raise self._error

    def _end_within(self, seconds: float) -> None:
        handover = self._exchange.handover
        self._stop.reached = True
        handover.wake_all()
        handover.wait_until(lambda: not self._running, seconds)
        for worker in list(self._running):
            if (message := worker.message) is not None:
                if not message.responded:
                    message.requeue(0, backoff=False)
                running_for = time.monotonic() - worker.started
                name = name_of(self._handler)
                self._exchange.emit(ThreadAbandoned(name, running_for, False, **message._about()))

    # In each thread

    def _work(self, worker: _Worker) -> None:
        handover = self._exchange.handover
        try:
            while (taken := handover.take(None, self._stop)) is not None:
                message = Message(taken, self._exchange)
                worker.started = time.monotonic()
                worker.message = message
                with message._kept_alive() if self._keep_alive else nullcontext():
                    self._handle(message)
                worker.message = None
        except Over:
            pass
        except BaseException as error:  # noqa: BLE001 - raised by `run`
            self._error = self._error or error
            self._stop.reached = True
        finally:
            self._running.discard(worker)
            handover.wake_all()

    def _handle(self, message: Message) -> None:
        try:
            result = self._call(message)
        except Over:
            raise
        except BaseException as error:
            signal = only_error(error)
            if isinstance(signal, Exception) and not isinstance(signal, Requeue | Discard):
                message._note_failed()
                self._exchange.emit(HandlerFailed(error=error, **message._about()))
            message._answer_for(signal)
            if not isinstance(signal, Exception):
                raise
            return
        if inspect.isawaitable(result):
            # Every message would end like this. Leave this one for a program with a valid handler, not for
            # another of these threads.
            self._stop.reached = True
            if not message.responded:
                message.requeue(0, backoff=False)
            if inspect.iscoroutine(result):
                result.close()
            raise InvalidOption(
                f"handler={self._handler!r} is not valid, it returned an awaitable "
                f"({type(result).__name__}), which its thread cannot await: {_REMEDY}"
            )
        message._answer_for(None)
        if result is False and not self._warned:
            self._warned = True
            self._exchange.emit(HandlerReturnedFalse(**message._about()))

    def _call(self, message: Message) -> object:
        """Call the handler, with the middleware around it."""
        around = message._middleware()
        if around is None:
            return copy_context().run(self._call_here, (), message)
        variables = around.enter()
        result: object = None
        error: BaseException | None = None
        try:
            result = copy_context().run(self._call_here, variables, message)
        except BaseException as raised:  # noqa: BLE001 - it is for the middleware
            error = raised
        raised_then = around.leave(error)
        if raised_then is not None:
            raise raised_then
        return result

    def _call_here(self, variables: Iterable[tuple[ContextVar[Any], Any]], message: Message) -> object:
        for variable, value in variables:
            variable.set(value)
        try:
            result = self._invoke(message)
        except BaseException as error:
            if self._exchange.is_forked:
                end_child(error)
            raise
        if self._exchange.is_forked:
            end_child(None)
        return result

    def _measured(self, message: Message) -> object:
        started = time.perf_counter()
        try:
            return self._handler(message)
        finally:
            self._exchange.handled(time.perf_counter() - started)


def _check_handler(handler: object) -> None:
    if not callable(handler):
        raise InvalidOption(f"handler={handler!r} is not valid, it cannot be called: {_REMEDY}")
    if (takes := other_parameters(handler)) is not None:
        raise InvalidOption(f"handler={handler!r} is not valid, it takes {takes}: {_REMEDY}")
    function: object = handler
    while isinstance(function, functools.partial):
        function = function.func
    for candidate in (function, getattr(type(function), "__call__", None)):  # noqa: B004 - the function is wanted
        if inspect.iscoroutinefunction(candidate):
            raise InvalidOption(f"handler={handler!r} is not valid, it is async: {_REMEDY}")
        if inspect.isgeneratorfunction(candidate) or inspect.isasyncgenfunction(candidate):
            raise InvalidOption(f"handler={handler!r} is not valid, it is a generator: {_REMEDY}")
