"""TLS over any byte stream.

It replaces AnyIO's ``TLSStream`` for three reasons:

- Only one task may write to a socket, but AnyIO's stream also sends from ``receive()``. Here only the
  handshake, ``send()`` and ``send_eof()`` send. Bytes that OpenSSL wants to send while it reads, such as the
  answer to a KeyUpdate, wait for the next send: RFC 8446, 4.6.3 requires that answer only before the next
  application data.
- ``send_eof()`` ends one direction only, as NSQ's orderly close requires; AnyIO's raises an error.
- One ``receive()`` decrypts all records that have arrived; AnyIO's returns one record, of at most 16 KiB.
"""

from __future__ import annotations

import ssl
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import anyio
from anyio.abc import ByteStream
from anyio.lowlevel import cancel_shielded_checkpoint, checkpoint_if_cancelled
from anyio.streams.tls import TLSAttribute

from .layer import Layer, send_all_now

RECEIVE_SIZE = 256 * 1024
"""The most encrypted bytes that are taken from the transport at once."""

SEND_SIZE = 256 * 1024
"""The most bytes that are encrypted at once, so that memory does not hold a large send twice."""

RECORD_SIZE = 16 * 1024
"""The most data of one record (RFC 8446, 5.1)."""


class TLSStream(Layer):
    """The stream that `start_tls` returns. One task may receive while another sends.

    The stream also ends when the peer ends the transport without close_notify, as nsqd does: the length of an
    NSQ frame shows whether it was cut off.

    `aclose` closes the transport without close_notify. The orderly end is `send_eof`.
    """

    def __init__(
        self, stream: ByteStream, ssl_object: ssl.SSLObject, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO
    ) -> None:
        self._stream = stream
        self._ssl = ssl_object
        self._incoming = incoming
        self._outgoing = outgoing
        self._drained = b""
        self._peer_ended = False
        self._failure: ssl.SSLError | None = None
        self._cut = False

    async def handshake(self) -> None:
        """Do the handshake; call it through `start_tls`."""
        while True:
            try:
                self._ssl.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                self._incoming.write(await self._stream.receive(RECEIVE_SIZE))
            except ssl.SSLError:
                with suppress(anyio.BrokenResourceError):  # a peer that has gone needs no alert
                    await self._flush()
                raise
            else:
                await self._flush()
                return

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Wait for bytes, and return 1 to ``max_bytes`` of them.

        :raises anyio.EndOfStream: if the peer has ended TLS, or the transport
        :raises anyio.BrokenResourceError: if the transport broke; with an `ssl.SSLError` as its cause if the
            peer sent an alert or anything but TLS
        :raises anyio.ClosedResourceError: if the stream was closed on this side
        """
        if max_bytes < 1:
            raise ValueError(f"max_bytes={max_bytes} is not valid: use 1 or more")
        await checkpoint_if_cancelled()
        if data := self._decrypt(max_bytes):
            await cancel_shielded_checkpoint()  # keep the data: the next receive() notices a cancellation
            return data
        while True:
            self._incoming.write(await self._stream.receive(RECEIVE_SIZE))
            if data := self._decrypt(max_bytes):
                return data

    async def send(self, item: bytes) -> None:
        """Encrypt ``item`` and send all of it.

        A send that is cancelled or fails half-way may have cut a record. The peer cannot read anything after
        that, so nothing more can be sent.

        :raises anyio.BrokenResourceError: if the peer has vanished or failed, or an earlier send was
            incomplete
        :raises anyio.ClosedResourceError: if the stream was closed on this side
        """
        await checkpoint_if_cancelled()
        rest = memoryview(item)
        while rest:
            self._check_outgoing()
            try:
                written = self._ssl.write(rest[:SEND_SIZE])
            except ssl.SSLError as error:  # after send_eof, or within a fragmented message of the peer
                raise anyio.BrokenResourceError from error
            rest = rest[written:]
            await self._flush()

    def send_now(self, item: bytes | memoryview, sent: list[int]) -> None:
        self._check_outgoing()
        rest = memoryview(item)
        try:
            while rest:
                rest = rest[self._ssl.write(rest) :]
        except ssl.SSLError as error:
            raise anyio.BrokenResourceError from error
        data = self._outgoing.read()
        self._cut = True
        send_all_now(self._stream, data)
        self._cut = False
        sent.append(len(item))

    async def send_eof(self) -> None:
        """Tell the peer that nothing more will be sent; what it sends can still be received.

        :raises anyio.BrokenResourceError: if the peer has vanished or failed, or an earlier send was
            incomplete
        :raises anyio.ClosedResourceError: if the stream was closed on this side
        """
        await checkpoint_if_cancelled()
        # While received data is unread, OpenSSL treats a sent close_notify as the end of both directions.
        self._drained += self._read_records(sys.maxsize)
        self._check_outgoing()
        try:
            self._ssl.unwrap()
        except ssl.SSLWantReadError:
            pass  # OpenSSL wants the peer's close_notify, which receive() will see
        except ssl.SSLError as error:  # within a fragmented message of the peer
            raise anyio.BrokenResourceError from error
        await self._flush()
        with suppress(NotImplementedError):  # close_notify alone is enough
            await self._stream.send_eof()

    @property
    def below(self) -> ByteStream:
        return self._stream

    async def aclose(self) -> None:
        await self._stream.aclose()

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        """AnyIO's `TLSAttribute` set, and the attributes of the transport."""
        tls = self._ssl
        stream: Any = self._stream  # AnyIO leaves the types of its mapping open
        attributes: dict[Any, Callable[[], Any]] = {**stream.extra_attributes}
        attributes[TLSAttribute.alpn_protocol] = tls.selected_alpn_protocol
        attributes[TLSAttribute.channel_binding_tls_unique] = tls.get_channel_binding
        attributes[TLSAttribute.cipher] = tls.cipher
        attributes[TLSAttribute.peer_certificate] = tls.getpeercert
        attributes[TLSAttribute.peer_certificate_binary] = lambda: tls.getpeercert(binary_form=True)
        attributes[TLSAttribute.server_side] = lambda: tls.server_side
        attributes[TLSAttribute.shared_ciphers] = lambda: tls.shared_ciphers() if tls.server_side else None
        attributes[TLSAttribute.ssl_object] = lambda: tls
        attributes[TLSAttribute.standard_compatible] = lambda: False
        attributes[TLSAttribute.tls_version] = tls.version
        return attributes

    def _decrypt(self, max_bytes: int) -> bytes:
        """Decrypt what can be read without waiting; b"" if there is nothing yet."""
        if self._drained:
            data, self._drained = self._drained[:max_bytes], self._drained[max_bytes:]
        else:
            data = self._read_records(max_bytes)
        if not data:
            if self._failure is not None:
                raise anyio.BrokenResourceError from self._failure
            if self._peer_ended:
                raise anyio.EndOfStream
        return data

    def _read_records(self, max_bytes: int) -> bytes:
        """Decrypt the records that have arrived, and note the end of the stream or a failure."""
        records: list[bytes] = []
        try:
            while max_bytes > 0:
                record = self._ssl.read(min(max_bytes, RECORD_SIZE))
                if not record:
                    self._peer_ended = True
                    break
                records.append(record)
                max_bytes -= len(record)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:  # read() raises it at the peer's close_notify once we have sent ours
            self._peer_ended = True
        except ssl.SSLError as error:
            self._failure = self._failure or error  # the first error has the reason
        return b"".join(records)

    def _check_outgoing(self) -> None:
        if self._failure is not None:
            raise anyio.BrokenResourceError from self._failure
        if self._cut:
            raise anyio.BrokenResourceError(
                "an earlier send was incomplete: the peer cannot read what follows"
            )

    async def _flush(self) -> None:
        if not self._outgoing.pending:
            return
        try:
            await self._stream.send(self._outgoing.read())
        except BaseException:
            self._cut = True
            raise


async def start_tls(
    stream: ByteStream,
    context: ssl.SSLContext,
    *,
    server_hostname: str | None = None,
    server_side: bool = False,
    received: bytes = b"",
) -> TLSStream:
    """Do the TLS handshake over ``stream``, which nothing else may use from then on.

    On TLS 1.3 the client's handshake ends before the server checks the client's certificate. If the server
    refuses it, the first ``receive()`` raises `anyio.BrokenResourceError` from an `ssl.SSLError`.

    :param server_hostname: for a client: the host name or IP address that the server's certificate must
        carry; None for a context that does not check it
    :param received: bytes that were already read from ``stream``
    :raises ssl.SSLError: if either side refuses, or the peer does not speak TLS; an
        `ssl.SSLCertVerificationError` if this side does not accept the peer's certificate. The peer was sent
        an alert
    :raises anyio.EndOfStream: if the peer hung up
    :raises anyio.BrokenResourceError: if the peer vanished
    """
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    incoming.write(received)
    if server_hostname is not None:
        server_hostname = server_hostname.removesuffix(".")  # certificates omit an absolute name's last dot
    elif context.check_hostname:
        raise _unusable(server_hostname, "the context checks it")
    try:
        ssl_object = context.wrap_bio(
            incoming, outgoing, server_side=server_side, server_hostname=server_hostname
        )
    except (ValueError, TypeError) as error:  # not a name that a certificate can carry
        raise _unusable(server_hostname, str(error)) from error
    tls = TLSStream(stream, ssl_object, incoming, outgoing)
    await tls.handshake()
    return tls


def _unusable(server_hostname: str | None, why: str) -> ssl.SSLError:
    reason = f"server_hostname={server_hostname!r} cannot be used: {why}"
    error = ssl.SSLError(ssl.SSL_ERROR_SSL, reason)
    error.reason = reason  # callers rely on it, since OpenSSL's own errors have one
    return error
