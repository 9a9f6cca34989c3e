"""Projects that use the pytest plugin, each with a configuration that makes every warning an error."""

from __future__ import annotations

import textwrap

import pytest

INI = """
    [pytest]
    addopts = --strict-markers
    filterwarnings = error
    asyncio_default_fixture_loop_scope = function
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project that has nothing but strict settings."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.delenv("PYTEST_PLUGINS", raising=False)
    pytester.makefile(".ini", pytest=textwrap.dedent(INI))
    return pytester


def run(project: pytest.Pytester, source: str, *options: str) -> pytest.RunResult:
    project.makepyfile(test_it=textwrap.dedent(source))
    return project.runpytest_subprocess(*options)


PLAIN = """
    import pytest
    import nsq_anyio as nsq

    def test_one(nsqd):
        with nsq.sync.produce(nsqd=nsqd.tcp_address) as producer:
            producer.publish("orders", b"1")
        nsqd.sync.assert_published("orders", b"1")

    def test_another_has_an_nsqd_of_its_own(nsqd):
        assert nsqd.sync.messages("orders") == []

    def test_nsqd_registers_with_the_nsqlookupd_beside_it(nsqd, nsqlookupd):
        nsqd.sync.publish("orders", b"1")
        with nsq.sync.consume("orders", "billing", nsqlookupd=nsqlookupd.http_url) as consumer:
            message = consumer.take(timeout=30)
            message.finish()
            nsqd.sync.wait_until_empty("orders", "billing")

    def test_in_the_other_order(nsqlookupd, nsqd):
        with nsq.sync.produce(nsqlookupd=nsqlookupd.http_url) as producer:
            producer.publish("orders", b"1")
        nsqd.sync.assert_published("orders", b"1")

    def test_the_cluster(nsq_cluster):
        assert (len(nsq_cluster.nsqds), len(nsq_cluster.nsqlookupds)) == (2, 1)

    @pytest.mark.nsqd_options(msg_timeout=0.5)
    class TestOptions:
        @pytest.mark.nsq_cluster(nsqds=3, nsqlookupds=2)
        @pytest.mark.nsqd_options(max_rdy_count=7)
        @pytest.mark.nsqlookupd_options(tombstone_lifetime=1.0)
        def test_of_servers(self, nsq_cluster):
            assert (len(nsq_cluster.nsqds), len(nsq_cluster.nsqlookupds)) == (3, 2)
            with nsq.sync.consume("orders", "billing", nsqd=nsq_cluster.tcp_addresses) as consumer:
                consumer.ready(timeout=30)
                nsq_cluster.sync.publish("orders", b"1")
                message = consumer.take(timeout=30)
                assert message.time_left() <= 0.5
                message.finish()

    def test_a_proxy(nsqd, nsq_fault_proxy):
        proxy = nsq_fault_proxy(nsqd.tcp_address)
        proxy.to_client.piece = 1
        with nsq.sync.produce(nsqd=proxy.address) as producer:
            producer.publish("orders", b"1")
        assert proxy.accepted == 1
"""
"""Seven plain tests."""

_ASYNC = """
    import pytest
    import nsq_anyio as nsq

    {decorator}
    async def test_async(nsqd, nsqlookupd, nsq_cluster, nsq_fault_proxy{more}):
        async with nsq.produce(nsqd=nsq_fault_proxy(nsqd.tcp_address).address) as producer:
            await producer.publish("orders", b"1")
        async with nsq.consume("orders", "billing", nsqlookupd=nsqlookupd.http_url) as consumer:
            async for message in consumer:
                message.finish()
                break
        await nsqd.wait_until_empty("orders", "billing")
        async with nsq.produce(nsqlookupd=nsq_cluster.nsqlookupd_urls) as producer:
            await producer.publish("orders", b"2")
        assert (await nsq_cluster.assert_published("orders", b"2")).payload == b"2"
        with pytest.raises(nsq.WouldDeadlock):
            nsqd.sync.messages("orders")
"""

PLUGINS = {
    "anyio": (_ASYNC.format(decorator="@pytest.mark.anyio", more=", anyio_backend"), 2),
    "pytest-trio": (_ASYNC.format(decorator="@pytest.mark.trio", more=""), 1),
    "pytest-asyncio": (_ASYNC.format(decorator="@pytest.mark.asyncio", more=""), 1),
}
"""That test for each plugin, and how often it runs."""
