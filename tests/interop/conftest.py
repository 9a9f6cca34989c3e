"""The servers of the interop tests, in every mix, and fresh names."""

from collections.abc import AsyncGenerator
from itertools import count
from pathlib import Path

import pytest

from .cluster import KINDS, NSQD_KINDS, Cluster, Kind, Server, run_cluster

_numbers = count(1)
_HERE = Path(__file__).parent
# What a stored nsqd does otherwise is that of its queues, of which these see nothing, or no more than the
# tests of publishing, consuming and answers do.
_WITHOUT_STORED = {
    _HERE / f"test_{name}.py"
    for name in (
        *("bad_input", "cli_admin", "cli_forwarders", "cli_forwarders_like_go", "cli_pub", "cli_tail"),
        *("cluster_metrics", "dead_letters_by_lookup", "discovery", "end_of_the_loop", "faults_late_rdy"),
        *("http_cluster", "middleware", "opentelemetry", "prometheus", "sync", "taskiq", "unix_sockets"),
        *("wire_bytes", "wire_matrix", "wire_refusals"),
    )
}
# Of a network that cuts their bytes, both nsqds see the same, so on Trio one is enough.
_CUT_BYTES = _HERE / "test_wire_bytes.py"
_SERVERS = [f"{kind}-{server}" for kind in NSQD_KINDS for server in ("nsqd", "nsqlookupd")]
_MIXED = ({"embedded-nsqd", "real-nsqlookupd"}, {"real-nsqd", "embedded-nsqlookupd"})


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the mixes of servers and loops that make no difference to what others cover."""
    left_out = [item for item in items if is_left_out(item)]
    if left_out:
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)


def is_left_out(item: pytest.Item) -> bool:
    """Whether it has a stored nsqd whose queues it does not see, or, on Trio, servers covered on asyncio."""
    servers = {kind for kind in _SERVERS if kind in item.name}
    if "stored-nsqd" in servers and (item.path in _WITHOUT_STORED or "real-nsqlookupd" in servers):
        return True
    on_trio = "trio" in item.name
    return on_trio and (servers in _MIXED or ("real-nsqd" in servers and item.path == _CUT_BYTES))


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
