"""Programs that end at a given step, each in a fork of a process that has imported everything.

::

    with forks(program, {"NSQD": ..., "DATABASE": ...}, "trio") as fork:
        for step in steps(program, "main"):
            with fork(step, signal.SIGKILL) as process:
                process.wait()

A fork starts within milliseconds. Run as a program, this module is the process that forks.
"""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import count
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple, Protocol

import anyio

import nsq_anyio as nsq

from .programs import LIMIT, ROOT


class Step(NamedTuple):
    """When a program ends: as it comes to a line for the first or second time, or leaves a function there."""

    line: int
    event: str
    visit: int


NEVER = Step(0, "line", 0)
MAIN = "anyio.run(main, backend=backend)"


def steps(program: Path, *functions: str, twice: str | None = None, without: str | None = None) -> list[Step]:
    """Return the steps of functions of a program: their lines, and their returns.

    :param twice: a pattern of the lines at whose second visit it ends, too
    :param without: a pattern of the lines that are left out
    """
    codes = [
        code
        for code in _functions(compile(program.read_bytes(), program, "exec"))
        if code.co_name in functions
    ]
    assert {code.co_name for code in codes} == set(functions)
    texts = ["", *program.read_text("utf-8").splitlines()]
    lines = [line for code in codes for line in _lines(code)]
    again = [] if twice is None else [line for line in lines if re.search(twice, texts[line])]
    unvisited = [] if without is None else [line for line in lines if re.search(without, texts[line])]
    assert (bool(again), bool(unvisited)) == (twice is not None, without is not None)
    return [
        *(Step(line, "line", 1) for line in lines if line not in unvisited),
        *(Step(line, "line", 2) for line in again),
        *(Step(code.co_firstlineno, "return", 1) for code in codes),
    ]


def _functions(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _functions(each)


def _lines(code: CodeType) -> list[int]:
    return sorted({line for *_, line in code.co_lines() if line is not None} - {code.co_firstlineno})


class Forks(Protocol):
    """Runs forks."""

    def __call__(
        self, step: Step, number: signal.Signals, call: str = MAIN, /
    ) -> AbstractContextManager[Fork]: ...


class Fork:
    """A running fork."""

    def __init__(self, pid: int, ended: Callable[[], int]) -> None:
        self.pid = pid
        self._ended = ended
        self._code: int | None = None

    def wait(self) -> int:
        """Return its exit code; minus a signal's number if that ended it."""
        if self._code is None:
            self._code = self._ended()
        return self._code

    def end(self, number: signal.Signals) -> int:
        """Send it a signal, and wait."""
        os.kill(self.pid, number)
        return self.wait()


@contextmanager
def forks(program: Path, env: Mapping[str, str], backend: str, **constants: float) -> Generator[Forks]:
    """Yield a function that runs a call of the program, by default its `main`, in a fork.

    The signal is sent at the step.
    """
    arguments = [str(program), backend, *(f"{name}={value}" for name, value in constants.items())]
    with subprocess.Popen(
        [sys.executable, "-m", __name__, *arguments],
        cwd=ROOT,
        env={**os.environ, **env, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        stdin, stdout = parent.stdin, parent.stdout

        @contextmanager
        def fork(step: Step, number: signal.Signals, call: str = MAIN) -> Generator[Fork]:
            print(step.line, step.event, step.visit, int(number), call, file=stdin, flush=True)
            process = Fork(int(stdout.readline()), lambda: int(stdout.readline()))
            watchdog = threading.Timer(LIMIT, os.kill, (process.pid, signal.SIGABRT))
            watchdog.start()
            try:
                yield process
            except BaseException:
                with suppress(ProcessLookupError):  # the watchdog was first
                    process.end(signal.SIGKILL)
                raise
            finally:
                watchdog.cancel()
            process.wait()

        yield fork
        stdin.close()
        assert parent.wait(LIMIT) == 0


def main() -> None:
    """Fork for each line of standard input, and print the fork's process id and exit code."""
    path, backend, *constants = sys.argv[1:]
    spec = importlib.util.spec_from_file_location("program", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, value in (each.split("=") for each in constants):
        assert hasattr(module, name)
        setattr(module, name, float(value))
    anyio.run(_load, backend=backend)
    for text in sys.stdin:
        line, event, visit, number, call = text.split(maxsplit=4)
        if (pid := os.fork()) == 0:
            os.close(0)
            os.dup2(2, 1)
            if (step := Step(int(line), event, int(visit))) != NEVER:
                _end_at(path, step, int(number))
            try:
                _call(call, {**vars(module), "backend": backend})
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _call(call: str, names: dict[str, Any]) -> None:
    try:
        eval(call, names)
    except KeyboardInterrupt:
        pass
    except BaseExceptionGroup as group:  # of a nursery, with what other tasks of the program raised then
        if group.subgroup(KeyboardInterrupt) is None:
            raise


async def _load() -> None:
    """Import what is imported where it is used; no thread of it outlives the loop."""
    _ = nsq.serve
    async with nsq.produce("127.0.0.1:1"), nsq.consume("t", "c", nsqd="127.0.0.1:1"):
        pass


def _end_at(path: str, step: Step, number: int) -> None:
    visits = count(1)
    is_there = threading.Event()

    def interrupt() -> None:
        is_there.wait()
        os.kill(os.getpid(), number)

    # Its handler must not raise in `trace`: an exception from there hits places that no signal hits.
    threading.Thread(target=interrupt, daemon=True).start()

    def trace(frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        if frame.f_code.co_filename != path:
            return None
        line = frame.f_code.co_firstlineno if event == "return" else frame.f_lineno
        if (line, event) == (step.line, step.event) and next(visits) == step.visit:
            if number == signal.SIGKILL:
                os.kill(os.getpid(), number)
            sys.settrace(None)
            is_there.set()
        return trace

    threading.settrace(trace)
    sys.settrace(trace)


if __name__ == "__main__":
    main()
