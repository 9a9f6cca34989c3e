"""``nsq-anyio nsqd`` and ``nsq-anyio nsqlookupd`` take the flags and the TOML files of the real programs."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import httpx
import pytest
from click.testing import CliRunner

from nsq_anyio.cli.main import cli
from tests.real_servers import program

Kind = Literal["real", "embedded"]
KINDS: tuple[Kind, ...] = ("real", "embedded")

START_LIMIT = 30.0
LISTEN = ("--tcp-address=127.0.0.1:0", "--http-address=127.0.0.1:0")
HTTPS = "--https-address=127.0.0.1:0"

# Values that need not be valid elsewhere: what counts is how they are read.
TYPES = """
msg_timeout = 5000
max_msg_timeout = "1h1m"
max_req_timeout = 7000
max_rdy_count = "7"
mem_queue_size = 99999999999
snappy = 1
deflate = "F"
id = 5
node_id = 6
nsqlookupd_tcp_addresses = "127.0.0.1:1,127.0.0.1:2"
lookupd_tcp_address = ["127.0.0.1:3"]
auth_http_addresses = ["127.0.0.1:4"]
broadcast_address = "h"
broadcast_tcp_port = 5
broadcast_http_port = "6"
log_level = "DEBUG"
log_prefix = "x"
queue_scan_selection_count = 8
queue_scan_worker_pool_max = 9
max_bytes_per_file = 10
sync_every = 11
sync_timeout = "12s"
tls_cert = ""
tls_key = ""
tls_root_ca_file = ""
tls_client_auth_policy = ""
tls_required = "false"
tls_min_version = "TLS1.2"
max_channel_consumers = 3
statsd_address = "127.0.0.1:8125"
statsd_prefix = "p.%s.%s"
statsd_interval = "5s"
statsd_mem_stats = 1
statsd_udp_packet_size = "600"
statsd_exclude_ephemeral = true
e2e_processing_latency_percentiles = [0.5, 1.0, 0.99]
e2e_processing_latency_percentile = [0.1]
e2e_processing_latency_window_time = 30000
unknown = 1
max-msg-size = 1
MAX_BODY_SIZE = 1
version = true
worker_id = true
[table]
max_msg_size = 1
"""

ZEROS = """
snappy = 0
deflate = true
tls_required = 0
tls_min_version = ""
nsqlookupd_tcp_addresses = ["127.0.0.1:1"]
max_req_timeout = 0
statsd_address = ""
statsd_prefix = ""
e2e_processing_latency_percentiles = "0.5, 0.9"
"""

OPTIONS = (
    *(
        "msg_timeout",
        "max_msg_timeout",
        "max_req_timeout",
        "max_rdy_count",
        "mem_queue_size",
        "snappy",
        "deflate",
    ),
    *("nsqlookupd_tcp_addresses", "auth_http_addresses", "broadcast_address", "log_level", "log_prefix"),
    *(
        "queue_scan_selection_count",
        "queue_scan_worker_pool_max",
        "max_bytes_per_file",
        "sync_every",
        "data_path",
    ),
    *("statsd_address", "statsd_prefix", "statsd_interval", "statsd_mem_stats", "statsd_udp_packet_size"),
    *("statsd_exclude_ephemeral", "e2e_processing_latency_percentiles"),
    *("e2e_processing_latency_window_time", "e2e_processing_latency_percentile"),
    *("sync_timeout", "tls_cert", "tls_key", "tls_client_auth_policy", "tls_required", "tls_min_version"),
    *(
        "max_channel_consumers",
        "max_msg_size",
        "max_body_size",
        "tcp_address",
        "http_address",
        "https_address",
    ),
)
GIVEN = ("id", "broadcast_tcp_port", "broadcast_http_port")

INVALID = [
    "msg_timeout = 5.0",
    "msg_timeout = true",
    'msg_timeout = "x"',
    "max_rdy_count = 7.0",
    "max_rdy_count = true",
    'max_rdy_count = "x"',
    'snappy = "no"',
    "snappy = 1.0",
    'tls_required = "x"',
    'tls_min_version = "ssl3.0"',
    "tls_min_version = 1",
    "log_level = 1",
    'log_level = "x"',
    "e2e_processing_latency_percentiles = [0.5, 1.5]",
    'e2e_processing_latency_percentiles = "0.5,x"',
    "e2e_processing_latency_window_time = 0.5",
    "statsd_mem_stats = 'maybe'",
    "statsd_udp_packet_size = 1.5",
    "a =",
    "a = 1\na = 2",
    "[msg_timeout]\na = 1",
]


def command(kind: Kind, name: str) -> list[str]:
    return [str(program(name))] if kind == "real" else [sys.executable, "-m", "nsq_anyio", name]


@contextmanager
def running(kind: Kind, name: str, directory: Path, *flags: str) -> Generator[str]:
    """Its HTTP address."""
    log_path = directory / f"{kind}.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [*command(kind, name), *LISTEN, *flags],
            stdout=log,
            stderr=log,
            cwd=directory,
        )
    try:
        yield wait_for_http(process, log_path)
    finally:
        process.terminate()
        process.wait(START_LIMIT)


def wait_for_http(process: subprocess.Popen[bytes], log_path: Path) -> str:
    # `wait` is a pause that the end of the process cuts short.
    for _ in range(int(START_LIMIT / 0.05)):
        found = re.search(r"HTTP: listening on (\S+)\n", log_path.read_text())
        if found:
            return found[1]
        try:
            process.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
        break
    raise AssertionError(f"it does not listen:\n{log_path.read_text()}")


def configuration(
    kind: Kind, directory: Path, flags: Sequence[str], options: Sequence[str]
) -> dict[str, str]:
    data_path = directory / "data"
    data_path.mkdir(exist_ok=True)
    with (
        running(kind, "nsqd", directory, f"--data-path={data_path}", HTTPS, *flags) as address,
        httpx.Client(trust_env=False, base_url=f"http://{address}") as http,
    ):
        return {option: http.get(f"/config/{option}").text for option in options}


def write(directory: Path, text: str) -> str:
    path = directory / "nsqd.cfg"
    path.write_text(text)
    return f"--config={path}"


@pytest.mark.parametrize(
    ("text", "flags", "options"),
    [
        (TYPES, [], OPTIONS + GIVEN),
        (ZEROS, ["--broadcast-address=h", "-msg-timeout=9s", "--snappy=true"], OPTIONS),
        (
            "node_id = 7\nmsg_timeout = '1s'",
            [
                *("--verbose", "--worker-id", "--node-id=1023", "-broadcast-tcp-port=1", "--config="),
                *("--broadcast-http-port", "65535", "--broadcast-address=h", "--version=false"),
                *("--queue-scan-selection-count=1", "--queue-scan-worker-pool-max=2", "--log-level=Debug"),
                *("--log-prefix=p", "--sync-every=3", "--sync-timeout=1500ms", "--max-bytes-per-file=4"),
                *(
                    "--e2e-processing-latency-percentile=0.5,1.0",
                    "-e2e-processing-latency-percentile",
                    "0.95",
                ),
                *("--e2e-processing-latency-window-time=1m", "--statsd-address=h:1", "--statsd-prefix=x.%s."),
                *("--statsd-interval=1m30s", "--statsd-mem-stats=false", "--statsd-udp-packet-size=1000"),
                *("--statsd-exclude-ephemeral", "--broadcast-address=a.b"),
            ],
            OPTIONS + GIVEN,
        ),
    ],
    ids=["types", "zeros", "flags"],
)
def test_what_is_read_is_alike(tmp_path: Path, text: str, flags: list[str], options: tuple[str, ...]) -> None:
    flags = [write(tmp_path, text), *flags]
    expected = configuration("real", tmp_path, flags, options)
    assert configuration("embedded", tmp_path, flags, options) == expected


def run(kind: Kind, name: str, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command(kind, name), *flags], capture_output=True, text=True, timeout=START_LIMIT, check=False
    )


def test_an_invalid_file_ends_both(tmp_path: Path) -> None:

    for text in INVALID:
        flag = write(tmp_path, text)
        addresses = (*LISTEN, f"--data-path={tmp_path}")
        assert run("real", "nsqd", flag, *addresses).returncode == 1, text
        # In this process: it ends before it listens, and each start takes a while.
        ended = CliRunner().invoke(cli, ["nsqd", flag, *addresses])
        assert ended.exit_code == 1, text
        assert "nsqd.cfg" in ended.output, text
        assert "Traceback" not in ended.output, text


@pytest.mark.parametrize("name", ["nsqd", "nsqlookupd"])
def test_versions_and_missing_files(tmp_path: Path, name: str) -> None:
    pattern = re.compile(rf"{name} v1\.3\.0 \(built w/[a-z0-9.-]+\)\n")
    for kind in KINDS:
        told = run(kind, name, "-version", "--verbose")
        assert (told.returncode, bool(pattern.fullmatch(told.stdout)), told.stderr) == (0, True, ""), kind
        missing = run(kind, name, f"--config={tmp_path / 'none'}")
        assert (missing.returncode, missing.stdout) == (1, ""), kind
        assert "none" in missing.stderr


def test_nsqlookupd_reads_its_file(tmp_path: Path) -> None:
    text = (
        'inactive_producer_timeout = "5m"\ntombstone_lifetime = 45000\nlog_level = "debug"\nmsg_timeout = "x"'
    )
    for kind in KINDS:
        with (
            running(kind, "nsqlookupd", tmp_path, write(tmp_path, text), "--verbose") as address,
            httpx.Client(trust_env=False, base_url=f"http://{address}") as http,
        ):
            assert http.get("/ping").text == "OK"
    for text in ("tombstone_lifetime = 1.5", "log_level = 'x'", "inactive_producer_timeout = 'x'"):
        for kind in KINDS:
            assert run(kind, "nsqlookupd", write(tmp_path, text)).returncode == 1, (kind, text)
