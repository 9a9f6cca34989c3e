"""What tests of forwarding commands have in common: the command in a process, and destinations."""

from __future__ import annotations

import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anyio.from_thread
import httpx

import nsq_anyio as nsq

LIMIT = 20.0


def until(done: Callable[[], object], what: object = "it") -> None:
    """Wait until ``done`` says so, 20 seconds at most."""
    limit = time.monotonic() + LIMIT
    while not done():
        assert time.monotonic() < limit, f"{what() if callable(what) else what} did not happen"
        time.sleep(0.01)


@contextmanager
def forwarding(*arguments: str) -> Generator[subprocess.Popen[str]]:
    """``nsq-anyio`` with ``arguments``; killed at the end if it still runs."""
    with subprocess.Popen(
        [sys.executable, "-m", "nsq_anyio", *arguments], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def end(process: subprocess.Popen[str], number: signal.Signals = signal.SIGTERM) -> str:
    """Ask it to end; what it logged."""
    process.send_signal(number)
    _, log = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, log
    assert "Traceback" not in log
    return log


@dataclass(frozen=True)
class Server:
    """An nsqd outside of the event loop of what is tested."""

    tcp_address: str
    http_url: str

    def publish(self, topic: str, *bodies: bytes) -> None:
        for body in bodies:
            reply = httpx.post(f"{self.http_url}/pub?topic={topic}", content=body, trust_env=False)
            assert reply.status_code == 200

    def topic(self, name: str) -> dict[str, Any]:
        """Its statistics; empty while there is none."""
        url = f"{self.http_url}/stats?format=json&topic={name}"
        topics: list[dict[str, Any]] = httpx.get(url, trust_env=False).json()["topics"]
        return topics[0] if topics else {}

    def channel(self, topic: str, name: str) -> dict[str, Any]:
        """The same of a channel."""
        channels: list[dict[str, Any]] = self.topic(topic).get("channels", [])
        found = [channel for channel in channels if channel["channel_name"] == name]
        return found[0] if found else {}

    def is_done_with(self, topic: str, channel: str, messages: int) -> bool:
        """Whether a channel has got so many messages, and none is left."""
        found = self.channel(topic, channel)
        left = [found.get(name) for name in ("depth", "in_flight_count", "deferred_count")]
        return found.get("message_count") == messages and left == [0, 0, 0]


@contextmanager
def embedded_nsqds(count: int, *, registered: bool = True) -> Generator[tuple[str, list[Server]]]:
    """The URL of an nsqlookupd, and nsqds that are ``registered`` there, and so share their channels."""
    with ExitStack() as stack:
        portal = stack.enter_context(anyio.from_thread.start_blocking_portal())
        nsqlookupd = stack.enter_context(portal.wrap_async_context_manager(nsq.embedded.nsqlookupd()))
        addresses = [nsqlookupd.tcp_address] if registered else []
        nsqds = [
            stack.enter_context(
                portal.wrap_async_context_manager(nsq.embedded.nsqd(lookupd_tcp_addresses=addresses))
            )
            for _ in range(count)
        ]
        yield nsqlookupd.http_url, [Server(nsqd.tcp_address, nsqd.http_url) for nsqd in nsqds]


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Answer = tuple[int, dict[str, str]]


@dataclass
class Sink:
    """An HTTP server that notes what it gets, and answers as told.

    :ivar answer: the status and headers for a request
    :ivar clients: the addresses that connections came from
    """

    url: str
    answer: Callable[[Request], Answer]
    requests: list[Request] = field(default_factory=list[Request])
    clients: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])

    @property
    def bodies(self) -> list[bytes]:
        return [request.body for request in self.requests]


def always_ok(_request: Request) -> Answer:
    return 200, {}


@contextmanager
def http_sink(
    answer: Callable[[Request], Answer] = always_ok, tls: ssl.SSLContext | None = None
) -> Generator[Sink]:
    """Run a `Sink`, of https with ``tls``."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(length)
            if len(body) < length:
                self.close_connection = True  # the sender was killed: this is no request
                return
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(self.command, self.path, headers, body)
            sink.requests.append(request)
            sink.clients.add(self.client_address)
            status, fields = sink.answer(request)
            self.send_response(status)
            for name, value in {"Content-Length": "2", **fields}.items():
                self.send_header(name, value)
            self.end_headers()
            if fields.get("Content-Length") != "0":
                self.wfile.write(b"ok")

        do_GET = do_POST  # noqa: N815 - the base class's names

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    class Listener(ThreadingHTTPServer):
        request_queue_size = 128  # its default of 5 makes connections wait for a second SYN

        def handle_error(self, request: Any, client_address: Any) -> None:
            # Whoever sent was killed, has given up or is not trusted; other mistakes are told.
            if not isinstance(sys.exception(), ConnectionError | ssl.SSLError):
                super().handle_error(request, client_address)

    with Listener(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        if tls is not None:
            # The handshake is left to the thread of its connection.
            server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        scheme = "http" if tls is None else "https"
        sink = Sink(f"{scheme}://127.0.0.1:{server.server_address[1]}", answer)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield sink
        finally:
            server.shutdown()
            thread.join()


def flags(**values: str | Sequence[str]) -> list[str]:
    """Command line flags: ``nsqd_tcp_address="a"`` is ``--nsqd-tcp-address=a``; a sequence repeats it."""
    return [
        f"--{name.replace('_', '-')}={value}"
        for name, given in values.items()
        for value in ([given] if isinstance(given, str) else given)
    ]
