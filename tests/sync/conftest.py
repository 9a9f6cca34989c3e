"""The two event loops of the producer for plain functions, and an nsqd that runs beside it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Literal

import pytest
from anyio.from_thread import start_blocking_portal

import nsq_anyio as nsq

__all__ = ["Backend", "published", "running_nsqd"]

Backend = Literal["asyncio", "trio"]
BACKENDS: tuple[Backend, ...] = ("asyncio", "trio")


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Backend:
    chosen: Backend = request.param
    return chosen


@contextmanager
def running_nsqd(**options: object) -> Generator[nsq.embedded.EmbeddedNsqd]:
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(
            nsq.embedded.nsqd(options=nsq.embedded.NsqdOptions(**options))  # type: ignore[arg-type]
        ) as server,
    ):
        yield server


@pytest.fixture
def nsqd() -> Generator[nsq.embedded.EmbeddedNsqd]:
    with running_nsqd() as server:
        yield server


def published(server: nsq.embedded.EmbeddedNsqd, topic: str = "t") -> int:
    found = server.topics.get(topic)
    return found.message_count if found else 0
