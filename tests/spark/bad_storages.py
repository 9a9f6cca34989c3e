"""Storages that do not do what they should: they replace objects, or do not answer."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from .storages import environment_of_s3

_LIMIT = 90.0


class _Quiet(BaseHTTPRequestHandler):
    """Keeps connections open, and prints nothing."""

    protocol_version = "HTTP/1.1"

    def answer(self, status: int, content: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", '"0"')
        self.send_header("Last-Modified", formatdate(usegmt=True))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


class _Careless(_Quiet):
    """Speaks as much of each object store as a put, a get and a delete need, and ignores all conditions."""

    objects: ClassVar[dict[str, bytes]] = {}
    delay: ClassVar[float] = 0.0
    deleted: ClassVar[str] = "<Deleted><Key>{}</Key></Deleted>"
    refusals: ClassVar[list[tuple[int, str]]] = []

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if self.refusals:
            status, code = self.refusals.pop(0)
            self.answer(status, f"<Error><Code>{code}</Code><Message>hush</Message></Error>".encode())
            return
        self.objects[self.path] = content
        time.sleep(self.delay)
        self.answer(201)

    def do_GET(self) -> None:
        found = self.objects.get(self.path)
        self.answer(404 if found is None else 200, found or b"")

    def do_DELETE(self) -> None:
        self.answer(202)

    def do_POST(self) -> None:
        keys = re.findall("<Key>(.*?)</Key>", self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.answer(200, f"<DeleteResult>{''.join(map(self.deleted.format, keys))}</DeleteResult>".encode())


@contextmanager
def running_careless_store(**attributes: Any) -> Generator[str]:
    """Run a server of objects that replaces what it should not, for the length of the block.

    :param attributes: ``delay``, seconds before it answers a put; ``deleted``, what S3 says of deletions;
        ``refusals``, the status and the code by which it answers the next puts, without doing anything
    """
    with _serving(type("Careless", (_Careless,), attributes)) as address:
        yield f"http://{address}"


@contextmanager
def refusing_namenode(status: int, exception: str) -> Generator[str]:
    """Run a namenode that answers everything with one error, for the length of the block."""

    class Refusal(_Quiet):
        def do_GET(self) -> None:
            self.answer(status, json.dumps({"RemoteException": {"exception": exception}}).encode())

        do_PUT = do_DELETE = do_GET  # noqa: N815 - names of the standard library

    with _serving(Refusal) as address:
        yield address


@contextmanager
def refusing_s3(status: int, code: str) -> Generator[str]:
    """Run a server of S3 that answers everything with one error, for the length of the block."""

    class Refusal(_Quiet):
        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.answer(status, f"<Error><Code>{code}</Code><Message>hush</Message></Error>".encode())

        do_GET = do_PUT  # noqa: N815 - a name of the standard library

    with _serving(Refusal) as address:
        yield f"http://{address}"


@contextmanager
def forgetful_hdfs(silent: int = 1) -> Generator[tuple[str, list[bytes]]]:
    """Run a namenode that is its own datanode, and hangs up on the first requests for content.

    :param silent: how many these are
    :return: the address, and the contents that it has been sent
    """
    content: list[bytes] = []
    left = [None] * silent

    class Node(_Quiet):
        def do_GET(self) -> None:
            if self.path.startswith("/webhdfs"):
                location = f"http://{self.headers['Host']}/content"
                self.answer(200, json.dumps({"Location": location}).encode())
                return
            content.append(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            if left:
                left.pop()
                self.close_connection = True
            else:
                self.answer(200, b"content")

        do_PUT = do_GET  # noqa: N815 - names of the standard library

    with _serving(Node) as address:
        yield address, content


@contextmanager
def _serving(handler: type[BaseHTTPRequestHandler]) -> Generator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


class SilentStorage:
    """A server that accepts one connection, and answers nothing.

    :ivar address: where it listens
    """

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self.address = f"127.0.0.1:{listener.getsockname()[1]}"

    def accepted(self) -> socket.socket:
        """Wait for a client; return the connection, which is kept while it is open."""
        return self._listener.accept()[0]


@contextmanager
def silent_storage(monkeypatch: pytest.MonkeyPatch) -> Generator[SilentStorage]:
    """Listen for the length of the block; S3 is found there, too."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(_LIMIT)
        silent = SilentStorage(listener)
        for name, value in environment_of_s3(f"http://{silent.address}").items():
            monkeypatch.setenv(name, value)
        yield silent
