"""Opening a TCP connection to nsqd."""

from __future__ import annotations

from typing import cast

import anyio
from anyio.abc import ByteStream

from ..address import Address
from ..errors import DialFailed

__all__ = ["dial"]


async def dial(address: Address, *, timeout: float) -> ByteStream:
    """Connect to ``address`` within ``timeout`` seconds, trying all that its name resolves to.

    :raises DialFailed: if nothing listens there, the name is unknown, or it takes too long
    """
    try:
        with anyio.fail_after(timeout):
            return await anyio.connect_tcp(address.host, address.port)
    except TimeoutError:
        raise DialFailed(str(address), f"no connection within dial_timeout={timeout} s") from None
    except (OSError, UnicodeError) as error:  # UnicodeError: a name that IDNA cannot encode
        raise DialFailed(str(address), _reason(error)) from error


def _reason(error: BaseException) -> str:
    """What the system said; AnyIO wraps it, in a group when several addresses were tried."""
    cause: BaseException = error.__cause__ or error
    while isinstance(cause, BaseExceptionGroup):
        cause = cast("BaseExceptionGroup[BaseException]", cause).exceptions[0]
    return f"cannot connect: {cause}"
