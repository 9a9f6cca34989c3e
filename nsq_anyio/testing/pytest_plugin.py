"""The pytest plugin. pytest imports it in each project, so it imports nothing else until a fixture is used.

All fixtures are plain functions, and servers run in threads. So they work in plain tests, and in tests of
AnyIO's plugin, pytest-trio and pytest-asyncio.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

TYPE_CHECKING: bool = False  # as in the package: the types of fixtures are only for readers

if TYPE_CHECKING:
    from ..embedded import NsqdOptions, NsqlookupdOptions
    from .clusters import Cluster
    from .in_thread import PlainFaultProxy
    from .servers import Nsqd, Nsqlookupd

__all__ = [
    "nsq_cluster",
    "nsq_fault_proxy",
    "nsq_servers",
    "nsqd",
    "nsqlookupd",
    "pytest_addoption",
    "pytest_configure",
    "pytest_report_header",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--nsq-real``."""
    parser.getgroup("nsq").addoption(
        "--nsq-real",
        metavar="PATH",
        help="Run the servers of nsq-anyio's fixtures from the nsqd and nsqlookupd in this directory, rather "
        "than inside the test process.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, and check the directory."""
    for line in (
        "nsq_cluster(nsqds=2, nsqlookupds=1): how many servers the fixture nsq_cluster has",
        "nsqd_options(**options): options of the nsqds that the test's fixtures run, see NsqdOptions",
        "nsqlookupd_options(**options): the same for nsqlookupds, see NsqlookupdOptions",
    ):
        config.addinivalue_line("markers", line)
    directory = _real(config)
    if directory is not None:
        from ..errors import NSQError  # noqa: PLC0415 - see the module
        from .real_server import program  # noqa: PLC0415

        try:
            for name in ("nsqd", "nsqlookupd"):
                program(directory, name)
        except NSQError as error:
            raise pytest.UsageError(f"--nsq-real: {error}") from error


def pytest_report_header(config: pytest.Config) -> str | None:
    """Show the directory of the real servers, if they are used."""
    directory = _real(config)
    return None if directory is None else f"nsq: real servers of {directory}"


def _real(config: pytest.Config) -> Path | None:
    path: str | None = config.getoption("--nsq-real")
    return Path(path).absolute() if path else None


@pytest.fixture(scope="session")
def nsq_servers(pytestconfig: pytest.Config) -> Callable[..., AbstractContextManager[Cluster]]:
    """`cluster_in_thread`, with the servers of ``--nsq-real``: for fixtures of any scope."""
    from .in_thread import cluster_in_thread  # noqa: PLC0415 - see the module

    return partial(cluster_in_thread, real=_real(pytestconfig))


@pytest.fixture
def nsq_cluster(
    request: pytest.FixtureRequest, nsq_servers: Callable[..., AbstractContextManager[Cluster]]
) -> Generator[Cluster]:
    """A `Cluster` for one test: two nsqds and one nsqlookupd, or as the marker ``nsq_cluster`` says."""
    with nsq_servers(
        **_of_marker(request, "nsq_cluster"),
        nsqd_options=_nsqd_options(request),
        nsqlookupd_options=_nsqlookupd_options(request),
    ) as cluster:
        yield cluster


@pytest.fixture
def _nsq_lookup(
    request: pytest.FixtureRequest, nsq_servers: Callable[..., AbstractContextManager[Cluster]]
) -> Generator[Nsqlookupd]:
    """The value of the fixture ``nsqlookupd``; a project may override that name with its own fixture."""
    with nsq_servers(nsqds=0, nsqlookupds=1, nsqlookupd_options=_nsqlookupd_options(request)) as cluster:
        yield cluster.nsqlookupds[0]


@pytest.fixture
def nsqlookupd(_nsq_lookup: Nsqlookupd) -> Nsqlookupd:
    """An `Nsqlookupd` for one test."""
    return _nsq_lookup


@pytest.fixture
def nsqd(
    request: pytest.FixtureRequest, nsq_servers: Callable[..., AbstractContextManager[Cluster]]
) -> Generator[Nsqd]:
    """An `Nsqd` for one test; it registers with the fixture ``nsqlookupd``, if the test uses that, too."""
    register_with: list[Nsqlookupd] = []
    if "_nsq_lookup" in request.fixturenames:
        register_with.append(request.getfixturevalue("_nsq_lookup"))
    with nsq_servers(
        nsqds=1, nsqlookupds=0, nsqd_options=_nsqd_options(request), register_with=register_with
    ) as cluster:
        yield cluster.nsqds[0]


@pytest.fixture
def nsq_fault_proxy() -> Generator[Callable[[str], PlainFaultProxy]]:
    """A function that runs a `PlainFaultProxy` in front of an address until the end of the test."""
    from .in_thread import fault_proxy_in_thread  # noqa: PLC0415 - see the module

    with ExitStack() as stack:
        yield lambda upstream: stack.enter_context(fault_proxy_in_thread(upstream))


def _nsqd_options(request: pytest.FixtureRequest) -> NsqdOptions | None:
    from ..embedded import NsqdOptions  # noqa: PLC0415 - see the module

    options = _of_marker(request, "nsqd_options")
    return NsqdOptions(**options) if options else None


def _nsqlookupd_options(request: pytest.FixtureRequest) -> NsqlookupdOptions | None:
    from ..embedded import NsqlookupdOptions  # noqa: PLC0415 - see the module

    options = _of_marker(request, "nsqlookupd_options")
    return NsqlookupdOptions(**options) if options else None


def _of_marker(request: pytest.FixtureRequest, name: str) -> dict[str, Any]:
    """The keyword arguments of a test's markers; the test's own win over those of its class and module."""
    found: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers(name))):
        if marker.args:
            raise pytest.UsageError(f"pytest.mark.{name}{marker.args!r}: use keyword arguments")
        found.update(marker.kwargs)
    return found
