"""The opening of a connection: options are prepared once, the address is mapped, nsqd is dialled.

Consumers and producers identify an nsqd by the address that it advertises. That address is mapped here, when
nsqd is dialled, so everything above has one name for an nsqd.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

import anyio
from anyio.abc import ByteStream

from ..address import Address, NsqdAddress
from ..errors import DialFailed, InvalidAddress, PermanentRefusal
from ..options import AddressMap, ConnectionOptions, TLSOptions
from ..protocol.codec import Decoder, frame_decoder
from ..protocol.session import ClientSession
from ..transport.dial import dial
from ..transport.tls_context import client_context, tls_options
from .connection import Connection
from .handshake import Handshake
from .interfaces import Receiver, TakesAnswer

_BUFFERING = 0.025
"""The default ``output_buffer_timeout``: the shortest that nsqd accepts by default."""

SourceT = TypeVar("SourceT")
MessageT = TypeVar("MessageT")


@dataclass(slots=True)
class Experience:
    """Facts about nsqds, learnt from earlier connections with the same options.

    An `Experience` belongs to a consumer, to a producer, or to a connection of Spark.

    :ivar accepted: whether any nsqd has accepted the options; see `Handshake`
    :ivar keeps_buffering: the nsqds that refuse the default ``output_buffer_timeout``
    """

    accepted: bool = False
    keeps_buffering: set[NsqdAddress] = field(default_factory=set[NsqdAddress])


@asynccontextmanager
async def open_connection(
    address: NsqdAddress,
    options: ConnectionOptions,
    receiver: Receiver[SourceT, MessageT],
    *,
    experience: Experience | None = None,
    is_discovered: bool = False,
    make_decoder: Callable[..., Decoder[SourceT, MessageT]] = frame_decoder,
) -> AsyncGenerator[Connection[SourceT, MessageT]]:
    """Dial, do the handshake, and keep the connection open within the block.

    If the connection ends first, the block is cancelled and the reason is raised. Leaving the block closes
    the stream at once; call `Connection.close` first to be sure that nsqd has handled every command.

    nsqd does not say which ``output_buffer_timeout`` it allows, and hangs up after refusing the default. Then
    a second attempt, with its own timeouts, omits the option.

    :param experience: the experience of earlier connections with these options; it is updated
    :param is_discovered: whether the address was found through nsqlookupd, so that ``map_address`` applies
    :param make_decoder: makes the decoder of nsqd's frames, which calls `Receiver.make_message`
    :raises DialFailed: if the transport cannot be opened
    :raises TLSFailed: if nsqd declines TLS, or one side does not trust the other
    :raises HandshakeFailed: if the peer does not complete the handshake
    :raises PermanentRefusal: if nsqd refuses the options or the subscription for good
    :raises ConnectionLost: if the connection ends before the block does
    """
    known = experience or Experience()
    reached = address
    if is_discovered and isinstance(address, Address):
        reached = mapped(address, options.map_address)

    async def attempt(asked: ConnectionOptions) -> tuple[ByteStream, Connection[SourceT, MessageT]]:
        stream = await _dialled(address, reached, asked)
        try:
            session: ClientSession[TakesAnswer] = ClientSession()
            decoder = make_decoder(receiver.make_message, max_frame_size=asked.max_frame_size)
            source = receiver.arrival(anyio.current_time(), 0)
            handshake = Handshake(address, stream, session, decoder, source, asked, reached=reached)
            negotiated = await handshake.run(accepted_before=known.accepted)
            connection = Connection(str(address), asked, negotiated, session, decoder, receiver)
        except BaseException:
            await anyio.aclose_forcefully(stream)
            raise
        return stream, connection

    opened = None
    if options.output_buffer_timeout is None and address not in known.keeps_buffering:
        try:
            opened = await attempt(replace(options, output_buffer_timeout=_BUFFERING))
        except PermanentRefusal as error:
            if "output buffer timeout" not in error.detail:
                raise
            known.keeps_buffering.add(address)
    stream, connection = opened or await attempt(options)
    known.accepted = True
    connection.mapped_to = "" if reached == address else str(reached)
    try:
        async with connection.running():
            yield connection
    finally:
        await anyio.aclose_forcefully(stream)


async def _dialled(address: NsqdAddress, reached: NsqdAddress, options: ConnectionOptions) -> ByteStream:
    try:
        return await dial(
            reached,
            timeout=options.dial_timeout,
            write_timeout=options.write_timeout,
            dialer=options.dialer,
        )
    except DialFailed as error:
        if reached == address:
            raise
        raise DialFailed(str(address), f"{error.reason} at {reached}") from error


def mapped(address: Address, map_address: AddressMap | None) -> Address:
    """Return the address to connect to for an advertised address, according to ``map_address``.

    :raises DialFailed: if the user's function raises, or returns something that is not an address
    """
    if map_address is None:
        return address
    if not callable(map_address):
        found = {Address.parse(name): Address.parse(to) for name, to in map_address.items()}
        return found.get(address, address)
    try:
        answer = map_address(address.host, address.port)
    except Exception as error:  # the user's code may raise anything
        raise DialFailed(str(address), f"map_address raised {error!r}") from error
    try:
        return Address.parse(answer) if isinstance(answer, str) else Address(*answer)
    except (InvalidAddress, TypeError) as error:
        raise DialFailed(
            str(address), f"map_address returned {answer!r}: use (host, port) or 'host:port'"
        ) from error


def prepared(options: ConnectionOptions) -> ConnectionOptions:
    """Return the options for all connections of a consumer or producer, with a finished TLS context.

    The files of the context are read, and errors in them raised, now.

    :raises InvalidOption: if a file cannot be read or used
    """
    tls = tls_options(options.tls)
    if tls is None:
        return options
    context = client_context(tls)
    return replace(options, tls=TLSOptions(server_hostname=tls.server_hostname, ssl_context=context))
