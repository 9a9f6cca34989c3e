"""Opens a connection to an nsqd, and keeps it open within a block."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import anyio

from ..address import Address, NsqdAddress
from ..errors import DialFailed
from ..options import ConnectionOptions
from ..protocol.codec import Decoder, frame_decoder
from ..protocol.session import ClientSession
from ..transport.dial import dial
from .address_map import mapped
from .connection import Connection
from .handshake import Handshake
from .receiver import Receiver
from .request import TakesAnswer

__all__ = ["open_connection"]

SourceT = TypeVar("SourceT")
MessageT = TypeVar("MessageT")


@asynccontextmanager
async def open_connection(
    address: NsqdAddress,
    options: ConnectionOptions,
    receiver: Receiver[SourceT, MessageT],
    *,
    accepted_before: bool = False,
    is_discovered: bool = False,
    make_decoder: Callable[..., Decoder[SourceT, MessageT]] = frame_decoder,
) -> AsyncGenerator[Connection[SourceT, MessageT]]:
    """Dial, do the handshake, and keep the connection open within the block.

    If the connection ends first, the block is cancelled and the reason is raised. Leaving the block closes
    the stream at once; call `Connection.close` first to be sure that nsqd has handled every command.

    :param accepted_before: whether an nsqd has accepted these options before; see `Handshake`
    :param is_discovered: whether the address was found through nsqlookupd, so that ``map_address`` applies
    :param make_decoder: makes what decodes the frames of nsqd, and calls `Receiver.make_message`
    :raises DialFailed: if the transport cannot be opened
    :raises TLSFailed: if nsqd declines TLS, or one side does not trust the other
    :raises HandshakeFailed: if the peer does not complete the handshake
    :raises PermanentRefusal: if nsqd refuses the options or the subscription for good
    :raises ConnectionLost: if the connection ends before the block does
    """
    reached = address
    if is_discovered and isinstance(address, Address):
        reached = mapped(address, options.map_address)
    try:
        stream = await dial(
            reached,
            timeout=options.dial_timeout,
            write_timeout=options.write_timeout,
            dialer=options.dialer,
        )
    except DialFailed as error:
        if reached == address:
            raise
        raise DialFailed(str(address), f"{error.reason} at {reached}") from error
    try:
        session: ClientSession[TakesAnswer] = ClientSession()
        decoder = make_decoder(receiver.make_message, max_frame_size=options.max_frame_size)
        source = receiver.arrival(anyio.current_time(), 0)
        handshake = Handshake(address, stream, session, decoder, source, options, reached=reached)
        negotiated = await handshake.run(accepted_before=accepted_before)
        connection = Connection(str(address), options, negotiated, session, decoder, receiver)
        connection.mapped_to = "" if reached == address else str(reached)
        async with connection.running():
            yield connection
    finally:
        await anyio.aclose_forcefully(stream)
