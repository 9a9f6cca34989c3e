"""The servers of the interop tests, in every mix, and fresh names."""

from collections.abc import AsyncGenerator
from itertools import count

import pytest

from .cluster import KINDS, Cluster, Kind, Server, run_cluster

_numbers = count(1)


@pytest.fixture(scope="module", params=KINDS, ids=[f"{kind}-nsqd" for kind in KINDS])
def nsqd_kind(request: pytest.FixtureRequest) -> Kind:
    kind: Kind = request.param
    return kind


@pytest.fixture(scope="module", params=KINDS, ids=[f"{kind}-nsqlookupd" for kind in KINDS])
def nsqlookupd_kind(request: pytest.FixtureRequest) -> Kind:
    kind: Kind = request.param
    return kind


@pytest.fixture
async def cluster() -> AsyncGenerator[Cluster]:
    """For tests that stop their servers, or start them with options."""
    async with run_cluster() as running:
        yield running


@pytest.fixture(scope="module")
async def nsqd(anyio_backend: object, nsqd_kind: Kind) -> AsyncGenerator[Server]:
    """One nsqd for all tests of a module that use names of their own."""
    async with run_cluster() as running:
        yield await running.nsqd(nsqd_kind)


@pytest.fixture
def topic() -> str:
    """A topic that no other test uses."""
    return f"topic-{next(_numbers)}"
