"""What every test has: the event loops to run on, and bounds for property tests."""

import gc
import os
import shutil
from collections.abc import Generator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis.strategies import none

from . import real_servers
from .decoders import codec, frame_decoder
from .tls_files import tls_files

__all__ = ["anyio_backend", "codec", "frame_decoder", "tls_files"]

BACKENDS: dict[str, tuple[str, dict[str, bool]]] = {
    "asyncio": ("asyncio", {"use_uvloop": False}),
    "asyncio+uvloop": ("asyncio", {"use_uvloop": True}),
    "trio": ("trio", {}),
}

# What the tests of a directory import besides the group `test`, and the session of nox that installs it.
SESSIONS = {
    "browser": ("playwright", "browser"),
    "examples": ("fastapi", "examples"),
    "faststream": ("faststream_nsq", "faststream"),
    "migrating": ("gnsq", "migrating"),
    "spark": ("pyspark", "spark"),
}
NEED_REAL_SERVERS = (
    *("browser", "cli/test_failing_disk.py", "examples/test_beyond.py", "faststream"),
    *("interop", "migrating", "spark"),
)

# No deadline for one example: how busy the machine is does not make a property false.
settings.register_profile("local", deadline=None, max_examples=60)
# The same examples at each run: a run that fails can be repeated, and a change that is unrelated stays green.
settings.register_profile(
    "ci", deadline=None, max_examples=60, derandomize=True, database=None, print_blob=True
)
settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture(scope="module", params=list(BACKENDS.values()), ids=list(BACKENDS))
def anyio_backend(request: pytest.FixtureRequest) -> object:
    """Run each test that is marked `anyio` on every event loop."""
    return request.param


@pytest.fixture(scope="module", autouse=True)
def _leaks_fail_here() -> Generator[None]:
    """Collect what a module left behind, so that an unclosed socket fails there and not in a later one."""
    yield
    gc.collect()


@given(none())
def _first_property(_: None) -> None:
    """Have Hypothesis look for what refers to its random numbers, as it does at its first test."""


def pytest_collection_finish() -> None:
    """Keep what stays until the end, thousands of tests, out of each collection from now on."""
    _first_property()  # afterwards, what refers to anything is hidden
    gc.collect()
    gc.freeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what cannot run here, if pytest was started without arguments."""
    bare = config.args_source is not pytest.Config.ArgsSource.ARGS
    return True if bare and collection_path in _missing() else None


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say what is left out, and how to run it."""
    if config.args_source is pytest.Config.ArgsSource.ARGS:
        return []
    return [f"{path.name}: not run here: {reason}" for path, reason in _missing().items()]


@cache
def _missing() -> dict[Path, str]:
    """Return the tests that cannot run, and why."""
    here = Path(__file__).parent
    reasons: dict[Path, str] = {}
    if not real_servers.DIRECTORY.is_dir():
        reasons = {here / name: "`nox -s servers` builds the real servers" for name in NEED_REAL_SERVERS}
    if shutil.which("cc") is None:
        reasons[here / "cli/test_failing_disk.py"] = "there is no C compiler"
    for name, (module, session) in SESSIONS.items():
        if find_spec(module) is None:
            reasons[here / name] = f"{module} is not installed; `nox -s {session}` has it"
    return reasons
