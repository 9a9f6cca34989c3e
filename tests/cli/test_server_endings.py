"""``nsq-anyio nsqd`` and ``nsqlookupd`` end at once, however many peers they have."""

import resource
import signal
import socket
import time
from collections.abc import Generator
from contextlib import ExitStack

import pytest

from nsq_anyio.cli.backend import BACKENDS

from .servers import ANY_PORTS, listening, running

PEERS = 1000
END_LIMIT = 10.0


@pytest.fixture(autouse=True)
def _many_files() -> Generator[None]:
    """The servers inherit the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * PEERS if hard == resource.RLIM_INFINITY else min(4 * PEERS, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("command", "beginnings"),
    [
        ("nsqd", {"TCP": b"  V2SUB t c\nRDY 100\n", "HTTP": b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n"}),
        ("nsqlookupd", {"TCP": b"  V1PING\n", "HTTP": b"GET /pi"}),
    ],
)
def test_sigterm_with_a_thousand_peers(command: str, beginnings: dict[str, bytes], backend: str) -> None:
    with ExitStack() as peers, running(command, *ANY_PORTS, f"--backend={backend}") as server:
        addresses = listening(server)
        opened: list[socket.socket] = []
        for index in range(PEERS):
            name = "TCP" if index % 2 else "HTTP"
            host, _, port = addresses[name].rpartition(":")
            opened.append(peers.enter_context(socket.create_connection((host, int(port)), END_LIMIT)))
            opened[-1].sendall(beginnings[name])
        assert opened[-1].recv(1)  # the last one is answered, so all before it were accepted
        started_at = time.monotonic()
        server.send_signal(signal.SIGTERM)
        _, complaints = server.communicate(timeout=END_LIMIT)
        took = time.monotonic() - started_at
    assert server.returncode == 0
    assert complaints == ""
    assert took < END_LIMIT / 2
