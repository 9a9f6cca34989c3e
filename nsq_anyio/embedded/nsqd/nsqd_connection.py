"""The connection of one client of the embedded nsqd: a task that reads and a task that writes."""

from __future__ import annotations

import logging
import ssl

import anyio
from anyio.abc import SocketStream

from ...errors import ProtocolError
from ...serving.listener import PEER_GONE, Remote, lingering_close, remote_address
from .auth import Access, AuthRequest, AuthSource
from .broker import Broker
from .negotiation import Layers, Upgrade
from .nsqd_client import NsqdClient

_logger = logging.getLogger(__name__)

_RECEIVE_SIZE = 64 * 1024
_LAST_FLUSH = 5.0


class ClientService:
    """Serves the clients of one nsqd.

    :param context: for TLS; None without TLS
    :param auth: the source of authorizations; None if clients may do everything
    :ivar clients: the connected clients
    """

    def __init__(self, broker: Broker, context: ssl.SSLContext | None, auth: AuthSource | None) -> None:
        self.clients: dict[NsqdClient, None] = {}
        self.broker = broker
        self.context = context
        self.auth = auth

    async def serve(self, stream: SocketStream) -> None:
        """Serve one client until it leaves, violates the protocol, or is disconnected."""
        async with stream:
            remote = remote_address(stream)
            if remote is not None:
                await _Connection(self, stream, remote).run()


class _Connection:
    """One client: its stream, whose layers may change, and its two tasks."""

    def __init__(self, service: ClientService, stream: SocketStream, remote: Remote) -> None:
        self._service = service
        self._socket = stream
        self._remote = remote
        self._layers = Layers(stream)
        self._scope = anyio.CancelScope()
        access = Access(service.auth, self._describe) if service.auth is not None else None
        self._client = NsqdClient(service.broker, remote, access, self._scope.cancel, self._upgrade)

    async def run(self) -> None:
        client = self._client
        with self._scope:
            self._service.clients[client] = None
            try:
                await self._converse()
            finally:
                del self._service.clients[client]
                client.leave()
            # The last frame may be an error: let the client read it.
            await lingering_close(self._layers.stream, self._socket)

    async def _converse(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._write)
            await self._read()
            self._client.leave()
            self._client.output.end()
            tasks.cancel_scope.deadline = anyio.current_time() + _LAST_FLUSH

    async def _read(self) -> None:
        client = self._client
        try:
            while await client.receive(await self._layers.stream.receive(_RECEIVE_SIZE)):
                # A client that does not read responses may send no more commands.
                await client.output.wait_not_full()
        except anyio.EndOfStream:
            await client.receive_end()
        except TimeoutError:
            _logger.debug("client %s was too slow to change to TLS or compression", self._remote)
            self._scope.cancel()
        except (ProtocolError, *PEER_GONE) as error:
            _logger.debug("client %s vanished: %r", self._remote, error)
            self._scope.cancel()

    async def _write(self) -> None:
        client = self._client
        output = client.output
        try:
            while data := await output.wait_for_data():
                with anyio.fail_after(client.write_timeout):
                    await self._layers.stream.send(data)
                output.note_sent(len(data))
                client.sent()
        except TimeoutError:
            _logger.debug("client %s did not read for %s s", self._remote, client.write_timeout)
            self._scope.cancel()
        except PEER_GONE as error:
            _logger.debug("client %s vanished: %r", self._remote, error)
            self._scope.cancel()

    async def _upgrade(self, wanted: Upgrade, received: bytes) -> Layers:
        from .upgrade import upgrade  # noqa: PLC0415 - few need TLS and the codecs, which take long to import

        output = self._client.output
        # The response to IDENTIFY goes through the old layer, all later bytes through the new one.
        await output.hold()
        try:
            self._layers = await upgrade(
                self._layers,
                wanted,
                context=self._service.context,
                received=received,
                write_timeout=self._client.write_timeout,
            )
        finally:
            output.release()
        return self._layers

    def _describe(self, secret: str) -> AuthRequest:
        tls = self._layers.tls
        return AuthRequest(
            secret=secret,
            remote_ip=self._remote.host,
            tls=tls is not None,
            common_name=tls.common_name if tls is not None else "",
        )
