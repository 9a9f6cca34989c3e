"""Delayed messages through a real nsqd that restarts, with services that are killed."""

from __future__ import annotations

import pytest

from . import delays_ledger

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # the services run on asyncio and on Trio
@pytest.mark.timeout(200)  # the processes start slowly on a busy machine
async def test_a_short_ledger() -> None:
    """``python -m tests.interop.delays_ledger`` is the long one."""
    account = await delays_ledger.run(messages=1000, kills=2, restarts=1, seconds=6, services=2, seed=1)
    assert (account.kills, account.restarts) == (2, 1)
    assert (account.lost, account.early) == (0, 0)
    assert account.published_twice < account.messages / 2
