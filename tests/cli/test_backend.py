"""On which event loop a command runs."""

import importlib.util
import subprocess
import sys
from importlib.machinery import ModuleSpec

import click
import pytest
from click.testing import CliRunner

from nsq_anyio.cli.backend import BACKENDS, default_backend
from nsq_anyio.cli.event_loop import run_to_end
from nsq_anyio.cli.main import cli

LOOPS = {
    "asyncio": "asyncio.unix_events",
    "uvloop": "uvloop",
    "trio": "trio",
}
PROGRAM = """
import sys, sniffio
from asyncio import get_running_loop
from nsq_anyio.cli.event_loop import run_to_end

async def main():
    library = sniffio.current_async_library()
    print(library if library == "trio" else type(get_running_loop()).__module__)

run_to_end(main, sys.argv[1])
"""


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither uvloop nor Trio is installed."""
    find_spec = importlib.util.find_spec

    def found(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name in {"uvloop", "trio"} else find_spec(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", found)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no uvloop")
@pytest.mark.parametrize("backend", BACKENDS)
def test_it_runs_on_the_one_that_is_named(backend: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, backend], capture_output=True, text=True, timeout=20, check=True
    )
    assert done.stdout.strip() == LOOPS[backend]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no uvloop")
def test_an_installed_uvloop_is_the_default() -> None:
    assert default_backend() == "uvloop"


@pytest.mark.usefixtures("absent")
def test_without_uvloop_asyncio_s_own_loop_is_the_default() -> None:
    assert default_backend() == "asyncio"


@pytest.mark.usefixtures("absent")
@pytest.mark.parametrize("backend", ["uvloop", "trio"])
def test_one_that_is_not_installed(backend: str) -> None:
    async def main() -> None:
        raise AssertionError

    with pytest.raises(
        click.UsageError, match=rf"{backend} is not installed: pip install 'nsq-anyio\[{backend}\]'"
    ):
        run_to_end(main, backend)


def test_the_help_tells_of_the_default() -> None:
    text = CliRunner().invoke(cli, ["tail", "--help"], terminal_width=200).output
    assert "[asyncio|uvloop|trio]" in text
    assert "[default: (uvloop where it is installed, else asyncio)]" in text
