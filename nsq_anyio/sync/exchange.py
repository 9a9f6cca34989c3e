"""The exchange of messages and answers between a consumer's event loop and the threads that use it."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import anyio
from anyio.abc import TaskGroup

from ..consumer import Consumer as AsyncConsumer
from ..consumer import Message as AsyncMessage
from ..consumer.inbox import Feed, Stop
from ..consumer.message import finish_all
from ..consumer.meter import ConsumerMeter
from ..consumer.wrapping import WrappedMessage
from ..errors import Closed, WouldDeadlock
from ..events import Event
from ..tasks import background_tasks
from .handover import Handover
from .loop_thread import LoopThread
from .thread_middleware import ThreadMiddleware

_MOST = 1000
"""The most messages that are handed over in one step. The event loop needs about 1 ms for them."""


class Exchange:
    """The exchange of one consumer.

    :ivar handover: messages for the threads
    :ivar answers: the answers from the threads
    :ivar thread: the thread of the event loop; set before it starts
    :ivar stopping: reached once no more messages are to be taken
    """

    def __init__(self) -> None:
        self.handover: Handover = Handover(lambda: self.notify(self._feed_more))
        self.answers: Answers = Answers(self.notify)
        self.thread: LoopThread[AsyncConsumer]
        self.stopping: Stop = Stop()
        self._consumer: AsyncConsumer | None = None
        self._feed: Feed
        self._tasks: TaskGroup
        self._has_ended = False
        self._wanted: anyio.Event

    # In any thread

    @property
    def is_forked(self) -> bool:
        """Whether this process is a forked child of the process that has the event loop's thread."""
        return self.thread.is_forked

    def notify(self, function: Callable[[], object]) -> None:
        """Schedule a function in the event loop, and do not wait for it.

        This does nothing once the consumer has ended, or in a forked child, where it would wake the parent's
        loop.
        """
        if not self.is_forked:
            with suppress(Closed):
                self.thread.notify(function)

    def check_process(self) -> None:
        """Check that this process has the event loop's thread.

        :raises Closed: if it is a forked child of that process
        """
        self.thread.check_process()

    def check_wait(self) -> None:
        """Check that the caller may wait for the event loop.

        :raises WouldDeadlock: in ``on_event``
        """
        if self.thread.is_current:
            raise WouldDeadlock(
                "`with message` in on_event would have to wait for the middleware, which runs in the same "
                "thread: handle messages in a thread of your own"
            )

    def stop(self) -> None:
        """Take no more messages; may be called before the thread starts."""
        self.stopping.reached = True
        if self._consumer is not None:
            self.notify(self._consumer.stop)

    def take_ready(self, most: int) -> list[AsyncMessage]:
        """Take up to ``most`` messages that have arrived, including those in the consumer's inbox."""
        taken = self.handover.take_ready(most)
        with suppress(Closed):
            taken += self.thread.read(lambda: self._feed.take_ready(most - len(taken)))
        return taken

    def around(self, message: AsyncMessage) -> ThreadMiddleware | None:
        """Return the middleware for a message; None if there is none, or it already wraps the message."""
        if self._feed.wrapping is None or not isinstance(message, WrappedMessage) or message._is_wrapped:
            return None
        return ThreadMiddleware(self._feed.wrapping, message, self._start, self.notify)

    def _start(self, around: ThreadMiddleware) -> None:
        self.thread.notify(self.thread.in_context_of_caller(lambda: self._start_in_loop(around)))

    def emit(self, event: Event) -> None:
        """Report an event, after all earlier answers."""
        self.answers.call(lambda: self._feed.emit(event))

    @property
    def meter(self) -> ConsumerMeter | None:
        """The meter of the consumer; None if it is not measured."""
        return self._consumer._meter if self._consumer is not None else None

    def handled(self, seconds: float) -> None:
        """Report the duration of a handler to the meter."""
        if (meter := self.meter) is not None:
            self.answers.call(lambda: meter.handled(seconds))

    def offer(self, wanted: int) -> None:
        """Raise ``max_in_flight`` to ``wanted``, unless the user has set it."""
        self.notify(lambda: self._feed.offer(wanted))

    # In the event loop

    @asynccontextmanager
    async def running(
        self, block: AbstractAsyncContextManager[AsyncConsumer]
    ) -> AsyncGenerator[AsyncConsumer]:
        """Hand over messages and answers for the length of the consumer's block."""
        async with block as consumer, background_tasks() as tasks:
            self._feed, self._consumer = consumer._feed(), consumer
            if self.stopping.reached:
                consumer.stop()
            self._wanted = anyio.Event()
            self._tasks = tasks
            self.handover.set_clock(anyio.current_time())
            tasks.start_soon(self._keep_feeding)
            try:
                yield consumer
            finally:
                self._has_ended = True
                self.answers.settle()
                consumer.stop()  # CLS goes first, or nsqd would push the requeued messages here again
                self._hand_back()

    async def _keep_feeding(self) -> None:
        handover = self.handover
        try:
            while True:
                await self._wanted.wait()
                self._wanted = anyio.Event()
                handover.feeding = True
                while handover.feeding:
                    handover.put(await self._feed.take(_MOST))
                    # In this order: a thread that begins to wait counts itself, then looks at `feeding`.
                    handover.feeding = False
                    handover.feeding = handover.waiting > 0
        except StopAsyncIteration:
            self._hand_back()

    def _start_in_loop(self, around: ThreadMiddleware) -> None:
        if self._has_ended:
            around.refuse()
        else:
            self._tasks.start_soon(around.run)

    def _feed_more(self) -> None:
        self._wanted.set()

    def _hand_back(self) -> None:
        for message in self.handover.end():
            if not message.responded:
                message.requeue(0, backoff=False)


class Answers:
    """Answers of the threads, on their way to the event loop, which sends them.

    The first answer wakes the event loop, which then takes all answers. Answers that finish messages become
    one `finish_all`.

    :param wake: schedules a function in the event loop, and does not wait for it
    """

    def __init__(self, wake: Callable[[Callable[[], object]], object]) -> None:
        self._wake = wake
        self._waiting: deque[AsyncMessage | Callable[[], object]] = deque()
        self._woken = False

    def finish(self, message: AsyncMessage) -> None:
        """Finish a message, unless it was answered before."""
        self._waiting.append(message)
        if not self._woken:
            self._wake_loop()

    def call(self, function: Callable[[], object]) -> None:
        """Call a function in the event loop, after all earlier answers. It must not raise."""
        self._waiting.append(function)
        if not self._woken:
            self._wake_loop()

    def settle(self) -> None:
        """Pass all answers to the consumer. Called in the event loop."""
        self._woken = False  # first, so that an answer that comes meanwhile wakes the loop again
        waiting = self._waiting
        finished: list[AsyncMessage] = []
        while waiting:
            answer = waiting.popleft()
            if isinstance(answer, AsyncMessage):
                if not answer.responded:
                    finished.append(answer)
                continue
            finish_all(finished)
            finished.clear()
            answer()
        finish_all(finished)

    def _wake_loop(self) -> None:
        try:
            self._woken = True
            self._wake(self.settle)
        except BaseException:  # the loop has ended, or a signal handler has raised
            self._woken = False
            raise
