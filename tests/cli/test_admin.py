"""``nsq-anyio admin`` as a process, on embedded servers."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from nsq_anyio.cli.backend import BACKENDS

from .forwarders import Server, embedded_nsqds
from .processes import LIMIT, end, running

ANY_PORT = "--http-address=127.0.0.1:0"


@pytest.fixture(scope="module")
def cluster() -> Generator[tuple[str, list[Server]]]:
    """Two nsqds, one of which has a topic."""
    with embedded_nsqds(2) as (nsqlookupd, nsqds):
        reply = httpx.post(f"{nsqds[0].http_url}/topic/create?topic=clicks", trust_env=False)
        assert reply.status_code == 200
        yield nsqlookupd, nsqds


def address(process: subprocess.Popen[bytes]) -> str:
    """The URL that it serves."""
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(r"HTTP: listening on (\S+)", line.decode()):
            return f"http://{found[1]}"
    raise AssertionError(process.wait(LIMIT))


def ask(url: str, method: str = "GET", **more: str | dict[str, str]) -> httpx.Response:
    headers = more.get("headers", {})
    assert isinstance(headers, dict)
    headers = {"Content-Type": "application/json", **headers}
    content = str(more.get("content", ""))
    return httpx.request(method, url, content=content, headers=headers, trust_env=False, timeout=LIMIT)


@pytest.mark.parametrize("backend", BACKENDS)
def test_it_serves_until_a_signal(cluster: tuple[str, list[Server]], backend: str) -> None:
    arguments = [f"--lookupd-http-address={cluster[0]}", ANY_PORT, "-base-path=/nsq", f"--backend={backend}"]
    with running("admin", *arguments) as process:
        url = address(process)
        assert ask(f"{url}/nsq/ping").text == "OK"
        assert ask(f"{url}/nsq/api/topics").json() == {"topics": ["clicks"], "message": ""}
        reply = ask(f"{url}/nsq/api/topics/clicks", "POST", content='{"action":"pause"}')
        assert reply.json() == {"message": ""}
        assert ask(f"{url}/nsq/api/topics/clicks").json()["paused"] is True
        assert ask(f"{url}/ping").status_code == 404
        began = time.monotonic()
        printed, log = end(process)
        assert time.monotonic() - began < 5.0
        assert printed == b""
        assert "Traceback" not in log
        assert "pause_topic: topic clicks, by an unnamed user from 127.0.0.1:" in log


def test_only_administrators_act(cluster: tuple[str, list[Server]]) -> None:
    users = ["--admin-user=ann", "--admin-user=bob", "--acl-http-header=X-User"]
    with running("admin", f"--nsqd-http-address={cluster[1][0].http_url}", ANY_PORT, *users) as process:
        url = address(process)
        body = '{"topic":"clicks"}'
        assert ask(f"{url}/api/topics", "POST", content=body).status_code == 403
        for user, status in (("ann", 200), ("bob", 200), ("eve", 403)):
            reply = ask(f"{url}/api/topics", "POST", content=body, headers={"X-User": user})
            assert reply.status_code == status
        end(process)


def test_nobody_acts_in_read_only_mode(cluster: tuple[str, list[Server]]) -> None:
    flags = [f"--lookupd-http-address={cluster[0]}", ANY_PORT, "--read-only", "--max-reply-size=1000000"]
    with running("admin", *flags) as process:
        url = address(process)
        reply = ask(f"{url}/api/topics/clicks", "POST", content='{"action":"pause"}')
        assert (reply.status_code, reply.json()) == (403, {"message": "READ_ONLY"})
        assert ask(f"{url}/api/topics").status_code == 200
        assert "/confirm" not in ask(f"{url}/topics/clicks").text
        _, log = end(process)
        assert "may delete topics" not in log


def test_a_configuration_file(cluster: tuple[str, list[Server]], tmp_path: Path) -> None:
    file = tmp_path / "admin.toml"
    file.write_text(
        f'[admin]\nlookupd-http-address = ["{cluster[0]}"]\nhttp-address = "127.0.0.1:0"\n'
        'admin-user = ["ann"]\nallowed-host = "127.0.0.1"\nstatsd-interval = "30s"\n'
    )
    with running("admin", f"--config={file}") as process:
        url = address(process)
        for option, value in (
            ("admin_users", ["ann"]),
            ("statsd_interval", 30_000_000_000),
            ("http_client_connect_timeout", 2_000_000_000),
            ("proxy_graphite", False),
            ("nsqlookupd_http_addresses", [cluster[0]]),
        ):
            assert ask(f"{url}/config/{option}").json() == value
        assert ask(f"{url}/config/graphite_url").text == ""
        assert ask(f"{url}/api/topics", headers={"Host": "evil.org"}).status_code == 403
        end(process)


PATHS = (
    "/",
    "/topics",
    "/api/topics",
    "/metrics",
    "/history",
    "/events",
    "/config/log_level",
    "/live/clicks",
)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "127.0.1.1", "[0:0:0:0:0:0:0:1]"])
def test_a_loopback_address_serves_no_other_names(cluster: tuple[str, list[Server]], host: str) -> None:
    listen = f"--http-address={host}:0"
    with running("admin", f"--nsqd-http-address={cluster[1][0].http_url}", listen) as process:
        url = address(process)
        for path in PATHS:
            assert ask(f"{url}{path}", headers={"Host": "rebound.example:4171"}).status_code == 403, path
        for name in ("localhost:4171", "[::1]:4171", f"{host}:4171"):
            assert ask(f"{url}/api/topics", headers={"Host": name}).status_code == 200
        end(process)


def test_the_dashboard_of_up_serves_no_other_names() -> None:
    with running("up", "--free-ports", "--admin", "--nsqds=1") as process:
        assert process.stdout is not None
        lines = (line.decode() for line in process.stdout)
        (url,) = re.findall(r"http://\S+", next(line for line in lines if "dashboard" in line))
        assert ask(f"{url}/api/topics", headers={"Host": "rebound.example:4171"}).status_code == 403
        assert ask(f"{url}/api/topics").status_code == 200


HOARDERS = {
    "idle": b"",
    "half a head": b"GET / HTT",
    "half a body": b"POST /actions HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Requested-With: x\r\n"
    b"Content-Length: 100\r\n\r\naction=",
    "streams": b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "unread": b"GET SCRIPT HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 4,  # 50 kB each
}


@pytest.mark.skipif(sys.platform == "win32", reason="it has no limit of descriptors")
@pytest.mark.parametrize("sent", HOARDERS.values(), ids=HOARDERS.keys())
def test_connections_that_hold_on_keep_no_visitor_out(cluster: tuple[str, list[Server]], sent: bytes) -> None:
    flags = (f"--nsqd-http-address={cluster[1][0].http_url}", ANY_PORT)
    with ExitStack() as stack, running("admin", *flags, ulimit="-n 64") as process:
        url = address(process)
        page = ask(url)
        assert page.status_code == 200
        (script,) = re.findall(r"/static/\w+/vendor/htmx.min.js", page.text)
        host, _, port = url.removeprefix("http://").partition(":")
        for _ in range(150):
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            connection.connect((host, int(port)))
            connection.sendall(sent.replace(b"SCRIPT", script.encode()))
        began = time.monotonic()
        assert ask(url).status_code == 200
        assert ask(f"{url}/api/topics").status_code == 200  # a descriptor is left to ask the nsqd
        assert time.monotonic() - began < 5.0
        _, log = end(process)
        assert "Too many open files" not in log


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize(("limits", "expected"), [("-Sn 64 && ulimit -Hn 300", 300), ("-Sn 64", 16384)])
def test_it_may_open_as_many_files_as_the_hard_limit_allows(
    cluster: tuple[str, list[Server]], limits: str, expected: int
) -> None:
    flags = (f"--nsqd-http-address={cluster[1][0].http_url}", ANY_PORT)
    with running("admin", *flags, ulimit=limits) as process:
        address(process)
        lines = Path(f"/proc/{process.pid}/limits").read_text().splitlines()
        (line,) = (line for line in lines if line.startswith("Max open files"))
        soft, hard = map(int, line.split()[3:5])
        assert soft == min(expected, hard)
        end(process)


def test_requests_in_flight_do_not_delay_the_end(cluster: tuple[str, list[Server]]) -> None:
    arguments = ["--lookupd-http-address=192.0.2.1:4161", "--http-client-request-timeout=1h"]
    with running("admin", *arguments, ANY_PORT) as process:
        host, _, port = address(process).removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(b"GET /api/topics HTTP/1.1\r\nHost: a\r\n\r\n")
            time.sleep(0.3)
            began = time.monotonic()
            end(process)
            assert time.monotonic() - began < 5.0
    del cluster


def test_flags_of_graphite_are_accepted_with_a_word(cluster: tuple[str, list[Server]]) -> None:
    graphite = ["--graphite-url=http://g", "--proxy-graphite", "--statsd-prefix=x"]
    with running("admin", f"--lookupd-http-address={cluster[0]}", ANY_PORT, *graphite) as process:
        assert process.stderr is not None
        assert b"nsq-anyio exporter and Prometheus replace them" in process.stderr.readline()
        assert ask(f"{address(process)}/config/graphite_url").text == "http://g"
        end(process)
