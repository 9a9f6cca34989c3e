"""The stores, each on each event loop."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from nsq_anyio.deduplication import MemoryStore, RedisStore, SQLiteStore, Store

from ..redis_server import RedisServer, redis_server

MakeStore = Callable[[float], Store]
"""Makes a store by its window; the stores of one test have the same ids, except for those in memory."""


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run each test on both; the stores do not depend on asyncio's loop, and wait for time to pass."""
    backend: str = request.param
    return backend


@pytest.fixture(scope="session")
def redis() -> Generator[RedisServer]:
    """A Redis server for all tests."""
    with redis_server() as server:
        yield server


@pytest.fixture(params=["memory", "sqlite", "redis"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> MakeStore:
    match request.param:
        case "memory":
            return lambda window: MemoryStore(window=window)
        case "sqlite":
            return lambda window: SQLiteStore(tmp_path / "ids.db", window=window)
        case _:
            server: RedisServer = request.getfixturevalue("redis")
            return lambda window: RedisStore(server.url, window=window, prefix=f"{tmp_path}:")
