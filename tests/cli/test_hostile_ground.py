"""Every command on bad streams, terminals and signals: no traceback, and the documented exit code.

There are many cases, each a process, so that a run takes a part of them that reaches every command and every
kind of ground. ``NSQ_ANYIO_EVERY_CASE=1`` runs them all.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from .commands import CASES, Case, Cluster
from .forwarders import embedded_nsqds, until
from .processes import COMMAND, LIMIT, read_terminal

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX streams and signals")

EVERY_CASE = bool(os.environ.get("NSQ_ANYIO_EVERY_CASE"))
RUNNING = 1.0
"""Seconds after which a command that does not end is told to; any moment will do."""

MOMENTS = [0.05 * number for number in range(20)]
ENTRY = """
import os, sys
from nsq_anyio.cli import main
from nsq_anyio.cli.signals import end_at_signals
end_at_signals(sys.argv[1:])
os.write({sign}, b".")
main()
"""
"""As the installed script, with a sign after what it does first; before that, the interpreter starts."""

UNTOLD = re.compile("Traceback|Exception ignored|Aborted|KeyboardInterrupt|Error in sys|lost sys.stderr")

_numbers = itertools.count()


@pytest.fixture(scope="module")
def servers() -> Generator[tuple[str, object]]:
    with embedded_nsqds(1) as (lookupd_url, (nsqd,)):
        yield lookupd_url, nsqd


@pytest.fixture
def cluster(servers: tuple[str, object], tmp_path: Path) -> Cluster:
    lookupd_url, nsqd = servers
    topic = f"topic{next(_numbers)}"
    cluster = Cluster(lookupd_url, nsqd, topic, tmp_path)  # type: ignore[arg-type]
    for path in (f"topic/create?topic={topic}", f"channel/create?topic={topic}&channel=c"):
        assert httpx.post(f"{cluster.nsqd.http_url}/{path}", trust_env=False).status_code == 200
    cluster.nsqd.publish(topic, b"a message")
    (tmp_path / "messages").write_bytes(b"first\nsecond\n")
    return cluster


def _sampled(*axes: list[str]) -> list[tuple[str, ...]]:
    """All combinations, or a part in which each value of each axis occurs."""
    cells = list(itertools.product(*axes))
    if EVERY_CASE:
        return cells
    places = [sum(axis.index(value) for axis, value in zip(axes, cell, strict=True)) for cell in cells]
    return [cell for cell, place in zip(cells, places, strict=True) if not place % 5]


@contextmanager
def _started(
    command: list[str], ends: bool, env: Mapping[str, str] | None = None, **streams: int
) -> Generator[subprocess.Popen[bytes]]:
    """A command, told to end in time if it does not by itself."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHON"))
    }
    with subprocess.Popen(command, env={**kept, **(env or {})}, **streams) as process:  # type: ignore[call-overload]
        over = threading.Event()
        telling = threading.Thread(target=_terminate_in_time, args=(process, ends, over))
        telling.start()
        try:
            yield process
        finally:
            over.set()
            telling.join()
            process.kill()


def _terminate_in_time(process: subprocess.Popen[bytes], ends: bool, over: threading.Event) -> None:
    give_up_at = time.monotonic() + LIMIT
    if not ends:
        # Until then the interpreter is starting, and SIGTERM would kill it.
        while not _catches_sigterm(process.pid) and time.monotonic() < give_up_at - RUNNING:
            if over.wait(0.02):
                return
        give_up_at = time.monotonic() + RUNNING
    if not over.wait(give_up_at - time.monotonic()):
        process.terminate()


def _catches_sigterm(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):  # it has ended, or this is not Linux
        return True
    caught = re.search(r"^SigCgt:\s*(\w+)", status, re.MULTILINE)
    return caught is None or bool(int(caught[1], 16) & 1 << (signal.SIGTERM - 1))


def _ended(
    case: Case,
    arguments: list[str],
    *,
    redirect: str = "",
    env: Mapping[str, str] | None = None,
    **streams: int,
) -> tuple[int, str]:
    """The exit code of a command, and what it said on stderr."""
    shell = ["sh", "-c", f'exec "$@" {redirect}', "sh"]
    given = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, **streams}
    # Where what it prints cannot be written, each ends by itself.
    ends = case.ends or (case.prints and (redirect[:1] == ">" or "stdout" in streams))
    with _started([*shell, *COMMAND, *arguments], ends, env, **given) as process:
        assert process.stderr is not None
        said = process.stderr.read().decode()
        code = process.wait(LIMIT)
    assert not UNTOLD.search(said), said
    return code, said


Ground = Callable[[Case, list[str]], None]


def _full(case: Case, arguments: list[str]) -> None:
    code, said = _ended(case, arguments, redirect=">/dev/full")
    if case.prints:
        assert (code, said.splitlines()[-1:]) == (
            1,
            ["Error: cannot write the output: No space left on device"],
        )
    else:
        assert code in case.codes


def _nobody_reads(case: Case, arguments: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        code, said = _ended(case, arguments, stdout=write)
    finally:
        os.close(write)
    assert code == 141 if case.prints else code in case.codes
    assert "Error" not in said


def _no_stdin(case: Case, arguments: list[str]) -> None:
    assert _ended(case, arguments, redirect="<&-")[0] in case.codes


def _no_stdout(case: Case, arguments: list[str]) -> None:
    code, said = _ended(case, arguments, redirect=">&-")
    if case.prints:
        assert (code, said.splitlines()[-1:]) == (1, ["Error: cannot write the output: Bad file descriptor"])
    else:
        assert code in case.codes


def _no_stderr(case: Case, arguments: list[str]) -> None:
    assert _ended(case, arguments, redirect="2>&-")[0] in case.codes


def _full_stderr(case: Case, arguments: list[str]) -> None:
    assert _ended(case, arguments, redirect="2>/dev/full")[0] in case.codes


def _latin_1(case: Case, arguments: list[str]) -> None:
    env = {"PYTHONUTF8": "0", "PYTHONIOENCODING": "latin-1"}
    _on_terminal(case, arguments, env, shown="latin-1")


def _c_locale(case: Case, arguments: list[str]) -> None:
    env = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    _on_terminal(case, arguments, env, shown="latin-1")


def _dumb(case: Case, arguments: list[str]) -> None:
    assert "\x1b" not in _on_terminal(case, arguments, {"TERM": "dumb"})


def _tiny(case: Case, arguments: list[str]) -> None:
    _on_terminal(case, arguments, {}, size=(1, 1))


def _on_terminal(
    case: Case,
    arguments: list[str],
    env: Mapping[str, str],
    *,
    size: tuple[int, int] = (24, 80),
    shown: str = "utf-8",
) -> str:
    """What a terminal shows, which is all of the command's streams."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    try:
        with _started(
            [*COMMAND, *arguments], case.ends, {"TERM": "xterm-256color", **env}, **streams
        ) as process:
            os.close(theirs)
            text = read_terminal(ours).decode(shown)
            code = process.wait(LIMIT)
    finally:
        os.close(ours)
    assert not UNTOLD.search(text), text
    assert code in case.codes, text
    return text


GROUNDS: dict[str, Ground] = {
    "full": _full,
    "nobody reads": _nobody_reads,
    "no stdin": _no_stdin,
    "no stdout": _no_stdout,
    "no stderr": _no_stderr,
    "full stderr": _full_stderr,
    "latin-1": _latin_1,
    "C locale": _c_locale,
    "TERM=dumb": _dumb,
    "1 x 1": _tiny,
}


@pytest.mark.parametrize(("command", "ground"), _sampled(list(CASES), list(GROUNDS)))
def test_no_traceback_and_the_documented_exit_code(command: str, ground: str, cluster: Cluster) -> None:
    case = CASES[command]
    GROUNDS[ground](case, case.arguments(cluster))


@pytest.mark.parametrize(
    ("command", "name", "moment"),
    _sampled(list(CASES), ["SIGINT", "SIGTERM"], [f"{moment:.2f}" for moment in MOMENTS])[
        :: 1 if EVERY_CASE else 9
    ],
)
def test_a_signal_at_any_moment_of_the_first_second(
    command: str, name: str, moment: str, cluster: Cluster
) -> None:
    number = signal.Signals[name]
    with _begun(CASES[command].arguments(cluster)) as process:
        time.sleep(float(moment))
        process.send_signal(number)
        code, said = _outcome(process)
    # The interpreter's own last steps have no handler any more: there the signal itself ends the process.
    assert code in {0, 128 + number, -number}, said


def test_a_hangup_while_it_starts_does_not_end_to_file(cluster: Cluster) -> None:
    with _begun(CASES["to-file"].arguments(cluster)) as process:
        for _ in range(20):
            process.send_signal(signal.SIGHUP)
            time.sleep(0.02)
        # It goes on, and archives what waits in its channel.
        until(lambda: cluster.nsqd.channel(cluster.topic, "c")["clients"])
        process.terminate()
        assert _outcome(process)[0] == 0


@contextmanager
def _begun(arguments: list[str]) -> Generator[subprocess.Popen[bytes]]:
    """A command that has come to its first line."""
    read, write = os.pipe()
    program = [sys.executable, "-X", "faulthandler", "-c", ENTRY.format(sign=write), *arguments]
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, pass_fds=[write]
    ) as process:
        try:
            os.close(write)
            assert os.read(read, 1)
            yield process
        finally:
            process.kill()
            os.close(read)


def _outcome(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    assert process.stderr is not None
    try:
        code = process.wait(LIMIT)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)  # its faulthandler then says where it hangs
        pytest.fail(f"it has not ended within {LIMIT:g} s: {process.stderr.read().decode()}")
    said = process.stderr.read().decode()
    assert not UNTOLD.search(said), said
    return code, said
