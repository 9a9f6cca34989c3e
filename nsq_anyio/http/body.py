"""Reads the body of an answer, up to a limit."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx


async def read_body(response: httpx.Response, chunks: AsyncIterator[bytes], limit: int) -> bytes | None:
    """Return the body; None if it has more than ``limit`` bytes, after closing the connection.

    :param chunks: the chunks of ``response``, raw or decoded
    """
    body = bytearray()
    is_too_large = False
    try:
        async for chunk in chunks:
            if is_too_large:
                continue
            body += chunk
            if len(body) > limit:
                # httpx reads through a chain of async generators. An error raised here would leave them to
                # the garbage collector; the closed connection ends them from the inside.
                is_too_large = True
                await response.aclose()
    except (httpx.RequestError, OSError):
        if not is_too_large:
            raise
    return None if is_too_large else bytes(body)
