"""Delayed messages through a real nsqd that restarts, with services that are killed."""

from __future__ import annotations

import pytest

from . import delays_ledger

pytestmark = pytest.mark.anyio


async def test_a_short_ledger() -> None:
    """``python -m tests.interop.delays_ledger`` is the long one."""
    account = await delays_ledger.run(messages=2000, kills=3, restarts=1, seconds=6, services=2, seed=1)
    assert (account.kills, account.restarts) == (3, 1)
    assert (account.lost, account.early) == (0, 0)
    assert account.published_twice < account.messages / 2
