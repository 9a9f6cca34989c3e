"""Sends all bytes without waiting, for layers that cannot resume an incomplete send."""

from __future__ import annotations

from typing import Any

import anyio


def send_all_now(stream: Any, data: bytes) -> None:
    """Send ``data`` over a stream that has `send_now`.

    :raises anyio.BrokenResourceError: if the system did not accept all of it, or the connection broke
    :raises anyio.ClosedResourceError: if the stream was closed on this side
    """
    taken: list[int] = []
    stream.send_now(data, taken)
    if sum(taken) < len(data):
        raise anyio.BrokenResourceError("the system did not accept all bytes at once")
