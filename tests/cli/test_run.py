"""Signals, errors and exit codes of commands, each in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from nsq_anyio.cli.backend import BACKENDS

LIMIT = 20.0
FULL = Path("/dev/full")
PROGRAM = """
import sys, anyio, click, nsq_anyio as nsq
from nsq_anyio.cli.ending import exit_after
from nsq_anyio.cli.output import Output
from nsq_anyio.cli.event_loop import run_draining, run_servers, run_to_end

def command():
{body}
    run_{kind}(main, {backend!r})

exit_after(command)
"""

pytestmark = pytest.mark.parametrize("backend", BACKENDS)


def _program(body: str, backend: str, kind: str = "draining") -> list[str]:
    indented = textwrap.indent(textwrap.dedent(body), "    ")
    return [sys.executable, "-c", PROGRAM.format(body=indented, kind=kind, backend=backend)]


@contextmanager
def _started(command: Sequence[str]) -> Generator[subprocess.Popen[str]]:
    """A program that has said that it is ready."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", process.communicate()
            yield process
        finally:
            process.kill()


def _failing(what: str, backend: str) -> tuple[int, str]:
    body = f"""
        async def main(stop):
            raise {what}
        """
    result = subprocess.run(
        _program(body, backend), capture_output=True, text=True, timeout=LIMIT, check=False
    )
    return result.returncode, result.stderr


DRAINS = """
    async def main(stop):
        click.echo("ready")
        await stop.wait()
        await anyio.sleep(0.05)
        click.echo("drained")
    """
NEVER_ENDS = """
    async def main(stop):
        click.echo("ready")
        await stop.wait()
        click.echo("draining")
        await anyio.sleep(1000)
    """


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_drains_and_is_a_success(backend: str, number: signal.Signals) -> None:
    with _started(_program(DRAINS, backend)) as process:
        process.send_signal(number)
        assert process.communicate(timeout=LIMIT) == ("drained\n", "")
    assert process.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_second_signal_does_not_wait(backend: str, number: signal.Signals) -> None:
    with _started(_program(NEVER_ENDS, backend)) as process:
        assert process.stdout is not None
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "draining\n"
        process.send_signal(number)
        assert process.wait(LIMIT) == 128 + number


def test_what_ends_by_itself_is_a_success(backend: str) -> None:
    body = """
        async def main(stop):
            click.echo("done")
        """
    result = subprocess.run(
        _program(body, backend), capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "done\n", "")


def test_a_signal_cancels_what_cannot_drain(backend: str) -> None:
    body = """
        async def main():
            try:
                click.echo("ready")
                await anyio.sleep(1000)
            finally:
                click.echo("cleaned up")
        """
    with _started(_program(body, backend, "to_end")) as process:
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=LIMIT) == ("cleaned up\n", "")
    assert process.returncode == 143


def test_servers_end_with_success_at_a_signal(backend: str) -> None:
    body = """
        async def main(servers):
            click.echo("ready")
        """
    with _started(_program(body, backend, "servers")) as process:
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=LIMIT) == ("", "")
    assert process.returncode == 0


def test_a_closed_output_is_no_words(backend: str) -> None:
    body = """
        async def main(stop):
            click.echo("ready")
            output = Output()
            while True:
                await output.write(b"x" * 1000)
        """
    with _started(_program(body, backend)) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(LIMIT) == 141


@pytest.mark.skipif(sys.platform == "win32", reason="nobody tells there")
def test_an_output_that_is_closed_while_nothing_is_written(backend: str) -> None:
    body = """
        async def main(stop):
            click.echo("ready")
            await Output().wait_closed()
        """
    with _started(_program(body, backend)) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(LIMIT) == 141


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")
def test_a_full_disk_is_one_line(backend: str) -> None:
    body = """
        async def main(stop):
            await Output().write(b"x")
        """
    with FULL.open("wb") as full:
        result = subprocess.run(
            _program(body, backend),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=LIMIT,
            check=False,
        )
    assert result.returncode == 1
    assert result.stderr == "Error: cannot write the output: No space left on device\n"


def test_errors_of_the_package_are_one_line(backend: str) -> None:
    assert _failing("nsq.NSQError('no luck')", backend) == (1, "Error: no luck\n")


def test_the_first_of_several_is_told(backend: str) -> None:
    what = "ExceptionGroup('', [nsq.NSQError('one'), ExceptionGroup('', [nsq.NSQError('two')])])"
    assert _failing(what, backend) == (1, "Error: one\n")


def test_a_command_s_own_words_come_first(backend: str) -> None:
    what = "ExceptionGroup('', [nsq.NSQError('one'), click.ClickException('mine')])"
    assert _failing(what, backend) == (1, "Error: mine\n")


def test_an_option_out_of_range_is_a_wrong_command_line(backend: str) -> None:
    code, log = _failing("nsq.InvalidOption('x = 1 is not valid')", backend)
    assert code == 2
    assert log.endswith("Error: x = 1 is not valid\n")


@pytest.mark.parametrize("what", ["ZeroDivisionError()", "ExceptionGroup('', [nsq.NSQError(), OSError()])"])
def test_a_mistake_of_the_program_is_not_hidden(backend: str, what: str) -> None:
    code, log = _failing(what, backend)
    assert code == 1
    assert "Traceback" in log
