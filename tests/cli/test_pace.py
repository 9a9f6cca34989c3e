"""At most so many messages a second."""

from __future__ import annotations

import anyio
import pytest

from nsq_anyio.cli.pub.run import Pace

pytestmark = pytest.mark.anyio


async def test_a_rate_is_kept() -> None:
    pace, stop = Pace(100), anyio.Event()
    started_at = anyio.current_time()
    for _ in range(6):
        await pace.wait(5, stop)
    # The first goes at once; each of the others waits for those before it.
    assert anyio.current_time() - started_at >= 0.25


async def test_time_without_messages_is_not_made_up_for() -> None:
    pace, stop = Pace(100), anyio.Event()
    await pace.wait(1, stop)
    await anyio.sleep(0.1)
    started_at = anyio.current_time()
    for _ in range(11):
        await pace.wait(1, stop)
    assert anyio.current_time() - started_at >= 0.1


async def test_no_rate_does_not_wait() -> None:
    pace, stop = Pace(0), anyio.Event()
    with anyio.fail_after(1):
        for _ in range(1000):
            await pace.wait(1_000_000, stop)


async def test_the_end_is_not_waited_for() -> None:
    pace, stop = Pace(1), anyio.Event()
    await pace.wait(3600, stop)
    stop.set()
    with anyio.fail_after(1):
        await pace.wait(1, stop)


@pytest.mark.parametrize(("rate", "most"), [(0, None), (1, 1), (19, 1), (1000, 50)])
def test_a_rate_bounds_what_goes_together(rate: int, most: int | None) -> None:
    assert Pace(rate).max_batch == most


@pytest.mark.parametrize(("rate", "size"), [(0, 65536), (1, 512), (1000, 10_000), (1_000_000, 65536)])
def test_a_rate_bounds_what_is_read_ahead(rate: int, size: int) -> None:
    assert Pace(rate).read_size == size
