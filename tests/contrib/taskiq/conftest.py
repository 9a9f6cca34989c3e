"""taskiq runs on asyncio alone; an embedded nsqd for each test."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

import nsq_anyio as nsq
from nsq_anyio.embedded import EmbeddedNsqd


@pytest.fixture(scope="module", params=[False, True], ids=["asyncio", "asyncio+uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    """Both loops of asyncio."""
    return "asyncio", {"use_uvloop": request.param}


@pytest.fixture
async def nsqd(anyio_backend: object) -> AsyncGenerator[EmbeddedNsqd]:
    """An nsqd of its own."""
    async with nsq.embedded.nsqd() as running:
        yield running
