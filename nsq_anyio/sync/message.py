"""The message of plain functions, which any thread may answer."""

from __future__ import annotations

import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from threading import Lock
from types import TracebackType
from typing import Any, Self

from ..consumer import Message as AsyncMessage
from ..consumer.message import About, about
from ..errors import AlreadyResponded, Closed, Discard, Requeue
from ..exceptions import only_error
from .exchange import Exchange
from .handover import Over
from .thread_middleware import ThreadMiddleware


class Message:
    """A message, which must be answered with `finish` or `requeue` within `time_left` seconds.

    `finish`, `requeue` and `touch` can be called in any thread, and never block: the thread of the event loop
    sends the answer at once. An answer that comes too late, or after the end of the consumer, is dropped.

    A ``with message:`` block answers the message: FIN when the block ends, REQ when it raises. `Requeue` and
    `Discard` do not leave the block; any other exception does.

    :ivar body: the body as it was published; with headers, the whole envelope
    :ivar attempts: how many times nsqd has delivered the message, including this time; 1 to 65535
    :ivar timestamp: when the message was published, in nanoseconds since the epoch
    """

    __slots__ = ("_answered", "_around", "_exchange", "_message", "_tokens", "attempts", "body", "timestamp")

    def __init__(self, message: AsyncMessage, exchange: Exchange) -> None:
        self.body: bytes = message.body
        self.attempts: int = message.attempts
        self.timestamp: int = message.timestamp
        self._message = message
        self._exchange = exchange
        self._answered = Lock()  # taken by the thread that answers; no thread waits for it
        self._around: ThreadMiddleware | None = None
        self._tokens: list[tuple[ContextVar[Any], Token[Any]]] = []

    def __repr__(self) -> str:
        state = "answered" if self.responded else "unanswered"
        return f"<sync Message {self.id} {self.topic}/{self.channel} attempt {self.attempts}, {state}>"

    @property
    def id(self) -> str:
        """The message's id, 16 hexadecimal digits, unique within its nsqd."""
        return self._message.id

    @property
    def topic(self) -> str:
        """The topic that the message was published to."""
        return self._message.topic

    @property
    def channel(self) -> str:
        """The channel that the message was consumed from."""
        return self._message.channel

    @property
    def nsqd(self) -> str:
        """The address of the nsqd that delivered the message, as ``host:port`` or a path."""
        return self._message.nsqd

    @property
    def responded(self) -> bool:
        """Whether the message was finished or requeued, or handed back at the end of the consumer."""
        return self._answered.locked() or self._message.responded

    def time_left(self) -> float:
        """Return the seconds until nsqd stops waiting for the answer; negative after that."""
        return self._exchange.handover.seconds_left(self._message)

    def finish(self) -> None:
        """Tell nsqd that the message is processed (FIN).

        :raises AlreadyResponded: if it was finished or requeued before
        :raises Closed: in a forked child
        """
        self._take_answer()
        self._exchange.answers.finish(self._message)

    def requeue(self, delay: float | None = None, *, backoff: bool = True) -> None:
        """Tell nsqd to deliver the message again (REQ); see `nsq_anyio.Message.requeue` for the parameters.

        :raises AlreadyResponded: if it was finished or requeued before
        :raises InvalidOption: if the delay is negative or not finite
        :raises Closed: in a forked child
        """
        request, error = Requeue(delay, backoff=backoff), sys.exception()
        self._take_answer()
        self._exchange.answers.call(lambda: self._requeue(request, error))

    def touch(self) -> None:
        """Ask nsqd for another ``msg_timeout`` (TOUCH). nsqd allows at most ``max_msg_timeout`` in all.

        :raises AlreadyResponded: if it was finished or requeued before
        :raises Closed: in a forked child
        """
        if self._answered.locked():
            raise AlreadyResponded(f"message {self.id} is already answered")
        self._exchange.check_process()
        self._exchange.answers.call(self._touch)

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers that the message was published with; see `nsq_anyio.Message.headers`.

        :raises InvalidEnvelope: if the body begins like an envelope, but cannot be read
        """
        return self._message.headers

    @property
    def payload(self) -> bytes:
        """The body without the headers; see `nsq_anyio.Message.payload`.

        :raises InvalidEnvelope: as `headers` does
        """
        return self._message.payload

    def _about(self) -> About:
        """Return the fields of an event about the message."""
        return about(self._message, self._exchange.handover.now())

    def _middleware(self) -> ThreadMiddleware | None:
        """Return the middleware around the message, unless it is already entered."""
        return None if self.responded else self._exchange.around(self._message)

    def _note_failed(self) -> None:
        """Count that the handler or block has failed."""
        message = self._message
        self._exchange.answers.call(lambda: message._arrival.delegate.failed(message))

    @contextmanager
    def _kept_alive(self) -> Generator[None]:
        """Touch the message while a block runs, as the async `keep_alive` does."""
        touching = self._message._arrival.delegate.touching
        self._exchange.answers.call(lambda: touching.begin(self._message))
        try:
            yield
        finally:
            self._exchange.answers.call(lambda: touching.end(self._message))

    def _answer_for(self, error: BaseException | None) -> None:
        """Answer according to how processing ended, unless it is answered; see `nsq_anyio.Message`.

        A forked child answers nothing.
        """
        if self._answered.locked() or self._exchange.is_forked:
            return
        # At the end of the program, the end of the consumer hands the message back.
        is_answer = not isinstance(error, SystemExit | KeyboardInterrupt)
        if is_answer and not self._answered.acquire(blocking=False):
            return
        if error is None:
            self._exchange.answers.finish(self._message)
        else:
            self._pass_on(error)

    def __enter__(self) -> Self:
        around = self._middleware()
        if around is None:
            return self
        self._exchange.check_process()
        self._exchange.check_wait()
        try:
            variables = around.enter()
        except Over:
            raise Closed(f"the consumer is closed, and has handed message {self.id} back") from None
        except BaseException as error:
            self._end_block(error)
            raise
        self._around = around
        self._tokens = [(variable, variable.set(value)) for variable, value in variables]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        around, self._around = self._around, None
        if around is None or self._exchange.is_forked:
            return self._end_block(error)
        for variable, token in reversed(self._tokens):
            variable.reset(token)
        self._tokens.clear()
        try:
            raised = around.leave(error)
        except BaseException as interrupt:
            self._end_block(interrupt)
            raise
        is_suppressed = self._end_block(raised)
        if raised is None or is_suppressed:
            return True
        if raised is not error:
            raise raised
        return False

    def _end_block(self, error: BaseException | None) -> bool:
        """Answer at the end of the block; return whether to suppress the error."""
        signal = None if error is None else only_error(error)
        is_signal = isinstance(signal, Requeue | Discard)
        if isinstance(signal, Exception) and not is_signal:
            self._note_failed()
        self._answer_for(signal)
        return is_signal

    def _take_answer(self) -> None:
        self._exchange.check_process()
        if not self._answered.acquire(blocking=False):
            raise AlreadyResponded(f"message {self.id} is already answered")

    def _pass_on(self, error: BaseException) -> None:
        message = self._message
        self._exchange.answers.call(lambda: message._settle_soon(error))

    def _requeue(self, request: Requeue, error: BaseException | None) -> None:
        if not self._message.responded:
            self._message._requeue_as(request, error)

    def _touch(self) -> None:
        if not self._message.responded:
            self._message.touch()
