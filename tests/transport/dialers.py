"""A dialer of a user's."""

from __future__ import annotations

import anyio
from anyio.abc import ByteStream


async def dial_anyio(address: str) -> ByteStream:
    host, _, port = address.partition(":")
    return await anyio.connect_tcp(host, int(port))
