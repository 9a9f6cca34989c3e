"""Moves the bytes of one client of the embedded nsqd: one task reads, and one alone writes."""

from __future__ import annotations

import logging
from collections.abc import Callable

import anyio
from anyio.abc import SocketStream

from .broker import Broker
from .listener import PEER_GONE, linger, remote_address
from .nsqd_client import NsqdClient

__all__ = ["serve_client"]

_logger = logging.getLogger(__name__)

_RECEIVE_SIZE = 64 * 1024
_LAST_FLUSH = 5.0


async def serve_client(stream: SocketStream, broker: Broker, clients: dict[NsqdClient, None]) -> None:
    """Serve one client until it leaves, breaks the rules, or is cut off; it is in ``clients`` meanwhile."""
    async with stream:
        remote = remote_address(stream)
        if remote is None:
            return
        with anyio.CancelScope() as connection:
            client = NsqdClient(broker, str(remote), remote.host, connection.cancel)
            clients[client] = None
            try:
                await _converse(stream, client, connection.cancel)
            finally:
                del clients[client]
                client.leave()
            # The last words tell the client what it did wrong; it should get to read them.
            await linger(stream)


async def _converse(stream: SocketStream, client: NsqdClient, disconnect: Callable[[], None]) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_write, stream, client, disconnect)
        await _read(stream, client, disconnect)
        client.leave()
        client.output.end()
        tasks.cancel_scope.deadline = anyio.current_time() + _LAST_FLUSH


async def _read(stream: SocketStream, client: NsqdClient, disconnect: Callable[[], None]) -> None:
    try:
        while client.receive(await stream.receive(_RECEIVE_SIZE)):
            # A client that does not read the answers has to stop asking.
            await client.output.wait_not_full()
    except anyio.EndOfStream:
        client.receive_end()
    except PEER_GONE as error:
        _logger.debug("client %s vanished: %r", client.remote_address, error)
        disconnect()


async def _write(stream: SocketStream, client: NsqdClient, disconnect: Callable[[], None]) -> None:
    output = client.output
    try:
        while data := await output.wait_for_data():
            with anyio.fail_after(client.write_timeout):
                await stream.send(data)
            output.note_sent(len(data))
            client.sent()
    except TimeoutError:
        _logger.debug("client %s did not read for %s s", client.remote_address, client.write_timeout)
        disconnect()
    except PEER_GONE as error:
        _logger.debug("client %s vanished: %r", client.remote_address, error)
        disconnect()
