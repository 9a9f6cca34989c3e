"""Topics, channels and nsqds are completed from the servers that the command line names."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from anyio.from_thread import start_blocking_portal
from click.testing import CliRunner

import nsq_anyio as nsq
from nsq_anyio.cli.flags import names
from nsq_anyio.cli.main import cli

from .forwarders import Server, embedded_nsqds
from .processes import asked_by_bash

PATIENCE = 15.0


def completed(line: str, **environment: str) -> list[str]:
    """What completes the last word of ``line``; whole, as no word of it has a colon before."""
    env = {**environment, **asked_by_bash(f"nsq-anyio {line}"), "COMP_WORD": line.split(" ")[-1]}
    result = CliRunner().invoke(cli, [], prog_name="nsq-anyio", env=env)
    assert result.exit_code == 0
    assert result.stderr == ""
    return [line.removeprefix("plain,") for line in result.stdout.splitlines() if line]


def create(nsqd: Server, topic: str, *channels: str) -> None:
    paths = [f"channel/create?topic={topic}&channel={quote(channel)}" for channel in channels]
    for path in (f"topic/create?topic={topic}", *paths):
        assert httpx.post(f"{nsqd.http_url}/{path}", trust_env=False).status_code == 200


@pytest.fixture(scope="module")
def cluster() -> Generator[tuple[str, list[Server]]]:
    with embedded_nsqds(2) as (nsqlookupd, nsqds):
        create(nsqds[0], "clicks", "archive", "tail1#ephemeral")
        create(nsqds[1], "clicks", "metrics")
        create(nsqds[1], "clicks.dead")
        create(nsqds[1], "views", "views-only")
        yield nsqlookupd, nsqds


TOPICS = ["clicks", "clicks.dead", "views"]


@pytest.mark.parametrize(
    "command",
    [
        "tail --topic",
        "pub --topic",
        "stat --topic",
        "to-file --topic",
        "to-http --topic",
        "to-nsq --topic",
        "run --topic",
        "run --dead-letter",
        "demo --topic",
        "dead-letter list --topic",
        "dead-letter retry --from-topic",
        "pipeline archive --topic",
        "topic pause",
        "channel list",
        "node tombstone",
    ],
)
@pytest.mark.parametrize("flag", ["--lookupd-http-address", "--nsqlookupd"])
def test_topics_of_a_nsqlookupd(cluster: tuple[str, list[Server]], command: str, flag: str) -> None:
    words = command.rpartition(" --") if " --" in command else (command, "", "")
    line = f"{words[0]} {flag} {cluster[0]}{words[1]}{words[2]} "
    assert completed(line) == TOPICS
    assert completed(f"{line}clicks.") == ["clicks.dead"]


@contextmanager
def at_neighbouring_ports() -> Generator[Server]:
    """An nsqd that speaks HTTP on the port after its TCP port, as by default."""
    with start_blocking_portal() as portal, ExitStack() as stack:
        for port in range(20_000, 30_000, 2):
            nsqd = nsq.embedded.nsqd(tcp_port=port, http_port=port + 1)
            try:
                running = stack.enter_context(portal.wrap_async_context_manager(nsqd))
            except nsq.embedded.ListenFailed:
                continue
            yield Server(running.tcp_address, running.http_url)
            return
        raise AssertionError("no two ports are free")


def test_topics_of_an_nsqd_whose_ports_are_neighbours() -> None:
    with at_neighbouring_ports() as nsqd:
        create(nsqd, "clicks")
        for command in ("tail --nsqd-tcp-address", "pub --nsqd", "pipeline replay --nsqd"):
            assert completed(f"{command} {nsqd.tcp_address} --topic ") == ["clicks"]


def test_the_nsqlookupd_at_the_usual_address_is_asked_if_none_is_named(
    cluster: tuple[str, list[Server]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert names.USUAL_NSQLOOKUPD == "127.0.0.1:4161"
    monkeypatch.setattr(names, "USUAL_NSQLOOKUPD", cluster[0])
    assert completed("tail --topic ") == TOPICS
    assert completed("topic pause v") == ["views"]


def test_channels_are_those_of_the_topics_on_the_line(cluster: tuple[str, list[Server]]) -> None:
    nsqlookupd, nsqds = cluster
    of_clicks = ["archive", "metrics", "tail1#ephemeral"]
    at = f"--lookupd-http-address {nsqlookupd}"
    assert completed(f"tail {at} --topic clicks --channel ") == of_clicks
    assert completed(f"tail {at} --topic clicks --topic views --channel ") == [*of_clicks, "views-only"]
    assert completed(f"channel empty {at} clicks ") == of_clicks
    assert completed(f"stat --nsqd-http-address {nsqds[0].http_url} --topic clicks --channel a") == [
        "archive"
    ]
    assert completed(f"tail {at} --channel ") == []


def test_nsqds_of_a_nsqlookupd(cluster: tuple[str, list[Server]]) -> None:
    nsqlookupd, nsqds = cluster
    at = f"--lookupd-http-address {nsqlookupd}"
    tcp = sorted(nsqd.tcp_address for nsqd in nsqds)
    http = sorted(nsqd.http_url.removeprefix("http://") for nsqd in nsqds)
    assert completed(f"pub {at} --nsqd-tcp-address ") == tcp
    assert completed(f"stat {at} --nsqd-http-address ") == http
    assert completed(f"node tombstone {at} clicks ") == http


def test_a_second_cluster_has_names_of_its_own(cluster: tuple[str, list[Server]]) -> None:
    nsqlookupd, nsqds = cluster
    line = f"to-nsq --lookupd-http-address 127.0.0.1:1 --destination-lookupd-http-address {nsqlookupd}"
    assert completed(f"{line} --destination-topic ") == TOPICS
    assert completed(f"{line} --destination-nsqd ") == sorted(nsqd.tcp_address for nsqd in nsqds)
    assert completed(f"{line} --topic ") == []


def test_the_environment_and_the_configuration_file_name_servers(
    cluster: tuple[str, list[Server]], tmp_path: Path
) -> None:
    nsqlookupd, _ = cluster
    assert completed("tail --topic ", NSQ_ANYIO_TAIL_LOOKUPD_HTTP_ADDRESS=nsqlookupd) == TOPICS
    assert completed("topic pause ", NSQ_ANYIO_TOPIC_PAUSE_NSQLOOKUPD=nsqlookupd) == TOPICS
    config = tmp_path / "nsq.toml"
    config.write_text(f'nsqlookupd = "{nsqlookupd}"\n')
    assert completed(f"tail --config {config} --topic ") == TOPICS
    assert completed("tail --topic ", NSQ_ANYIO_CONFIG=str(config)) == TOPICS


class _Hostile(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        found = ["fine", "$(touch x)", "two words", "a;b", "`id`", "line\nfeed", "x" * 65]
        producers: list[dict[str, object]] = [
            {"broadcast_address": host, "tcp_port": 1, "http_port": 2, "topics": [], "tombstones": []}
            for host in ("fine", "$(id)", "a b")
        ]
        body = json.dumps({"topics": found, "channels": found, "producers": producers}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_what_the_shell_could_run_is_not_offered() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Hostile) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        at = f"--lookupd-http-address 127.0.0.1:{server.server_port}"
        try:
            assert completed(f"tail {at} --topic ") == ["fine"]
            assert completed(f"tail {at} --topic fine --channel ") == ["fine"]
            assert completed(f"stat {at} --nsqd-http-address ") == ["fine:2"]
            assert completed(f"pub {at} --nsqd-tcp-address ") == ["fine:1"]
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("address", ["127.0.0.1:1", "not an address", "ftp://x", "https://127.0.0.1:1"])
def test_no_server_offers_nothing(address: str) -> None:
    variables = {"NSQ_ANYIO_TAIL_LOOKUPD_HTTP_ADDRESS": address}
    assert completed("tail --topic ", **variables) == []
    assert completed("tail --topic clicks --channel ", **variables) == []


def test_a_silent_server_does_not_hold_up_the_shell() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        started_at = time.monotonic()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        assert completed(f"tail --lookupd-http-address {address} --topic ") == []
        assert completed(f"tail --nsqd-tcp-address {address} --topic ") == []
        assert time.monotonic() - started_at < PATIENCE
