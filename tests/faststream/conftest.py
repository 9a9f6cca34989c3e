"""FastStream runs on asyncio alone; an embedded nsqd, and fresh names. Others start what they need."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from itertools import count

import pytest

from ..interop.cluster import Cluster, Server, run_cluster

_numbers = count(1)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """The only one that FastStream knows."""
    return "asyncio"


@pytest.fixture
async def cluster(anyio_backend: object) -> AsyncGenerator[Cluster]:
    """For tests that stop their servers, or need a real one."""
    async with run_cluster() as running:
        yield running


@pytest.fixture(scope="module")
async def nsqd(anyio_backend: object) -> AsyncGenerator[Server]:
    """One nsqd for all tests of a module, which use names of their own."""
    async with run_cluster() as running:
        yield await running.nsqd("embedded")


@pytest.fixture
def topic() -> str:
    """A topic that no other test uses."""
    return f"topic-{next(_numbers)}"
