"""HTTP servers that speak it badly, for tests of what a client makes of them."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
REFUSED = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\n\r\nno"
PAUSE = 0.05
"""Seconds between two packets."""


@dataclass(frozen=True)
class Conversation:
    """What one connection is answered.

    :ivar answers: to the requests, one after the other; each in parts that are sent with a pause between. The
        connection is closed after the last
    :ivar holds: whether it is left open instead, until the client closes it
    :ivar repeats: whether the last part is sent again and again until then
    :ivar reads: whether requests are read to their end before they are answered
    :ivar resets: whether the connection is reset instead of closed
    """

    answers: tuple[tuple[bytes, ...], ...]
    holds: bool = False
    repeats: bool = False
    reads: bool = True
    resets: bool = False


BODIES_THAT_FAIL = {
    "short": Conversation(((b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nok",),)),
    "hanging": Conversation(((b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nok",),), holds=True),
    "no body": Conversation(((b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n",),)),
    "endless": Conversation(((b"HTTP/1.1 200 OK\r\n\r\n", b"more" * 100),), repeats=True),
    "endless chunks": Conversation(
        ((b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"4\r\nmore\r\n"),), repeats=True
    ),
    "bad chunks": Conversation(
        ((b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nok\r\n",),), holds=True
    ),
    "cut chunks": Conversation(((b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nok",),)),
    "after a good one": Conversation(((OK,), (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok",))),
}
"""Each message was answered with 200, and then something is wrong."""

HEADS_THAT_FAIL = {
    "no HTTP": ("no valid status line", Conversation(((b"220 mail.example.com ESMTP\r\n",),), holds=True)),
    "bare line feeds": (
        "a line that does not end with CR LF",
        Conversation(((b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",),), holds=True),
    ),
    "folded": (
        "a line that is not a header",
        Conversation(((b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 2\r\n\r\nok",),), holds=True),
    ),
    "two lengths": (
        "no valid Content-Length",
        Conversation(
            ((b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",),), holds=True
        ),
    ),
    "length and chunks": (
        "both Transfer-Encoding and Content-Length",
        Conversation(
            (
                (
                    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
                    b"0\r\n\r\n",
                ),
            ),
            holds=True,
        ),
    ),
    "endless headers": (
        "the head of the answer is longer",
        Conversation(((b"HTTP/1.1 200 OK\r\n", b"X: " + b"x" * 100_000 + b"\r\n"),), repeats=True),
    ),
    "interim answers for ever": (
        "more than 100 interim answers",
        Conversation(((b"HTTP/1.1 103 Early Hints\r\n\r\n" * 40,),), repeats=True),
    ),
    "half a head": (
        "the server closed the connection without an answer",
        Conversation(((b"HTTP/1.1 200 OK\r\nContent-",),)),
    ),
    "a hint and no answer": (
        "the server closed the connection without an answer",
        Conversation(((b"HTTP/1.1 100 Continue\r\n\r\n",),)),
    ),
    "closed": ("the server closed the connection without an answer", Conversation(((b"",),))),
    "reset": ("Connection reset by peer", Conversation(((b"",),), resets=True)),
    "reset within the head": ("Connection reset", Conversation(((b"HTTP/1.1 200",),), resets=True)),
}
"""No message was answered: the words that say why, and the conversation."""

# A server that closes a connection after an answer loses the request that the client sends on it meanwhile.
_OFTEN = 100

OTHER_ANSWERS = {
    "continue": Conversation(((b"HTTP/1.1 100 Continue\r\n\r\n", OK),) * _OFTEN),
    "hints": Conversation(((b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 3 + OK,),) * _OFTEN),
    "no reason": Conversation(((b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",),) * _OFTEN),
    "one byte at a time": Conversation((tuple(OK[n : n + 1] for n in range(len(OK))),) * _OFTEN),
    "until the end": Conversation(((b"HTTP/1.1 200 OK\r\n\r\nok",),)),
    "HTTP/1.0": Conversation(((b"HTTP/1.0 200 OK\r\n\r\nok",),)),
    "nothing": Conversation(((b"HTTP/1.1 204 No Content\r\n\r\n",),) * _OFTEN),
    "nothing, and more": Conversation(((b"HTTP/1.1 204 No Content\r\n\r\nmore",),), holds=True),
    "a long head": Conversation(((b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000 + b"\r\n\r\n",),)),
}
"""Each message was answered with 2xx, in an unusual way."""

MORE_THAN_ASKED_FOR = {
    "together": Conversation(((OK + OK,), (REFUSED,)), holds=True),
    "a part of it": Conversation(((OK + OK[:20],), (OK[20:],)), holds=True),
    "later": Conversation(((OK, OK), (REFUSED,)), holds=True),
    "a line end": Conversation(((OK + b"\r\n",), (REFUSED,)), holds=True),
    "in the body's place": Conversation(
        ((b"HTTP/1.1 204 No Content\r\nContent-Length: 40\r\n\r\n" + OK,), (REFUSED,)), holds=True
    ),
}
"""The first request of each connection is answered with 2xx, and with what the second would take for its
own."""


@dataclass
class HostileServer:
    """What it has got.

    :ivar url: where it listens
    :ivar bodies: of all requests
    :ivar accepted: of those that were answered with the first answer of a conversation, or a later ``OK``
    :ivar answered: how many requests were answered, to the last part of the answer
    """

    url: str
    conversation: Conversation
    bodies: list[bytes] = field(default_factory=list[bytes])
    accepted: list[bytes] = field(default_factory=list[bytes])
    answered: int = 0


@contextmanager
def hostile_server(conversation: Conversation, tls: ssl.SSLContext | None = None) -> Generator[HostileServer]:
    """Run one on a free port, of https with ``tls``."""
    threads: list[threading.Thread] = []
    streams: list[socket.socket] = []
    over = threading.Event()

    def accept() -> None:
        while True:
            try:
                stream, _ = listener.accept()
            except OSError:  # shut down: the test is over
                return
            streams.append(stream)
            threads.append(threading.Thread(target=_converse, args=(server, stream, tls, over)))
            threads[-1].start()

    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        scheme = "http" if tls is None else "https"
        server = HostileServer(f"{scheme}://127.0.0.1:{listener.getsockname()[1]}", conversation)
        threads.append(threading.Thread(target=accept))
        threads[0].start()
        try:
            yield server
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            threads[0].join()
            over.set()
            for stream in streams:
                with suppress(OSError):
                    stream.shutdown(socket.SHUT_RDWR)
            for thread in threads[1:]:
                thread.join()


def _converse(
    server: HostileServer, raw: socket.socket, tls: ssl.SSLContext | None, over: threading.Event
) -> None:
    conversation = server.conversation
    with raw, suppress(OSError):
        stream = raw if tls is None else tls.wrap_socket(raw, server_side=True)
        with stream:
            for number, answer in enumerate(conversation.answers):
                body = _request(stream, conversation.reads)
                if body is None:
                    return
                server.bodies.append(body)
                if number == 0 or b" 200 " in answer[0]:
                    server.accepted.append(body)
                _send(stream, answer)
                server.answered += 1
            if conversation.resets:
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            while conversation.repeats:
                stream.sendall(conversation.answers[-1][-1])
                time.sleep(PAUSE)
            if conversation.holds and not conversation.reads:
                over.wait()
            while conversation.holds and stream.recv(65536):
                pass


def _send(stream: socket.socket, parts: tuple[bytes, ...]) -> None:
    for number, part in enumerate(parts):
        if number:
            time.sleep(PAUSE if len(parts) < 10 else 0.001)
        stream.sendall(part)


def _request(stream: socket.socket, whole: bool) -> bytes | None:
    """The body of a request; None at the end."""
    data = b""
    while b"\r\n\r\n" not in data:
        if not (more := stream.recv(65536)):
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    while whole and len(body) < int(fields.get(b"content-length", 0)):
        body += stream.recv(65536)
    return body
