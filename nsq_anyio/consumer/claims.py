"""Claims: which messages with an id this consumer may handle, by the store that its channel shares.

A message is claimed when it arrives, before a task can take it. Its answer waits until the store knows it:
done before FIN, released before REQ. So a process that dies in between leaves a message that comes again
and is found done, and never one that is finished and handled again.

The store's calls run in tasks of their own, at most one for each message in flight. They end with the
consumer.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from hashlib import sha256
from typing import TypeVar
from uuid import uuid4

import anyio
from anyio.abc import TaskGroup

from ..deduplication.store import Claim, Deduplicate
from ..envelope import ID_HEADER
from ..errors import InvalidEnvelope
from ..events import DeduplicationFailed, Emitter
from ..tasks import is_stray
from .inbox import Inbox
from .message import Message, about

_MARGIN = 2.0
"""The seconds by which a claim outlasts its message's deadline, or the delay of its requeue: a handler that
ends at the deadline still has to be noted as done, and a requeued message to arrive."""

_FIRST_DELAY = 1.0
"""The seconds after which a copy of a message that is being handled comes again; they double each time."""

_MAX_ID = 128
"""The most characters of an id that go to the store as they are."""

AnswerT = TypeVar("AnswerT")


class Claims:
    """The claims of one consumer.

    :param inbox: takes the messages that are to be handled
    """

    def __init__(
        self, topic: str, channel: str, deduplicate: Deduplicate, inbox: Inbox, emit: Emitter
    ) -> None:
        self._store = deduplicate.store
        self._timeout = deduplicate.timeout
        self._prefix = f"{topic}/{channel}/"
        self._holder = uuid4().hex
        self._inbox = inbox
        self._emit = emit
        self._tasks: TaskGroup | None = None  # None before and after the consumer's connections
        self._running = 0
        self._idle = anyio.Event()
        self._unclaimed: set[Message] = set()
        self._answers: dict[Message, Callable[[], None]] = {}

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Use the store for the length of a block."""
        store = self._store
        opened = store if isinstance(store, AbstractAsyncContextManager) else nullcontext()
        async with opened, anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                yield
            finally:
                self.answer_at_once()
                tasks.cancel_scope.cancel()

    def put(self, messages: Sequence[Message], now: float) -> None:
        """Pass on the messages of one chunk: those without an id at once, others once they are claimed."""
        others: list[Message] = []
        for message in messages:
            claim = self._claim_of(message)
            if claim is None or self._tasks is None:
                others.append(message)
            else:
                self._unclaimed.add(message)
                self._start(self._tasks, self._take, message, claim)
        if others:
            self._inbox.put(others, now)

    def answer(self, message: Message, act: Callable[[], None], keep: float | None = None) -> None:
        """Answer a message by ``act`` once the store knows it.

        :param keep: the seconds after which it comes again, if it is requeued; None if it was handled
        """
        waiting = self._answers.pop(message, None)
        if waiting is not None:  # the consumer ends
            waiting()
            return
        claim = None if message in self._unclaimed else self._claim_of(message)
        if claim is None or self._tasks is None:
            act()
            return
        self._answers[message] = act
        if keep is None:
            call = partial(self._store.done, claim)
        else:
            call = partial(self._store.release, claim, keep + _MARGIN if keep else 0)
        self._start(self._tasks, self._answer, message, call)

    def is_answered(self, message: Message) -> bool:
        """Return whether a message only waits for the store."""
        return message in self._answers

    def touched(self, message: Message) -> None:
        """Extend the claim of a message whose deadline has moved."""
        claim = self._claim_of(message)
        if claim is not None and self._tasks is not None:
            call = partial(self._store.claim, claim, _seconds(message))
            self._start(self._tasks, self._call, message, call)

    def release_untaken(self, delegate: object) -> None:
        """Release the claims of messages that no task has taken, and whose connection is lost."""
        for message in self._inbox.waiting():
            claim = self._claim_of(message) if message._arrival.delegate is delegate else None
            if claim is not None and self._tasks is not None:
                self._start(self._tasks, self._call, message, partial(self._store.release, claim, 0))

    async def flush(self, seconds: float) -> None:
        """Wait up to some seconds for the store, then send the answers that still wait for it."""
        try:
            with anyio.move_on_after(seconds):
                while self._running:
                    if self._idle.is_set():
                        self._idle = anyio.Event()
                    await self._idle.wait()
        finally:
            self._send_answers()

    def answer_at_once(self) -> None:
        """Send the answers that wait for the store, and wait for it no more."""
        self._tasks = None
        self._send_answers()

    def _send_answers(self) -> None:
        while self._answers:
            _, act = self._answers.popitem()
            act()

    def _claim_of(self, message: Message) -> Claim | None:
        try:
            given = message.headers.get(ID_HEADER)
        except InvalidEnvelope:
            return None
        if not given:
            return None
        if len(given) > _MAX_ID:
            given = sha256(given.encode()).hexdigest()
        # An object is one delivery. Its number is used again only once nothing handles that delivery.
        return Claim(self._prefix + given, f"{self._holder}/{id(message):x}", f"{message.nsqd}/{message.id}")

    # The tasks

    def _start(self, tasks: TaskGroup, task: Callable[..., Awaitable[object]], *arguments: object) -> None:
        self._running += 1
        tasks.start_soon(self._run, task, *arguments)

    async def _run(self, task: Callable[..., Awaitable[object]], *arguments: object) -> None:
        try:
            await task(*arguments)
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()

    async def _call(self, message: Message, call: Callable[[], Awaitable[AnswerT]]) -> AnswerT | None:
        """Return the answer of the store; None if it has failed, which is reported."""
        try:
            with anyio.fail_after(self._timeout):
                return await call()
        except BaseException as error:
            if not (isinstance(error, Exception) or is_stray(error)):
                raise
            if isinstance(error, TimeoutError) and not str(error):
                error = TimeoutError(f"{self._store!r} did not answer within {self._timeout:g} s")
            self._emit.seldom(DeduplicationFailed(error=error, **about(message)))
            return None

    async def _take(self, message: Message, claim: Claim) -> None:
        try:
            claimed = await self._call(message, partial(self._store.claim, claim, _seconds(message)))
            delegate = message._arrival.delegate
            if not delegate.holds(message):  # handed back, or timed out
                if claimed is not None and claimed.state == "new":
                    await self._call(message, partial(self._store.release, claim, 0))
            elif claimed is None:
                message._requeue_now(reason="the store of ids failed")
            elif claimed.state == "done":
                message._finish_unhandled()
            elif claimed.state == "new":
                self._unclaimed.discard(message)
                if self._inbox.stopped:
                    message.requeue(0, backoff=False)
                else:
                    self._inbox.put([message], anyio.current_time())
            else:
                delay = claimed.seconds
                if claimed.state == "held":
                    delay = min(delay, _FIRST_DELAY * 2.0 ** (message.attempts - 1))
                message._requeue_now(delay, backoff=False)
        finally:
            self._unclaimed.discard(message)

    async def _answer(self, message: Message, call: Callable[[], Awaitable[object]]) -> None:
        try:
            await self._call(message, call)
        finally:
            act = self._answers.pop(message, None)
            if act is not None:
                act()


def _seconds(message: Message) -> float:
    return message.time_left() + _MARGIN
