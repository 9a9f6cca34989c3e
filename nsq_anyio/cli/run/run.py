"""The service, in this process alone, in a process of a supervisor, or as several processes."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any

import anyio

from ...address import ListenAddress
from ...consumer import BatchHandler, DeadLetter, Handler
from ...consumer.blocking import abandoned_threads
from ...exceptions import ungrouped
from ...service.endpoint import Metrics
from ...service.service import Service
from ...signals import end_now
from ..clients import consume_from, produce_to
from ..event_loop import run_draining
from ..signals import EndedBySignal
from .flags import RunFlags
from .link import answer_questions, open_link
from .supervisor import Supervisor


@dataclass(frozen=True, slots=True)
class Job:
    """The handler, with the flags and the lifespan to run it.

    :ivar lifespan: entered before the first message and left after the last
    """

    flags: RunFlags
    handler: Handler | BatchHandler
    lifespan: AbstractAsyncContextManager[object]

    async def run(self, stop: anyio.Event, http_address: ListenAddress | None = None) -> None:
        """Handle messages until ``stop`` is set.

        :raises NSQError: as `Service.run` does
        """
        async with self.service(http_address=http_address) as service:
            await service.run(stop)

    @asynccontextmanager
    async def service(
        self, *, http_address: ListenAddress | None = None, metrics: Metrics | None = None
    ) -> AsyncGenerator[Service]:
        """Yield the service, with the lifespan and the producer of dead letters open during the block."""
        if self.flags.dead_letter is None:
            async with self.lifespan:
                yield self._service(None, http_address, metrics)
            return
        async with self.lifespan, produce_to(self.flags.source, self.flags.producer) as producer:
            dead_letter = DeadLetter(self.flags.dead_letter, producer=producer)
            yield self._service(dead_letter, http_address, metrics)

    def _service(
        self, dead_letter: DeadLetter | None, http_address: ListenAddress | None, metrics: Metrics | None
    ) -> Service:
        is_given = "max_in_flight" in self.flags.consumer.given
        blocks = [
            consume_from(
                self.flags.source,
                self.flags.consumer,
                topic,
                self.flags.channel,
                # Messages that wait here could time out, so the default is one message per handler.
                max_in_flight=self.flags.consumer.max_in_flight if is_given else None,
                dead_letter=dead_letter,
            )
            for topic in dict.fromkeys(self.flags.topic)
        ]
        return Service(
            [(block, self.handler) for block in blocks],
            concurrency=self.flags.concurrency,
            max_per_second=self.flags.max_per_second,
            keep_alive=self.flags.keep_alive,
            http_address=http_address,
            metrics=metrics,
        )


def run_here(job: Job, http_address: ListenAddress | None, backend: str) -> None:
    """Handle messages in this process, until a signal.

    :raises click.ClickException: for an error of this package
    """
    with _without_abandoned_threads():
        run_draining(partial(job.run, http_address=http_address), backend)


def run_child(job: Job, descriptor: int, backend: str, *, has_metrics: bool) -> None:
    """Handle messages in this process, until the supervisor closes the link, or a signal.

    :param descriptor: the file descriptor of this end of the link
    :param has_metrics: whether the supervisor may ask for metrics
    :raises click.ClickException: for an error of this package
    """

    async def main(stop: anyio.Event) -> None:
        with ungrouped():
            async with (
                await open_link(descriptor) as link,
                job.service(metrics=Metrics() if has_metrics else None) as service,
                anyio.create_task_group() as tasks,
            ):
                tasks.start_soon(answer_questions, link, service, stop)
                await service.run(stop)
                tasks.cancel_scope.cancel()

    with _without_abandoned_threads():
        run_draining(main, backend)


def run_supervised(
    arguments: Sequence[str],
    *,
    processes: int,
    patience: float,
    http_address: ListenAddress | None,
    reload: bool,
    backend: str,
) -> None:
    """Keep processes running that handle messages, until a signal.

    :param patience: the seconds that a process has to drain before it is killed
    :raises EndedBySignal: if the signal came before a process had started
    :raises click.ClickException: for an error of this package, or if a process had to be killed
    """
    supervisor = Supervisor(arguments, processes, patience, http_address, reload=reload)
    run_draining(supervisor.run, backend, on_signal=supervisor.signalled)
    if supervisor.ended_by is not None:
        raise EndedBySignal(supervisor.ended_by)


_AGAIN = 0.05
"""Seconds until a signal is sent again: a thread that is just about to wait misses the signal."""


class _NoMoreWaiting(BaseException):
    """Ends the interpreter's wait for threads."""


@contextmanager
def _without_abandoned_threads() -> Generator[None]:
    """Let the process end after the block as any Python program does, without waiting for abandoned handlers.

    The interpreter waits for all threads that are not daemons, such as AnyIO's worker threads on asyncio. A
    signal whose handler raises ends this wait, and then the exit handlers run. On Windows no signal ends it.
    """
    try:
        yield
    finally:
        if abandoned_threads and sys.platform != "win32":
            others_ended, stopped = threading.Event(), threading.Event()
            signal.signal(signal.SIGINT, partial(_stop_waiting, others_ended, stopped))
            threading.Thread(target=_await_others, args=(others_ended, stopped), daemon=True).start()


def _await_others(others_ended: threading.Event, stopped: threading.Event) -> None:
    """Interrupt the main thread once it waits only for abandoned threads."""
    main = threading.main_thread()
    main.join()  # until the interpreter waits for threads
    while others := [
        each
        for each in threading.enumerate()
        if each is not main and not each.daemon and each not in abandoned_threads
    ]:
        others[0].join()
    others_ended.set()
    while not stopped.wait(_AGAIN):
        signal.pthread_kill(main.ident or 0, signal.SIGINT)


def _stop_waiting(
    others_ended: threading.Event, stopped: threading.Event, number: int, frame: FrameType | None
) -> None:
    """Handle SIGINT, which `_await_others` or a user has sent."""
    if not others_ended.is_set():
        end_now(number)
    if frame is not None and frame.f_code.co_name == "_shutdown":  # of `threading`
        stopped.set()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # another SIGINT may be on its way
        sys.unraisablehook = partial(_show_unless_ours, sys.unraisablehook)
        raise _NoMoreWaiting


def _show_unless_ours(show: Callable[[Any], object], unraisable: Any) -> None:
    if unraisable.exc_type is not _NoMoreWaiting:
        show(unraisable)
