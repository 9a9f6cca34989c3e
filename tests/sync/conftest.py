"""The two event loops of consumers and producers for plain functions, and an nsqd that runs beside them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Literal

import pytest
from anyio.from_thread import start_blocking_portal

import nsq_anyio as nsq

LIMIT = 20.0
"""Seconds: far more than anything takes."""

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


def publish(nsqd: nsq.embedded.EmbeddedNsqd, *bodies: bytes) -> None:
    with nsq.sync.produce(nsqd.tcp_address) as producer:
        producer.publish_many("t", bodies)


def until(is_true: Callable[[], bool]) -> None:
    """Wait for what another thread does."""
    end = time.monotonic() + LIMIT
    while not is_true():
        assert time.monotonic() < end, "it has not come true"
        time.sleep(0.002)


def nothing_left(nsqd: nsq.embedded.EmbeddedNsqd) -> bool:
    channel = nsqd.topics["t"].channels["c"]
    return not (channel.depth or channel.in_flight or channel.deferred)


def no_threads_left() -> bool:
    return not any(thread.name.startswith("nsq-anyio") for thread in threading.enumerate())
