"""An HTTP server that speaks HTTP/2 over TLS, for tests: it answers 200, and counts."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

import h2.config
import h2.connection
import h2.events

from ..tls_files import TLSFiles


@dataclass
class HTTP2Server:
    """What it has got.

    :ivar ends: whether it ends the bodies of its answers
    :ivar requests: method, path and body of each
    """

    url: str
    ends: bool = True
    connections: int = 0
    requests: list[tuple[bytes, bytes, bytes]] = field(default_factory=list[tuple[bytes, bytes, bytes]])


@contextmanager
def http2_server(files: TLSFiles, *, ends: bool = True) -> Generator[HTTP2Server]:
    """Run one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate_file, files.private_key_file)
    context.set_alpn_protocols(["h2"])
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        server = HTTP2Server(f"https://127.0.0.1:{listener.getsockname()[1]}", ends)
        threads = [threading.Thread(target=_accept, args=(listener, context, server))]
        threads[0].start()
        try:
            yield server
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            threads[0].join()


def _accept(listener: socket.socket, context: ssl.SSLContext, server: HTTP2Server) -> None:
    threads: list[threading.Thread] = []
    while True:
        try:
            raw, _ = listener.accept()
        except OSError:  # shut down: the test is over
            break
        threads.append(threading.Thread(target=_serve, args=(raw, context, server)))
        threads[-1].start()
    for thread in threads:
        thread.join()


def _serve(raw: socket.socket, context: ssl.SSLContext, server: HTTP2Server) -> None:
    """Serve one connection until its client ends it."""
    with raw, context.wrap_socket(raw, server_side=True) as stream:
        server.connections += 1
        connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        connection.initiate_connection()
        stream.sendall(connection.data_to_send())
        heads: dict[int, dict[bytes, bytes]] = {}
        bodies: dict[int, bytes] = {}
        while data := _received(stream):
            for event in connection.receive_data(data):
                match event:
                    case h2.events.RequestReceived(stream_id=number, headers=headers):
                        heads[number], bodies[number] = dict(headers), b""
                    case h2.events.DataReceived(stream_id=number, data=body, flow_controlled_length=size):
                        bodies[number] += body
                        connection.acknowledge_received_data(size, number)
                    case h2.events.StreamEnded(stream_id=number):
                        head = heads.pop(number)
                        server.requests.append((head[b":method"], head[b":path"], bodies.pop(number)))
                        connection.send_headers(number, [(":status", "200")])
                        connection.send_data(number, b"ok", end_stream=server.ends)
                    case _:
                        pass
            stream.sendall(connection.data_to_send())


def _received(stream: ssl.SSLSocket) -> bytes:
    try:
        return stream.recv(65536)
    except ConnectionError:
        return b""
