"""The handshake: the magic, then IDENTIFY and its answer. SUB follows on the running connection.

It reads and writes the stream itself, before the connection's tasks start: whatever IDENTIFY negotiates
must wrap the stream before anybody else reads from it.
"""

from __future__ import annotations

from typing import TypeVar

import anyio
from anyio.abc import ByteStream

from ..errors import HandshakeFailed, PermanentRefusal, ProtocolError
from ..options import ConnectionOptions
from ..protocol import commands
from ..protocol.frames import MAGIC_V2, Frame, FrameDecoder
from ..protocol.identify import IdentifyReply, identify_payload
from ..protocol.session import Answer, ClientSession, Command, Heartbeat, Refusal
from .reader import CHUNK_SIZE
from .request import Request

__all__ = ["identify"]

SourceT = TypeVar("SourceT")
MessageT = TypeVar("MessageT")


async def identify(
    nsqd: str,
    stream: ByteStream,
    session: ClientSession[Request],
    decoder: FrameDecoder[SourceT, MessageT],
    source: SourceT,
    options: ConnectionOptions,
) -> IdentifyReply:
    """Introduce this client on a fresh stream and return what nsqd answered.

    :raises PermanentRefusal: if nsqd refuses the options
    :raises HandshakeFailed: if the peer is no nsqd, hangs up, or takes longer than ``handshake_timeout``
    """
    request = Request(0)
    session.sending(Command.IDENTIFY, request)
    try:
        with anyio.fail_after(options.handshake_timeout):
            await stream.send(MAGIC_V2 + commands.identify(identify_payload(options)))
            reply: IdentifyReply | None = None
            while reply is None:
                messages, frames = decoder.feed(await stream.receive(CHUNK_SIZE), source)
                if messages:
                    raise ProtocolError("a message came before the answer to IDENTIFY")
                reply = _answer(session, frames, options)
            return reply
    except PermanentRefusal as error:
        error.nsqd = nsqd
        raise
    except TimeoutError:
        reason = f"no answer to IDENTIFY within handshake_timeout={options.handshake_timeout} s"
        raise HandshakeFailed(nsqd, reason) from None
    except anyio.EndOfStream:
        reason = "the peer closed the connection before it answered IDENTIFY: is this nsqd's TCP port?"
        raise HandshakeFailed(nsqd, reason) from None
    except (anyio.BrokenResourceError, OSError) as error:
        raise HandshakeFailed(nsqd, f"the connection broke before IDENTIFY was answered: {error}") from error
    except ProtocolError as error:
        raise HandshakeFailed(nsqd, str(error)) from error


def _answer(
    session: ClientSession[Request], frames: list[Frame], options: ConnectionOptions
) -> IdentifyReply | None:
    """What the frames answer to IDENTIFY, if they do."""
    reply: IdentifyReply | None = None
    for frame in frames:
        match session.received(frame):
            case Answer(data=data):
                reply = IdentifyReply.parse(data, options)
            case Refusal(error=PermanentRefusal() as error):
                raise error
            case Refusal(error=error):
                raise ProtocolError(f"IDENTIFY was refused: {error}")
            case Heartbeat():
                pass  # the next command, which follows at once, answers it
            case failed:
                raise ProtocolError(f"{failed.error} came in the handshake")
    return reply
