"""A TCP proxy that keeps what goes through it, as anybody between the two could."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import SocketAttribute, SocketStream

from nsq_anyio.transport.layer import half_close


class RecordingProxy:
    """See the module.

    :ivar address: where clients connect, ``host:port``
    :ivar sent: what each connection's client has sent, in the order of connecting
    :ivar received: what its server has sent
    """

    def __init__(self, upstream: str, port: int) -> None:
        self.address = f"127.0.0.1:{port}"
        self.sent: list[bytearray] = []
        self.received: list[bytearray] = []
        self._upstream = upstream

    async def handle(self, client: SocketStream) -> None:
        self.sent.append(sent := bytearray())
        self.received.append(received := bytearray())
        host, _, port = self._upstream.rpartition(":")
        async with client, await anyio.connect_tcp(host, int(port)) as server:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_pass, server, client, received, tasks.cancel_scope)
                tasks.start_soon(_pass, client, server, sent, tasks.cancel_scope)


async def _pass(
    source: SocketStream, target: SocketStream, record: bytearray, connection: anyio.CancelScope
) -> None:
    try:
        async for data in source:
            record += data
            await target.send(data)
        await half_close(target)
    except anyio.BrokenResourceError:
        connection.cancel()  # one side is gone: so is the other


@asynccontextmanager
async def recording_proxy(upstream: str) -> AsyncGenerator[RecordingProxy]:
    """Stand in front of ``upstream`` (``host:port``), on a free port, for the length of the block."""
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        proxy = RecordingProxy(upstream, listener.extra(SocketAttribute.local_port))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, proxy.handle)
            yield proxy
            tasks.cancel_scope.cancel()
