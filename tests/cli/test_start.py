"""What a command imports before it works, which is most of the time that it takes to start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

import nsq_anyio
from nsq_anyio.cli.lazy_group import LazyGroup, subcommands
from nsq_anyio.cli.main import cli

HEAVY = ("anyio", "asyncio", "httpx", "importlib.metadata", "logging", "nsq_anyio.errors", "rich", "ssl")

PROGRAM = """
import atexit, sys
atexit.register(lambda: print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr))
sys.argv = ["nsq-anyio", *{arguments!r}]
from nsq_anyio.cli import main
main()
"""


def imported(*arguments: str, heavy: tuple[str, ...] = HEAVY) -> str:
    """Those of ``heavy`` that a command line imports."""
    program = PROGRAM.format(arguments=arguments, heavy=heavy)
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=30
    )
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_and_version_need_click_alone(flag: str) -> None:
    assert imported(flag, heavy=tuple(name for name in HEAVY if name != "nsq_anyio.errors")) == "[]"


def test_the_handlers_of_signals_stand_before_anything_is_imported() -> None:
    """What was imported before them would be where Ctrl-C prints a traceback."""
    root = str(Path(nsq_anyio.__file__).parents[1])
    program = f"import sys; sys.path.insert(0, {root!r}); import nsq_anyio.cli; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], check=True, capture_output=True, text=True, timeout=30
    )
    assert {"signal", "enum", "re", "typing"} & set(done.stdout.split()) == set()


@pytest.mark.parametrize("command", sorted(set(subcommands(cli)) - {"nsqd", "nsqlookupd"}))
def test_the_help_of_a_command_needs_no_event_loop_and_no_display(command: str) -> None:
    assert imported(command, "--help", heavy=("anyio", "asyncio", "httpx", "re2", "rich", "ssl")) == "[]"


# What a server needs when it is first asked by HTTP, or for TLS, compression or an auth server.
NOT_TO_LISTEN = (
    *("httpx", "rich", "h11", "snappy", "nsq_anyio.serving.http_server"),
    *(
        "nsq_anyio.embedded.nsqd.upgrade",
        "nsq_anyio.embedded.nsqd.nsqd_http",
        "nsq_anyio.embedded.nsqlookupd.nsqlookupd_http",
    ),
)


@pytest.mark.skipif(sys.platform == "win32", reason="SIGTERM ends the process there")
@pytest.mark.parametrize("command", ["nsqd", "nsqlookupd"])
def test_a_server_listens_before_it_imports_what_it_needs_later(command: str) -> None:
    flags = ("--tcp-address=127.0.0.1:0", "--http-address=127.0.0.1:0")
    program = PROGRAM.format(arguments=(command, *flags), heavy=("anyio", *NOT_TO_LISTEN))
    with subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = ""
        for line in process.stderr:
            if line.startswith("HTTP: listening"):
                process.terminate()
        assert process.wait(30) == 0
    assert line == "['anyio']\n"


def test_the_list_of_commands_says_what_the_commands_do() -> None:
    assert isinstance(cli, LazyGroup)
    limit = 1000
    assert {name: place.text for name, place in cli.locations.items()} == {
        name: command.get_short_help_str(limit) for name, command in subcommands(cli).items()
    }


def test_httpx_leaves_its_own_command_line_out() -> None:
    program = PROGRAM.format(
        arguments=("topic", "list", "--lookupd-http-address=127.0.0.1:1"), heavy=("httpx", "pygments", "rich")
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=30
    )
    assert done.stderr.splitlines()[-1] == "['httpx']"


def test_every_command_has_the_flags_of_all() -> None:
    """``nsqd`` and ``nsqlookupd`` have those of the real ones."""
    common = {"--config", "--backend", "--log-level", "--log-format", "--version"}
    missing = {path: common - flags for path, flags in _flags(cli, "") if not common <= flags}
    assert set(missing) == {"completion", "nsqd", "nsqlookupd"}


def _flags(command: click.Command, path: str) -> list[tuple[str, set[str]]]:
    if isinstance(command, click.Group):
        found = [_flags(each, f"{path} {name}".strip()) for name, each in subcommands(command).items()]
        return [pair for pairs in found for pair in pairs]
    return [(path, {flag for parameter in command.params for flag in parameter.opts})]
