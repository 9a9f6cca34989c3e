"""Processes that end with the block that runs them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from anyio.abc import Process


@asynccontextmanager
async def ending(process: Process) -> AsyncGenerator[Process]:
    """Kill the process if it outlives the block: one that fails would otherwise wait for the process."""
    async with process:
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
