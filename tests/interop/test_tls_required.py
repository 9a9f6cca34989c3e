"""A cluster whose nsqds require TLS: the ports that nsqlookupd lists refuse everything by plain HTTP."""

from __future__ import annotations

import ssl

import anyio
import httpx
import pytest

import nsq_anyio as nsq
from nsq_anyio.admin import AdminOptions, app

from ..real_servers import real_nsqd, real_nsqlookupd
from ..tls_files import TLSFiles

pytestmark = pytest.mark.anyio


async def test_the_real_nsqd_is_reached_by_https(tls_files: TLSFiles) -> None:
    flags = [
        f"--tls-cert={tls_files.certificate_file}",
        f"--tls-key={tls_files.private_key_file}",
        "--tls-required=true",
    ]
    context = ssl.create_default_context(cafile=tls_files.ca_file)
    async with (
        real_nsqlookupd() as lookupd,
        real_nsqd(lookupd_tcp_addresses=[lookupd.tcp_address], flags=flags) as nsqd,
    ):
        async with nsq.http.Nsqd(nsqd.http_url, ssl_context=context) as http:
            await http.create_topic("t")
            assert (await http.info()).version == "1.3.0"
        async with nsq.http.Cluster(nsqlookupd=lookupd.http_url, ssl_context=context) as cluster:
            with anyio.fail_after(10):
                while not (await cluster.topics()).value:  # noqa: ASYNC110 - nsqlookupd tells nobody
                    await anyio.sleep(0.05)
            assert (await cluster.create_channel("t", "c")).value == (lookupd.http_url, nsqd.http_url)
            survey = await cluster.survey()
            assert survey.errors == {}
            assert [each.topic_name for each in survey.nsqds[0].stats.topics] == ["t"]
        async with nsq.http.Cluster(nsqlookupd=lookupd.http_url) as distrustful:
            (error,) = (await distrustful.survey()).errors.values()
            assert "certificate verify failed" in error
        options = AdminOptions(ssl_context=context)
        async with app(lookupd.http_url, options=options) as application:
            transport = httpx.ASGITransport(app=application)
            async with httpx.AsyncClient(transport=transport, base_url="http://admin") as client:
                found = (await client.get("/api/topics/t")).json()
                assert (found["message"], [each["channel_name"] for each in found["channels"]]) == ("", ["c"])
