"""HTTP as bytes: requests that no library sends, and what a server makes of them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import anyio
import h11
from anyio.abc import SocketStream

LIMIT = 20.0
_SHOWN = (b"content-type", b"x-nsq-content-type", b"allow", b"location", b"connection")
_PING = b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n"


@dataclass(frozen=True)
class Answer:
    """What came back.

    :ivar continued: whether there was a 100 Continue before
    :ivar goes_on: whether the connection can be used again
    """

    continued: bool
    version: bytes
    status: int
    headers: dict[bytes, bytes]
    body: bytes
    goes_on: bool

    @property
    def outline(self) -> tuple[int, bool]:
        """All that counts where the server, and not NSQ, refuses a request."""
        return self.status, self.goes_on


def request(line: str | bytes, body: bytes | None = None, *headers: bytes, host: bytes = b"Host: x") -> bytes:
    """A request; ``body`` has a Content-Length, unless it is None."""
    lines = [line if isinstance(line, bytes) else line.encode("ascii"), host, *headers]
    if body is not None:
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join([*filter(None, lines), b"", body or b""])


def chunked(*chunks: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"


async def ask(port: int, data: bytes) -> Answer:
    """Send bytes on a connection of their own; read one answer, and whether a second request gets one."""
    with anyio.fail_after(LIMIT):
        async with (
            await anyio.connect_tcp("127.0.0.1", port) as stream,
            anyio.create_task_group() as tasks,
        ):
            # The whole of a large body may not fit anywhere when the server does not read it.
            sent = anyio.Event()
            tasks.start_soon(_send, stream, data, sent)
            answer = await _receive(stream, data.partition(b" ")[0], sent)
            tasks.cancel_scope.cancel()
            return answer
    raise AssertionError("fail_after raises")


async def _send(stream: SocketStream, data: bytes, sent: anyio.Event) -> None:
    with suppress(anyio.BrokenResourceError):  # it was answered before all of it was read
        await stream.send(data)
    sent.set()


async def _receive(stream: SocketStream, method: bytes, sent: anyio.Event) -> Answer:
    client = h11.Connection(h11.CLIENT)
    # h11 has to know the method, to know whether the answer has a body. It matters for HEAD alone.
    client.send(
        h11.Request(method="HEAD" if method == b"HEAD" else "GET", target="/", headers=[("Host", "x")])
    )
    client.send(h11.EndOfMessage())
    continued, response, body = False, None, b""
    while True:
        event = client.next_event()
        if event is h11.NEED_DATA:
            try:
                client.receive_data(await stream.receive())
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                client.receive_data(b"")
        elif isinstance(event, h11.InformationalResponse):
            continued = True
        elif isinstance(event, h11.Response):
            response = event
        elif isinstance(event, h11.Data):
            body += event.data
        else:
            assert response is not None
            headers = {name: value for name, value in response.headers if name in _SHOWN}
            has_length = any(name == b"content-length" for name, _ in response.headers)
            goes_on = has_length and headers.get(b"connection") != b"close"
            if goes_on:
                await sent.wait()
                goes_on = await _answers_again(stream)
            return Answer(continued, response.http_version, response.status_code, headers, body, goes_on)


async def _answers_again(stream: SocketStream) -> bool:
    received = b""
    try:
        await stream.send(_PING)
        while not received.endswith(b"\r\n\r\nOK"):
            received += await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return False
    return True
