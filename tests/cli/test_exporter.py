"""``nsq-anyio exporter`` as a process, on embedded servers."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Generator

import httpx
import pytest

from nsq_anyio.cli.backend import BACKENDS

from .forwarders import Server, embedded_nsqds, until
from .processes import LIMIT, end, run, running

DEAD = "127.0.0.1:1"
ANY_PORT = "--http-address=127.0.0.1:0"


@pytest.fixture(scope="module")
def cluster() -> Generator[tuple[str, list[Server]]]:
    """Two nsqds with a topic each, one of which has a channel."""
    with embedded_nsqds(2) as (nsqlookupd, nsqds):
        for path in ("topic/create?topic=clicks", "channel/create?topic=clicks&channel=archive"):
            reply = httpx.post(f"{nsqds[0].http_url}/{path}", trust_env=False)
            assert reply.status_code == 200
        nsqds[0].publish("clicks", b"1", b"2")
        nsqds[1].publish("views%23ephemeral", b"1")
        yield nsqlookupd, nsqds


def address(process: subprocess.Popen[bytes]) -> str:
    """The address that it listens on."""
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(r"HTTP: listening on (\S+)", line.decode()):
            return found[1]
    raise AssertionError(process.wait(LIMIT))


def get(where: str, path: str = "/metrics", **headers: str) -> httpx.Response:
    return httpx.get(f"http://{where}{path}", headers=headers, trust_env=False, timeout=LIMIT)


def is_ready(where: str) -> bool:
    return get(where, "/-/ready").status_code == 200


@pytest.mark.parametrize("backend", BACKENDS)
def test_it_serves_metrics_until_a_signal(cluster: tuple[str, list[Server]], backend: str) -> None:
    nsqlookupd, nsqds = cluster
    arguments = [f"--lookupd-http-address={nsqlookupd}", f"--nsqd-http-address={DEAD}", "-interval=50ms"]
    with running("exporter", *arguments, ANY_PORT, f"--backend={backend}") as process:
        where = address(process)
        until(lambda: is_ready(where))
        reply = get(where)
        assert (reply.status_code, reply.headers["Content-Encoding"]) == (200, "gzip")
        nsqd = nsqds[0].tcp_address
        for line in (
            f'nsq_channel_depth_messages{{channel="archive",nsqd="{nsqd}",topic="clicks"}} 2.0',
            f'nsq_nsqd_up{{nsqd="{nsqd}"}} 1.0',
            f'nsq_nsqd_up{{nsqd="{DEAD}"}} 0.0',
            f'nsq_nsqd_registered{{nsqd="{nsqd}",nsqlookupd="{nsqlookupd}"}} 1.0',
        ):
            assert line in reply.text.splitlines()
        reply = get(where, Accept="application/openmetrics-text; version=1.0.0")
        assert reply.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
        assert reply.text.endswith("# EOF\n")
        assert get(where, "/ping").text == get(where, "/-/healthy").text == "OK\n"
        assert get(where, "/").status_code == 404
        assert httpx.post(f"http://{where}/metrics", trust_env=False).status_code == 405
        began = time.monotonic()
        printed, log = end(process)
        assert time.monotonic() - began < 5.0
        assert printed == b""
        assert "Traceback" not in log


def test_flags_that_bound_the_series(cluster: tuple[str, list[Server]]) -> None:
    arguments = [f"--lookupd-http-address={cluster[0]}", ANY_PORT, "--sum-nsqds", "--no-ephemeral"]
    with running("exporter", *arguments, "--client-metrics", "--topic-pattern=^c|v") as process:
        where = address(process)
        until(lambda: is_ready(where))
        lines = get(where).text.splitlines()
        assert 'nsq_topic_messages_total{topic="clicks"} 2.0' in lines
        assert "views" not in "".join(lines)
        end(process)
    arguments = [f"--lookupd-http-address={cluster[0]}", ANY_PORT, "--max-channels=1"]
    with running("exporter", *arguments, "--exclude-topic-pattern=views") as process:
        where = address(process)
        until(lambda: is_ready(where))
        text = get(where, **{"Accept-Encoding": "gzip;q=0, identity"})
        assert "Content-Encoding" not in text.headers
        assert "nsq_exporter_left_out_channels 1.0" in text.text.splitlines()
        end(process)


def test_servers_that_hang_delay_neither_a_scrape_nor_the_end(cluster: tuple[str, list[Server]]) -> None:
    arguments = ["--nsqd-http-address=192.0.2.1:4151", f"--nsqd-http-address={cluster[1][0].http_url}"]
    with running("exporter", *arguments, ANY_PORT) as process:
        where = address(process)
        assert get(where).status_code == 200
        assert get(where, "/-/healthy").status_code == 200
        began = time.monotonic()
        end(process)
        assert time.monotonic() - began < 5.0


def test_an_address_that_is_taken_is_one_clear_line(cluster: tuple[str, list[Server]]) -> None:
    taken = cluster[1][0].http_url.removeprefix("http://")
    result = run("exporter", f"--lookupd-http-address={cluster[0]}", f"--http-address={taken}")
    assert result.returncode == 1
    assert result.stderr.decode().startswith(f"Error: cannot listen on {taken}: ")
    assert result.stderr.count(b"\n") == 1
