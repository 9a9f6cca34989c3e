"""What every test has: the event loops to run on, and bounds for property tests."""

import gc
import os
from collections.abc import Generator

import pytest
from hypothesis import settings

from .decoders import codec, frame_decoder
from .tls_files import tls_files

__all__ = ["anyio_backend", "codec", "frame_decoder", "tls_files"]

BACKENDS: dict[str, tuple[str, dict[str, bool]]] = {
    "asyncio": ("asyncio", {"use_uvloop": False}),
    "asyncio+uvloop": ("asyncio", {"use_uvloop": True}),
    "trio": ("trio", {}),
}

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
