"""``nsq-anyio admin --config`` reads nsqadmin's own file as nsqadmin does."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from tests.real_servers import program

START_LIMIT = 30.0
KINDS = {"real": [str(program("nsqadmin"))], "own": [sys.executable, "-m", "nsq_anyio", "admin"]}

# The keys of contrib/nsqadmin.cfg.example in NSQ's repository, but only one of the two lists of servers.
EXAMPLE = """
log_level = "info"
log_prefix = "[x] "
acl_http_header = "X-User"
admin_users = ["ann", "bob"]
allow_config_from_cidr = "127.0.0.0/8"
base_path = "/"
http_client_connect_timeout = "3s"
http_client_request_timeout = "7s"
http_client_tls_cert = ""
http_client_tls_insecure_skip_verify = true
http_client_tls_key = ""
http_client_tls_root_ca_file = ""
http_address = "127.0.0.1:0"
graphite_url = "http://graphite"
proxy_graphite = true
statsd_prefix = "nsq.%s"
statsd_counter_format = "stats.counters.%s.count"
statsd_gauge_format = "stats.gauges.%s"
statsd_interval = "30s"
notification_http_endpoint = ""
dev_static_dir = ""
nsqlookupd_http_addresses = ["127.0.0.1:1", "127.0.0.1:2"]
"""
OTHER_TYPES = """
admin_users = "ann,bob"
http_client_connect_timeout = 4000
http_client_request_timeout = 9000
http_client_tls_insecure_skip_verify = "true"
http_address = "127.0.0.1:0"
proxy_graphite = "T"
statsd_interval = 60000
nsqd_http_addresses = "127.0.0.1:1,127.0.0.1:2"
"""
ALL_LISTS_EMPTY = 'http_address = "127.0.0.1:0"\nadmin_users = []\nnsqd_http_addresses = []\n'
TIMEOUT = "--http-client-request-timeout=5s"  # the default is another one here
OPTIONS = (
    *("acl_http_header", "admin_users", "allow_config_from_cidr", "base_path", "graphite_url"),
    *("http_client_connect_timeout", "http_client_request_timeout", "http_client_tls_insecure_skip_verify"),
    *("http_client_tls_cert", "http_client_tls_root_ca_file", "notification_http_endpoint"),
    *("nsqd_http_addresses", "nsqlookupd_http_addresses", "proxy_graphite", "statsd_interval"),
    *("statsd_prefix", "statsd_counter_format", "statsd_gauge_format", "log_prefix", "dev_static_dir"),
)


def configuration(command: Sequence[str], directory: Path) -> dict[str, str]:
    """What it tells of its options once it listens."""
    log_path = directory / "log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        for _ in range(int(START_LIMIT / 0.05)):
            if found := re.search(r"HTTP: listening on (\S+)\n", log_path.read_text()):
                break
            try:
                process.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
            raise AssertionError(log_path.read_text())
        else:
            raise AssertionError(f"it does not listen: {log_path.read_text()}")
        with httpx.Client(trust_env=False, base_url=f"http://{found[1]}") as http:
            told = {option: http.get(f"/config/{option}").text for option in OPTIONS}
            return {option: text.replace("null", "[]") for option, text in told.items()}  # Go's nil is empty
    finally:
        process.terminate()
        process.wait(START_LIMIT)


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        (EXAMPLE, []),
        (EXAMPLE, ["--admin-user=eve", "-statsd-interval=1m", "--lookupd-http-address=127.0.0.1:3"]),
        (OTHER_TYPES, []),
        (ALL_LISTS_EMPTY, ["--lookupd-http-address=127.0.0.1:1", "--http-client-tls-cert=", TIMEOUT]),
        ("", ["--config=", "--http-address=127.0.0.1:0", "--nsqd-http-address=127.0.0.1:1", TIMEOUT]),
    ],
    ids=["example", "flags win", "other types", "empty lists", "no file"],
)
def test_what_is_read_is_alike(tmp_path: Path, text: str, flags: list[str]) -> None:
    file = tmp_path / "nsqadmin.cfg"
    file.write_text(text)
    flags = [f"--config={file}", *flags]
    expected = configuration([*KINDS["real"], *flags], tmp_path)
    assert configuration([*KINDS["own"], *flags], tmp_path) == expected
