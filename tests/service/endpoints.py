"""A service in this event loop, and requests to its endpoint."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import httpx
import pytest

import nsq_anyio as nsq

LIMIT = 15.0
"""Seconds until a test gives up waiting: far more than needed, on a busy machine too."""


class Endpoint:
    """The endpoint of a service that logs where it listens."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog

    async def get(self, path: str, method: str = "GET") -> tuple[int, str]:
        """The status and the text of an answer."""
        await until(self._address)
        async with httpx.AsyncClient(trust_env=False) as client:
            reply = await client.request(method, f"http://{self._address()}{path}")
        return reply.status_code, reply.text

    async def until(self, path: str, status: int) -> str:
        """Wait for a status; the text that comes with it."""
        with anyio.fail_after(LIMIT):
            while True:
                found, text = await self.get(path)
                if found == status:
                    return text
                await anyio.sleep(0.01)

    def _address(self) -> str:
        found = re.findall(r"HTTP: listening on (\S+)", self._caplog.text)
        return found[-1] if found else ""


@asynccontextmanager
async def serving(
    caplog: pytest.LogCaptureFixture, *arguments: Any, **options: Any
) -> AsyncGenerator[tuple[Endpoint, anyio.Event]]:
    """`serve` without signals for the length of the block, with its endpoint, and its stop event."""
    caplog.set_level(logging.INFO, "nsq_anyio.service")
    stop = anyio.Event()
    serve = partial(
        nsq.serve, *arguments, stop=stop, handle_signals=False, http_address="127.0.0.1:0", **options
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        yield Endpoint(caplog), stop
        stop.set()


async def until(condition: Callable[[], object]) -> None:
    """Wait until it is true."""
    with anyio.fail_after(LIMIT):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await anyio.sleep(0.005)
