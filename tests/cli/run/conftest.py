"""An nsqd for the services, fresh topics, and a directory with handlers."""

from __future__ import annotations

from collections.abc import Generator
from itertools import count
from pathlib import Path

import pytest

from ..forwarders import Server, embedded_nsqds
from .services import write_handlers

_numbers = count(1)


@pytest.fixture(scope="module")
def nsqd() -> Generator[Server]:
    with embedded_nsqds(1, registered=False) as (_, (found,)):
        yield found


@pytest.fixture
def topic() -> str:
    return f"topic-{next(_numbers)}"


@pytest.fixture
def source(nsqd: Server, topic: str) -> list[str]:
    """The flags for a channel of the topic."""
    return ["--topic", topic, "--channel", "c", "--nsqd-tcp-address", nsqd.tcp_address]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory with the module ``tasks``."""
    write_handlers(tmp_path)
    return tmp_path
