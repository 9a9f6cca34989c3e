"""Virtual time for the tests of a module: ``anyio_backend = virtual_time.anyio_backend``.

What such tests assert is *when* something happens. A machine that is busy, or stops the process for a moment,
cannot change the outcome, and no test waits for time to pass. uvloop counts its timers as asyncio does.
"""

import pytest

from nsq_anyio.testing import Backend, pass_time, virtual_time

__all__ = ["anyio_backend", "pass_time"]


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Backend:
    """Run each test that is marked `anyio` on both, on a clock of its own."""
    return virtual_time(request.param)
