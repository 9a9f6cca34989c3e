"""Runs the service: in this process, as a child of a supervisor, or as the supervisor."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence

import anyio

from ...address import ListenAddress
from ...service.metrics import Metrics
from ...unwrapping import ungrouped
from ..run import run_draining
from .job import Job
from .link import answer_questions, open_link
from .reload import changes_of_code
from .supervisor import FirstStartFailed, Supervisor

__all__ = ["run_child", "run_here", "run_supervised"]

_JOIN_LIMIT = 1.0
"""Seconds that threads have to end after the service has ended."""


def run_here(job: Job, http_address: ListenAddress | None, backend: str) -> None:
    """Handle messages in this process, until a signal.

    :raises click.ClickException: for an error of this package
    """

    async def main(stop: anyio.Event) -> None:
        await job.run(stop, http_address)

    run_draining(main, backend)
    _end_threads()


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

    run_draining(main, backend)
    _end_threads()


def run_supervised(
    arguments: Sequence[str],
    *,
    processes: int,
    patience: float,
    http_address: ListenAddress | None,
    reload: bool,
    backend: str,
) -> int:
    """Keep processes running that handle messages, until a signal; return the exit code.

    :param patience: the seconds that a process has to drain before it is killed
    :raises click.ClickException: for an error of this package, or if a process had to be killed
    """
    changes = changes_of_code if reload else None
    supervisor = Supervisor(arguments, processes, patience, http_address, changes)
    code = 0

    async def main(stop: anyio.Event) -> None:
        nonlocal code
        try:
            await supervisor.run(stop)
        except FirstStartFailed as error:
            code = error.code

    run_draining(main, backend, on_second=supervisor.kill)
    return code if code >= 0 else 128 - code


def _end_threads() -> None:
    """End the process without waiting for abandoned handlers in threads, as the interpreter would."""
    deadline = time.monotonic() + _JOIN_LIMIT
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon:
            thread.join(max(0, deadline - time.monotonic()))
            if thread.is_alive():
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(0)
