"""The pytest plugin with ``--nsq-real``: the same tests, on the real servers."""

from __future__ import annotations

import pytest

import nsq_anyio as nsq
from nsq_anyio.embedded import NsqdOptions, NsqlookupdOptions
from nsq_anyio.testing import cluster

from ..real_servers import DIRECTORY
from ..testing.projects import PLAIN, PLUGINS, project, run

__all__ = ["project"]

pytest_plugins = ["pytester"]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("plugin", ["", "anyio"], ids=["plain", "anyio"])
def test_on_real_servers(project: pytest.Pytester, plugin: str) -> None:
    source, passed = PLUGINS[plugin] if plugin else (PLAIN, 7)
    result = run(project, source, f"--nsq-real={DIRECTORY}")
    result.assert_outcomes(passed=passed)
    result.stdout.fnmatch_lines([f"nsq: real servers of {DIRECTORY}"])


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_options_become_flags() -> None:
    options = NsqdOptions(
        msg_timeout=0.25,
        max_rdy_count=7,
        snappy=False,
        e2e_processing_latency_percentiles=(0.5, 0.99),
        tls_min_version="tls1.2",
    )
    lookup = NsqlookupdOptions(tombstone_lifetime=1.5)
    async with cluster(nsqds=1, nsqd_options=options, nsqlookupd_options=lookup, real=DIRECTORY) as running:
        (nsqd,) = running.nsqds
        async with nsq.http.Nsqd(nsqd.http_url) as http:
            assert await http.config("msg_timeout") == 250_000_000
            assert await http.config("max_rdy_count") == 7
            assert await http.config("snappy") is False
            assert await http.config("e2e_processing_latency_percentiles") == [0.99, 0.5]
        await running.publish("orders", b"1", headers={"a": "b"})
        assert (await running.assert_published("orders", b"1")).headers == {"a": "b"}


@pytest.mark.anyio
async def test_an_option_of_the_embedded_nsqd_alone_is_refused() -> None:
    options = NsqdOptions(keep_deferred=True)
    with pytest.raises(nsq.InvalidOption, match="keep_deferred=True is not valid with --nsq-real"):
        async with cluster(nsqds=1, nsqd_options=options, real=DIRECTORY):
            pytest.fail("it started")
