"""The byte stream to nsqd: by TCP, by a unix socket, or from the user's dialer."""

from __future__ import annotations

import math

import anyio
from anyio.abc import ByteStream, SocketStream

from ..address import NsqdAddress, UnixAddress
from ..errors import DialFailed
from ..exceptions import first_error
from ..options import Dialer
from .connect_tcp import connect_tcp
from .event_loop import waits_for_sockets
from .layer import TimedSends
from .socket_stream import DirectSocketStream


async def dial(
    address: NsqdAddress, *, timeout: float, write_timeout: float = math.inf, dialer: Dialer | None = None
) -> ByteStream:
    """Connect to ``address`` within ``timeout`` seconds, trying all addresses of a name (RFC 8305).

    :param write_timeout: seconds after which a send raises `TimeoutError`, if the peer accepts no bytes
    :param dialer: opens the stream in place of TCP or a unix socket
    :raises DialFailed: if nothing listens there, the name is unknown, the time is over, or ``dialer`` raises
    """
    try:
        with anyio.fail_after(timeout):
            if dialer is not None:
                return TimedSends(await _dialled(dialer, str(address)), write_timeout)
            stream: SocketStream
            if isinstance(address, UnixAddress):
                stream = await anyio.connect_unix(address.path)
            else:
                stream = await connect_tcp(address.host, address.port)
            if waits_for_sockets():
                return await DirectSocketStream.taking_over(stream, write_timeout)
            return TimedSends(stream, write_timeout)
    except TimeoutError:
        raise DialFailed(str(address), f"no connection within dial_timeout={timeout} s") from None
    except (OSError, UnicodeError) as error:  # UnicodeError: a name that IDNA cannot encode
        raise DialFailed(str(address), _reason(error)) from error


async def _dialled(dialer: Dialer, address: str) -> ByteStream:
    try:
        return await dialer(address)
    except Exception as error:  # the user's code may raise anything
        raise DialFailed(address, f"the dialer raised {error!r}") from error


def _reason(error: BaseException) -> str:
    """Return the system's reason. AnyIO wraps it, in an exception group if it tried several addresses."""
    return f"cannot connect: {first_error(error.__cause__ or error)}"
