"""The supervisor, which keeps processes running and answers health checks for all of them."""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import click

from ...address import ListenAddress
from ...exceptions import ungrouped
from ...policy.delays import ReconnectDelay
from ...service.endpoint import Families, MetricsUnavailable, health_endpoint
from ...signals import SIGNALLED
from ..ending import FAILED
from .link import NoAnswer, Question
from .process import ServiceProcess, how_it_ended

_log = logging.getLogger("nsq_anyio.service")

_FIRST_DELAY = 0.5
_MAX_DELAY = 30.0
_ANSWER_TIMEOUT = 5.0
"""Seconds that the event loop of a process may be blocked before the process counts as hung."""


class FirstStartFailed(click.ClickException):
    """The first process ended before it had started its service.

    :param code: its exit code, or the negative number of the signal that ended it
    """

    def __init__(self, code: int) -> None:
        super().__init__(f"the first process {how_it_ended(code)} before it had started")
        self.exit_code: int = (code or FAILED) if code >= 0 else SIGNALLED - code  # type: ignore[misc]


class Supervisor:
    """Runs ``count`` processes of the command line ``arguments``, and is the `Health` of the endpoint.

    A process that ends by itself is started again, after a delay that doubles up to 30 s. After a process has
    run for 30 s, the delay starts over.

    :param patience: the seconds that a process has to drain before it is killed
    :param http_address: the address of the endpoint; None for no endpoint
    :param reload: whether to replace the processes whenever the code changes. A process that ends by itself
        is then started again at the next change, not after the delay
    """

    def __init__(
        self,
        arguments: Sequence[str],
        count: int,
        patience: float,
        http_address: ListenAddress | None,
        *,
        reload: bool,
    ) -> None:
        self._arguments = arguments
        self._count = count
        self._patience = patience
        self._http_address = http_address
        self._reload = reload
        self._processes: dict[int, ServiceProcess] = {}
        self._stop = anyio.Event()
        self._changed = anyio.Event()
        self._has_killed = False
        self._has_started = False
        self._signal: int | None = None

    @property
    def ended_by(self) -> int | None:
        """The signal that came before any process had started its service, or None."""
        return None if self._has_started else self._signal

    def signalled(self, number: int) -> None:
        """Note the first signal, which also sets the stop event; at the second, kill all processes."""
        if self._signal is None:
            self._signal = number
            return
        for process in self._processes.values():
            process.kill()

    async def run(self, stop: anyio.Event) -> None:
        """Keep the processes running until ``stop`` is set, and then until all have drained.

        :raises FirstStartFailed: if the first process ends before it has started its service; not with
            ``reload``
        :raises ListenFailed: if ``http_address`` cannot be listened on
        :raises click.ClickException: if a process had to be killed
        """
        self._stop = stop
        with ungrouped():
            async with AsyncExitStack() as stack:
                if self._http_address is not None:
                    await stack.enter_async_context(health_endpoint(self._http_address, self))
                tasks = await stack.enter_async_context(anyio.create_task_group())
                tasks.start_soon(self._note_stop)
                if self._reload:
                    tasks.start_soon(self._note_changes, _changes_of_code(stop))
                async with anyio.create_task_group() as slots:
                    await self._start_first(slots.start_soon)
                    if not stop.is_set():
                        for number in range(1, self._count):
                            slots.start_soon(self._keep_running, number, anyio.Event())
                tasks.cancel_scope.cancel()
        if self._has_killed:
            raise click.ClickException(
                "not all processes have drained: their messages in flight will time out"
            )

    async def _start_first(self, start_soon: Callable[..., object]) -> None:
        """Start one process before the others, so that an error that affects all processes is shown once."""
        started = anyio.Event()
        start_soon(self._keep_running, 0, started)
        if not self._reload:
            await started.wait()

    async def _keep_running(self, number: int, started: anyio.Event) -> None:
        """Run a process and its successors. ``started`` is set once a process has started, or at the end."""
        delay = ReconnectDelay(_FIRST_DELAY, _MAX_DELAY)
        while not self._stop.is_set():
            began = anyio.current_time()
            changed = self._changed
            process = ServiceProcess(f"process {number}", self._arguments, self._patience)
            ended = await self._run(number, process, changed, started)
            if self._stop.is_set():
                self._has_killed |= process.was_killed
            if changed.is_set():
                continue
            if self._reload:
                _log.warning("%s %s; waiting for a change of the code", process.name, ended)
                await changed.wait()
                continue
            seconds = delay.after(anyio.current_time() - began, random.SystemRandom())
            _log.warning("%s %s; starting it again in %.1f s", process.name, ended, seconds)
            with anyio.move_on_after(seconds):
                await self._stop.wait()
        started.set()

    async def _run(
        self, number: int, process: ServiceProcess, changed: anyio.Event, started: anyio.Event
    ) -> str:
        """Run a process to its end; return how it ended, in words."""
        self._processes[number] = process
        try:
            code = await process.run(changed, started)
        except OSError as error:
            if number == 0 and not started.is_set():
                raise click.ClickException(f"the first process cannot be started: {error}") from error
            return f"cannot be started: {error}"
        finally:
            self._has_started |= process.has_started
            del self._processes[number]
        is_first = number == 0 and not started.is_set() and not self._reload
        if is_first and not self._stop.is_set():
            raise FirstStartFailed(code)
        return how_it_ended(code)

    async def _note_stop(self) -> None:
        await self._stop.wait()
        self._changed.set()

    async def _note_changes(self, changes: AsyncIterator[object]) -> None:
        async for _ in changes:
            if self._stop.is_set():
                return
            _log.info("the code has changed: restarting")
            self._changed.set()
            self._changed = anyio.Event()

    # The interface of `Health`, for the endpoint

    async def why_not_alive(self) -> Sequence[str]:
        """Return the processes whose event loops are blocked."""
        _, problems = await self._ask_all("alive")
        return problems

    async def why_not_ready(self) -> Sequence[str]:
        """Return why not all processes are handling messages."""
        if self._stop.is_set():
            return ["draining"]
        answers, problems = await self._ask_all("ready")
        missing = [f"process {number}: not started" for number in range(self._count) if number not in answers]
        reasons = [f"process {number}: {each}" for number, answer in answers.items() for each in answer]
        return problems or missing + reasons

    async def metrics(self) -> bytes:
        """Return the metrics of all processes.

        :raises MetricsUnavailable: if the extra ``prometheus`` is not installed
        """
        answers, problems = await self._ask_all("metrics")
        for problem in problems:
            _log.warning("/metrics is incomplete: %s", problem)
        for answer in answers.values():
            if "unavailable" in answer:
                raise MetricsUnavailable(answer["unavailable"])
        return merged({number: answer["metrics"] for number, answer in answers.items()})

    async def _ask_all(self, question: Question) -> tuple[dict[int, Any], list[str]]:
        """Ask all processes that have started; return their answers, and a problem for each without one."""
        answers: dict[int, Any] = {}
        problems: list[str] = []

        async def ask(number: int, asked: Awaitable[Any]) -> None:
            try:
                answers[number] = await asked
            except NoAnswer as error:
                problems.append(f"process {number} {error}")

        async with anyio.create_task_group() as tasks:
            for number, process in sorted(self._processes.items()):
                if process.has_started and process.questions is not None:
                    tasks.start_soon(ask, number, process.questions.ask(question, _ANSWER_TIMEOUT))
        return dict(sorted(answers.items())), problems


def merged(texts: Mapping[int, str]) -> bytes:
    """Return the metrics of all processes, each sample with its process's number as a label.

    A label ``process`` of the program itself becomes ``exported_process``, as Prometheus renames labels that
    clash with its own.

    Neither a sum nor a maximum would be right for all gauges, so the query has to choose. The multiprocess
    mode of prometheus_client supports only its own metric classes, not collectors.

    :param texts: the metrics in Prometheus' text format, by the number of the process
    :raises MetricsUnavailable: if the extra ``prometheus`` is not installed
    """
    families = Families()
    if texts:
        from prometheus_client.parser import text_string_to_metric_families

        for number, text in texts.items():
            for family in text_string_to_metric_families(text):
                family.samples = [
                    sample._replace(labels={**_renamed(sample.labels), "process": str(number)})
                    for sample in family.samples
                ]
                families.add(family)
    return families.text()


def _renamed(labels: Mapping[str, str]) -> dict[str, str]:
    renamed = dict(labels)
    if "process" in renamed:
        name = "exported_process"
        while name in renamed:
            name = f"exported_{name}"
        renamed[name] = renamed.pop("process")
    return renamed


def _changes_of_code(stop: anyio.Event) -> AsyncIterator[object]:
    """Yield whenever a Python file below the current directory changes, until ``stop`` is set.

    :raises click.UsageError: if watchfiles is not installed
    """
    try:
        from watchfiles import PythonFilter, awatch
    except ModuleNotFoundError:
        raise click.UsageError("watchfiles is not installed: pip install 'nsq-anyio[reload]'") from None
    return awatch(Path.cwd(), watch_filter=PythonFilter(), stop_event=stop, debounce=200)
