"""The servers of the interop tests, in every mix, and fresh names."""

from collections.abc import AsyncGenerator
from itertools import count
from pathlib import Path

import pytest

from .cluster import KINDS, NSQD_KINDS, Cluster, Kind, Server, run_cluster

_numbers = count(1)
_HERE = Path(__file__).parent
_SEE_NO_QUEUE = {
    _HERE / f"test_{name}.py"
    for name in (
        *("bad_input", "cluster_metrics", "end_of_the_loop", "middleware", "opentelemetry", "prometheus"),
        *("unix_sockets", "wire_bytes", "wire_matrix", "wire_refusals"),
    )
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave a stored nsqd out where nothing sees its queues, in which alone it differs."""
    left_out = [
        item
        for item in items
        if "stored-nsqd" in words(item) and (item.path in _SEE_NO_QUEUE or "real-nsqlookupd" in words(item))
    ]
    if left_out:
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)


def words(item: pytest.Item) -> set[str]:
    """The parameters of a test, as its name has them."""
    kinds = [f"{kind}-{server}" for kind in NSQD_KINDS for server in ("nsqd", "nsqlookupd")]
    return {kind for kind in kinds if kind in item.name}


@pytest.fixture(scope="module", params=NSQD_KINDS, ids=[f"{kind}-nsqd" for kind in NSQD_KINDS])
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
