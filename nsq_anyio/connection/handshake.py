"""The handshake: the magic, IDENTIFY, TLS, compression, AUTH. SUB follows on the running connection.

It reads and writes the stream itself, before the connection's tasks start. It takes one frame at a time,
because the bytes after the answer to IDENTIFY may belong to the layer that it negotiated. nsqd confirms each
layer with an ``OK`` inside that layer, which answers no command (protocol spec, IDENTIFY; nsqd:
protocol_v2.go).
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Generic, TypeVar

import anyio
from anyio.abc import ByteStream

from ..address import Address, NsqdAddress
from ..errors import HandshakeFailed, NSQError, PermanentRefusal, ProtocolError, ServerError, TLSFailed
from ..options import ConnectionOptions, TLSOptions
from ..protocol import commands
from ..protocol.codec import Decoder
from ..protocol.error_codes import AUTH_FAILURE_CODES, parse_error
from ..protocol.frames import FRAME_ERROR, FRAME_RESPONSE, HEARTBEAT, MAGIC_V2, OK, Frame
from ..protocol.identify import AuthReply, IdentifyReply, identify_payload
from ..protocol.session import Answer, ClientSession, Command, Heartbeat, Refusal
from ..transport.tls_context import client_context, tls_options
from .auth_secret import reveal
from .interfaces import Request, TakesAnswer

CHUNK_SIZE = 256 * 1024
"""The most bytes to receive at once; large, because each chunk costs an iteration of the event loop."""

SourceT = TypeVar("SourceT")
MessageT = TypeVar("MessageT")

_FIRST = "answer to IDENTIFY"
_HEARTBEAT = (FRAME_RESPONSE, HEARTBEAT)


@dataclass(frozen=True, slots=True)
class Negotiated:
    """The result of a handshake.

    :ivar stream: the outermost layer, which carries NSQ's protocol
    :ivar received: bytes that were already read from it
    :ivar identity: nsqd's answer to IDENTIFY
    :ivar authorization: nsqd's answer to AUTH; None if nsqd required no AUTH
    """

    stream: ByteStream
    received: bytes
    identity: IdentifyReply
    authorization: AuthReply | None


class Handshake(Generic[SourceT, MessageT]):
    """One handshake on a fresh stream.

    :param address: the address of the nsqd, for errors
    :param reached: the address that was dialled, if it differs
    """

    def __init__(
        self,
        address: NsqdAddress,
        stream: ByteStream,
        session: ClientSession[TakesAnswer],
        decoder: Decoder[SourceT, MessageT],
        source: SourceT,
        options: ConnectionOptions,
        *,
        reached: NsqdAddress | None = None,
    ) -> None:
        self._nsqd = str(address)
        self._reached = reached or address
        self._stream = stream
        self._session = session
        self._decoder = decoder
        self._source = source
        self._options = options
        self._accepted_before = False
        self._received: bytes = b""
        self._position = 0  # of the first byte that was not decoded
        self._awaited = _FIRST

    async def run(self, *, accepted_before: bool) -> Negotiated:
        """Do the handshake.

        :param accepted_before: whether an nsqd has accepted the same options before. If so, a retry may
            succeed: a failed AUTH points to the auth server, because nsqd also answers E_AUTH_FAILED when it
            cannot reach that server, and failed TLS points to one nsqd or the network
        :raises TLSFailed: if nsqd declines TLS that was asked for, or the TLS handshake fails; a
            `HandshakeFailed` if ``accepted_before``
        :raises PermanentRefusal: if nsqd refuses the options or the secret
        :raises HandshakeFailed: if the peer is not an nsqd, hangs up, or takes longer than
            ``handshake_timeout``
        """
        self._accepted_before = accepted_before
        timeout = self._options.handshake_timeout
        try:
            with anyio.fail_after(timeout):
                identity = await self._identify()
                await self._start_layers(identity)
                authorization = await self._authenticate(identity)
        except ServerError as error:
            error.nsqd = self._nsqd
            raise
        except TimeoutError:
            raise self._failed(f"no {self._awaited} within handshake_timeout={timeout} s") from None
        except anyio.EndOfStream:
            hint = ": is this nsqd's TCP port?" if self._awaited == _FIRST else ""
            raise self._failed(f"the peer closed the connection before the {self._awaited}{hint}") from None
        except ssl.SSLError as error:
            raise self._tls_failed(_tls_reason(error)) from error
        except (anyio.BrokenResourceError, OSError) as error:
            # With TLS 1.3, a server that refuses the client's certificate sends the alert only after the
            # handshake, in place of its first bytes.
            if isinstance(error.__cause__, ssl.SSLError):
                raise self._tls_failed(_tls_reason(error.__cause__)) from error
            reason = f"the connection broke before the {self._awaited}: {error.__cause__ or error!r}"
            raise self._failed(reason) from error
        except ProtocolError as error:
            raise self._failed(str(error)) from error
        return Negotiated(self._stream, self._take_received(), identity, authorization)

    async def _identify(self) -> IdentifyReply:
        options = self._options
        data = await self._command(Command.IDENTIFY, MAGIC_V2 + commands.identify(identify_payload(options)))
        identity = IdentifyReply.parse(data, options)
        if options.tls and not identity.tls_v1:
            remedy = "start it with --tls-cert and --tls-key, or connect without tls"
            raise self._tls_failed(f"it declines TLS: {remedy}")
        for layer, asked, granted in (
            ("tls", bool(options.tls), identity.tls_v1),
            ("snappy", options.snappy, identity.snappy),
            ("deflate", options.deflate, identity.deflate),
        ):
            if granted and not asked:
                raise ProtocolError(f"nsqd turned on {layer}, which was not asked for")
        return identity

    async def _start_layers(self, identity: IdentifyReply) -> None:
        if (tls := tls_options(self._options.tls)) is not None:
            self._awaited = "TLS handshake"
            await self._start_tls(tls)
            await self._confirmed("TLS")
        if identity.snappy or identity.deflate:
            await self._start_compression(identity)

    async def _start_tls(self, tls: TLSOptions) -> None:
        from ..transport.tls import start_tls  # noqa: PLC0415 - few negotiate it

        context = client_context(tls)
        hostname = tls.server_hostname
        if hostname is None and isinstance(self._reached, Address):
            hostname = self._reached.host
        if hostname is None and context.check_hostname:
            raise TLSFailed(
                self._nsqd, "its address holds no host name to verify: set TLSOptions(server_hostname=...)"
            )
        self._stream = await start_tls(
            self._stream, context, server_hostname=hostname, received=self._take_received()
        )

    async def _start_compression(self, identity: IdentifyReply) -> None:
        from ..protocol.compression import Deflate, Snappy  # noqa: PLC0415 - few negotiate it
        from ..transport.compressed import CompressedStream  # noqa: PLC0415

        codec = Snappy() if identity.snappy else Deflate(identity.deflate_level)
        self._stream = CompressedStream(self._stream, codec, self._take_received())
        await self._confirmed("snappy" if identity.snappy else "deflate")

    async def _confirmed(self, layer: str) -> None:
        self._awaited = f"confirmation of {layer}"
        while (frame := await self._frame()) == _HEARTBEAT:
            pass  # the next command answers the heartbeat
        frame_type, data = frame
        if frame_type == FRAME_ERROR:
            raise self._refusal(layer, parse_error(data, handshake=True))
        if frame != OK:
            raise ProtocolError(f"nsqd confirmed {layer} with {data[:80]!r} instead of OK")

    async def _authenticate(self, identity: IdentifyReply) -> AuthReply | None:
        if not identity.auth_required:
            return None  # nsqd would refuse the command, and the secret must not be sent needlessly
        secret = self._options.auth_secret
        if secret is None:
            raise PermanentRefusal(
                "E_AUTH_FIRST", "nsqd demands AUTH: set ConnectionOptions(auth_secret=...)"
            )
        self._awaited = "answer to AUTH"
        return AuthReply.parse(
            await self._command(Command.AUTH, commands.auth(await reveal(secret, self._nsqd)))
        )

    async def _command(self, command: Command, data: bytes) -> bytes:
        """Send a command, and return the data of its answer."""
        self._session.sending(command, Request())
        await self._stream.send(data)
        while True:
            match self._session.received(await self._frame()):
                case Answer(data=answer):
                    return answer
                case Heartbeat():
                    pass  # the next command, which follows at once, answers the heartbeat
                case Refusal(error=error):
                    raise self._refusal(command.value, error)
                case failed:
                    raise ProtocolError(f"{failed.error} came in the handshake")

    def _refusal(self, what: str, error: ServerError) -> NSQError:
        if error.code in AUTH_FAILURE_CODES and self._accepted_before:
            return ProtocolError(f"{error}: the auth server of nsqd may be away")
        if isinstance(error, PermanentRefusal):
            return PermanentRefusal(error.code, f"{error.detail}{self._remedy(error.detail)}")
        return ProtocolError(f"{what} was refused: {error}")

    def _remedy(self, detail: str) -> str:
        """Return the end of the error: the option that nsqd requires, or finds out of range."""
        if detail.endswith("(TLS required)"):
            return ": set ConnectionOptions(tls=True)"
        for name in ("msg_timeout", "heartbeat_interval", "output_buffer_timeout", "output_buffer_size"):
            if detail.startswith(f"IDENTIFY {name.replace('_', ' ')} ("):
                unit = "bytes" if name.endswith("size") else "seconds"
                asked = f"{name}={getattr(self._options, name)} ({unit})"
                return f": {asked} is not within nsqd's limits, see its --max-{name.replace('_', '-')}"
        return ""

    async def _frame(self) -> Frame:
        """Receive the next frame, without decoding a byte after it."""
        while True:
            if self._position == len(self._received):
                self._received = await self._stream.receive(CHUNK_SIZE)
                self._position = 0
            piece = self._received[self._position : self._position + self._decoder.missing]
            self._position += len(piece)
            messages, frames = self._decoder.feed(piece, self._source)
            if messages:
                raise ProtocolError(f"a message came before the {self._awaited}")
            if frames:
                return frames[0]

    def _take_received(self) -> bytes:
        received = self._received[self._position :]
        self._received = b""
        self._position = 0
        return received

    def _failed(self, reason: str) -> HandshakeFailed:
        return HandshakeFailed(self._nsqd, reason)

    def _tls_failed(self, reason: str) -> HandshakeFailed | TLSFailed:
        if self._accepted_before:
            return self._failed(f"{reason}; TLS worked before with these options")
        return TLSFailed(self._nsqd, reason)


def _tls_reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    reason = error.reason or str(error)
    own = "this client's certificate: set TLSOptions(certificate_file=..., private_key_file=...)"
    if reason.endswith("CERTIFICATE_REQUIRED"):
        return f"it wants {own}"
    if reason.endswith("HANDSHAKE_FAILURE"):  # TLS 1.2 has no specific alert for a missing certificate
        return f"it broke the TLS handshake off ({reason}). Perhaps it wants {own}"
    return f"TLS failed: {reason}"
