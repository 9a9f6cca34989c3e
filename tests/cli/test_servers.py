"""The commands that run servers: their flags in this process, their life in processes of their own."""

import json
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from nsq_anyio.cli.backend import BACKENDS
from nsq_anyio.cli.main import cli
from tests.tls_files import TLSFiles, tls_files

from .servers import ANY_PORTS, listening, running

__all__ = ["tls_files"]

LIMIT = 15.0


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, arguments, prog_name="nsq-anyio")
    return result.exit_code, result.output


def end(process: subprocess.Popen[str], number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
    """Send a signal; return the exit code and the rest of stderr."""
    process.send_signal(number)
    _, errors = process.communicate(timeout=LIMIT)
    return process.returncode, errors


def get(address: str, path: str) -> httpx.Response:
    return httpx.get(f"http://{address}{path}", trust_env=False)


def nodes(http_address: str, count: int) -> list[dict[str, object]]:
    """The nsqds that an nsqlookupd lists, once there are ``count``."""
    limit = time.monotonic() + LIMIT
    found: list[dict[str, object]]
    while len(found := get(http_address, "/nodes").json()["producers"]) != count:
        assert time.monotonic() < limit, found
        time.sleep(0.01)
    return found


@pytest.mark.parametrize("command", [(), ("demo",), ("nsqd",), ("nsqlookupd",), ("up",)])
def test_help_has_an_example(command: tuple[str, ...]) -> None:
    code, output = invoke(*command, "--help")
    assert code == 0
    assert f"Example:\n    nsq-anyio {' '.join(command)}".rstrip() in output


def test_version() -> None:
    code, output = invoke("--version")
    assert code == 0
    assert re.fullmatch(r"nsq-anyio, version \d+\.\d+\.\d+\S*\n", output)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nsqd", "--tcp-adress=127.0.0.1:0"), "No such option.*--tcp-adress.*--tcp-address"),
        (("nsqd", "-tcp-adress=127.0.0.1:0"), "No such option.*--tcp-adress.*--tcp-address"),
        (("nsqd", "--msg-timeout=60"), "'60' is not a duration.*60s"),
        (("nsqd", "--msg-timeout=2h", "--max-msg-timeout=1h"), "use at most --max-msg-timeout 3600"),
        (("nsqd", "--max-rdy-count=0"), "--max-rdy-count 0 is not valid"),
        (("nsqd", "--max-rdy-count=many"), "'many' is not a valid integer"),
        (("nsqd", "--tcp-address=here"), "'here' is not an address: use host:port"),
        (("nsqd", "--lookupd-tcp-address=here"), "'here'"),
        (("nsqd", "--auth-http-address=here"), "'here'"),
        (("nsqd", "--snappy=maybe"), "'maybe' is not a boolean: use true or false"),
        (("nsqd", "--tls-required"), "set tls_cert and tls_key as well"),
        (("nsqd", "--tls-required=http"), "'http' is not valid: use true, false or tcp-https"),
        (("nsqd", "--tls-min-version=tls2"), "'tls2' is not a version: use one of tls1.0"),
        (("nsqd", "--tls-client-auth-policy=ask"), "'ask' is not a policy: use require or require-verify"),
        (("nsqd", "--tls-cert=c.pem"), "--tls-cert 'c.pem' with --tls-key None is not valid"),
        (
            ("nsqd", "--tls-cert=/no/c", "--tls-key=/no/k"),
            "--tls-cert '/no/c', --tls-key '/no/k' cannot be used",
        ),
        (("nsqd", "--max-deflate-level=10"), "--max-deflate-level 10 is not valid"),
        (
            ("nsqd", "--e2e-processing-latency-percentile=0.5,1.1"),
            "'0.5,1.1' is not valid: use numbers above 0, at most 1",
        ),
        (("nsqd", "--e2e-processing-latency-percentile="), "'' is not valid: use numbers"),
        (("nsqd", "--statsd-address=here"), "--statsd-address 'here' is not valid: use host:port"),
        (("nsqd", "--https-address=/run/nsqd.sock"), "is not an address: use host:port"),
        (("nsqlookupd", "--tcp-address=/run/nsqd.sock"), "is not an address: use host:port"),
        (("nsqlookupd", "--tombstone-lifetime=-1s"), "'-1s' is not a duration"),
        (("up", "--nsqds", "0"), "0 is not in the range"),
        (("nsqx",), "No such command 'nsqx'"),
    ],
)
def test_bad_command_lines_are_explained(arguments: tuple[str, ...], message: str) -> None:
    code, output = invoke(*arguments)
    assert code == 2
    assert re.search(message, output), output
    assert "Traceback" not in output


def test_a_backend_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trio", None)
    code, output = invoke("nsqd", *ANY_PORTS, "--backend=trio")
    assert code == 2
    assert "pip install 'nsq-anyio[trio]'" in output


@pytest.mark.parametrize(("missing", "command"), [("click", "--help"), ("rich", "up"), ("rich", "demo")])
def test_without_the_extra_it_says_what_to_install(missing: str, command: str) -> None:
    script = f"import sys; sys.modules[{missing!r}] = None; from nsq_anyio.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, command], capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == 1
    assert done.stderr == f"nsq-anyio: {missing} is not installed: pip install 'nsq-anyio[cli]'\n"


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("server", ["nsqd", "nsqlookupd"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_server_runs_until_a_signal(server: str, backend: str, number: signal.Signals) -> None:
    with running(server, *ANY_PORTS, "--backend", backend) as process:
        found = listening(process)
        assert get(found["HTTP"], "/ping").text == "OK"
        host, _, port = found["TCP"].rpartition(":")
        with socket.create_connection((host, int(port)), timeout=LIMIT):
            assert end(process, number) == (0, "")


def test_nsqd_takes_the_flags_of_the_real_one() -> None:
    with running("nsqlookupd", *ANY_PORTS, "-inactive-producer-timeout", "1m") as nsqlookupd:
        lookupd = listening(nsqlookupd)
        flags = (
            "-tcp-address=127.0.0.1:0",
            "-http-address",
            "127.0.0.1:0",
            f"--lookupd-tcp-address={lookupd['TCP']}",
            "--broadcast-address=localhost",
            "--msg-timeout=1m30s",
            "--max-rdy-count=7",
            "--log-level=warn",
        )
        with running("nsqd", *flags) as nsqd:
            assert nsqd.stderr is not None
            assert nsqd.stderr.readline() == (
                "note: --log-level has no effect: this server logs warnings only\n"
            )
            found = listening(nsqd)
            (node,) = nodes(lookupd["HTTP"], 1)
            assert node["broadcast_address"] == "localhost"
            assert found["TCP"] == f"127.0.0.1:{node['tcp_port']}"
            assert found["HTTP"] == f"127.0.0.1:{node['http_port']}"
            assert get(found["HTTP"], "/config/max_rdy_count").json() == 7
            assert get(found["HTTP"], "/config/msg_timeout").json() == 90 * 10**9
            assert end(nsqd) == (0, "")
        assert nodes(lookupd["HTTP"], 0) == []
        assert end(nsqlookupd) == (0, "")


def test_nsqd_takes_the_flags_for_tls_compression_and_auth(tls_files: TLSFiles) -> None:
    flags = (
        *ANY_PORTS,
        "--https-address=127.0.0.1:0",
        f"--tls-cert={tls_files.server.certificate_file}",
        f"-tls-key={tls_files.server.private_key_file}",
        f"--tls-root-ca-file={tls_files.ca_file}",
        "--tls-required",
        "--tls-min-version=tls1.2",
        "--auth-http-address=127.0.0.1:1",
        "--auth-http-address=http://127.0.0.1:2/auth",
        "-snappy",
        "-deflate=false",
        "--max-deflate-level=3",
        "--http-client-request-timeout=1s",
    )
    context = ssl.create_default_context(cafile=tls_files.ca_file)
    with running("nsqd", *flags) as nsqd:
        found = listening(nsqd, "HTTPS")
        with httpx.Client(verify=context, trust_env=False) as http:
            refusal = http.get(f"http://{found['HTTP']}/ping")
            assert refusal.status_code == 403
            assert found["HTTPS"] == f"127.0.0.1:{refusal.json()['https_port']}"
            for option, value in {
                "tls_required": 2,
                "tls_min_version": 0x0303,
                "auth_http_addresses": ["127.0.0.1:1", "http://127.0.0.1:2/auth"],
                "snappy": True,
                "deflate": False,
                "max_deflate_level": 3,
                "http_client_connect_timeout": 2 * 10**9,
                "http_client_request_timeout": 10**9,
            }.items():
                assert http.get(f"https://{found['HTTPS']}/config/{option}").json() == value, option
        assert end(nsqd) == (0, "")


def test_nsqd_on_unix_sockets() -> None:
    with tempfile.TemporaryDirectory(prefix="nsqd-") as directory:
        path = Path(directory)
        with running("nsqd", f"--tcp-address={path}/tcp", f"--http-address={path}/http") as nsqd:
            assert listening(nsqd) == {"TCP": f"{path}/tcp", "HTTP": f"{path}/http"}
            with httpx.Client(transport=httpx.HTTPTransport(uds=f"{path}/http"), trust_env=False) as http:
                assert http.get("http://nsqd/ping").text == "OK"
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(LIMIT)
                client.connect(f"{path}/tcp")
                client.sendall(b"  V2IDENTIFY\n\0\0\0\x02{}")
                assert client.recv(100) == b"\0\0\0\x06\0\0\0\0OK"
            assert end(nsqd) == (0, "")
        assert list(path.iterdir()) == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_port_in_use_is_one_line(backend: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with running(
            "nsqd", f"--tcp-address=127.0.0.1:{port}", "--http-address=127.0.0.1:0", "--backend", backend
        ) as process:
            _, errors = process.communicate(timeout=LIMIT)
    assert process.returncode == 1
    assert re.fullmatch(
        rf"Error: cannot listen on 127\.0\.0\.1:{port}: .*in use.*; use another port.*\n", errors
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_up_runs_a_cluster(backend: str) -> None:
    with running("up", "--free-ports", "--nsqds", "3", "--backend", backend) as process:
        assert process.stdout is not None
        shown = ""
        while "nsqlookupd=" not in shown:
            line = process.stdout.readline()
            assert line, shown
            shown += line
        produce = re.search(
            r"^async with nsq\.produce\(nsqd=(\[.*\])\) as producer: \.\.\.$", shown, re.MULTILINE
        )
        consume = re.search(r'nsqlookupd="http://(\S+)"\) as consumer: \.\.\.$', shown, re.MULTILINE)
        assert produce
        assert consume
        addresses = json.loads(produce[1])
        assert len(addresses) == 3
        listed = {f"{node['broadcast_address']}:{node['tcp_port']}" for node in nodes(consume[1], 3)}
        assert listed == set(addresses)
        assert all(address in shown.split("async with")[0] for address in addresses)  # in the table
        assert end(process) == (0, "For development and tests. Ctrl-C stops all servers.\n")


@pytest.mark.parametrize("backend", BACKENDS)
def test_up_serves_the_dashboard_of_the_cluster(backend: str) -> None:
    with running("up", "--free-ports", "--nsqds", "1", "--admin", "--backend", backend) as process:
        assert process.stdout is not None
        shown = ""
        while "nsqlookupd=" not in shown:
            line = process.stdout.readline()
            assert line, shown
            shown += line
        found = re.search(r"dashboard .*(http://127\.0\.0\.1:\d+)", shown)
        assert found
        assert "<html" in httpx.get(found[1], trust_env=False, timeout=LIMIT).text
        assert end(process)[0] == 0


def test_up_serves_the_dashboard_where_it_is_told_to() -> None:
    with running("up", "--free-ports", "--nsqds", "1", "--admin-http-address", "127.0.0.1:70000") as process:
        _, errors = process.communicate(timeout=LIMIT)
    assert process.returncode in (1, 2)
    assert "70000" in errors
