"""What measured programs are started with: a directory, an environment, and cores."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Pinning:
    """Which cores nsqd and the measured program may run on, counted from the first that the harness has.

    A round trip costs several times as much between two cores as within one, for every client: where the
    scheduler chooses, the rates have two modes.

    :ivar name: its name among samples, and in tables
    :ivar client: the measured program's cores
    :ivar servers: those of nsqd, and of what else serves the program
    """

    name: str
    client: tuple[int, ...]
    servers: tuple[int, ...]

    def cores(self, places: tuple[int, ...]) -> list[int]:
        """Return the numbers of cores; none where they cannot be chosen."""
        available = _available()
        return [available[place] for place in places] if available else []

    @property
    def is_possible(self) -> bool:
        available = _available()
        if not available:
            return self == SHARED  # the system cannot pin, and all run anywhere
        return len(available) > max(*self.client, *self.servers)


ONE_CORE = Pinning("one core", (0,), (0,))
TWO_CORES = Pinning("two cores", (0,), (1,))
SHARED = Pinning("two cores shared", (0, 1), (0, 1))
PINNINGS = (SHARED, TWO_CORES, ONE_CORE)
"""The one that people have comes first."""


def possible_pinnings(wanted: Sequence[Pinning]) -> list[Pinning]:
    """Return those of them that this machine can do; `SHARED` on a system that cannot pin at all."""
    found = [pinning for pinning in wanted if pinning.is_possible]
    return found or ([SHARED] if not _available() else [])


@contextmanager
def pinned_to(cores: Sequence[int]) -> Generator[None]:
    """Let what is started in the block, threads and processes, run on these cores alone; none: on any."""
    if not cores:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def plain_environment(**more: str) -> dict[str, str]:
    """Return the environment without settings of Python and of this package, and with `more`."""
    # A proxy set for the machine, and settings of the interpreter, are no part of a measurement.
    own = ("PYTHON", "NSQ_ANYIO_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return kept | more


def _available() -> list[int]:
    # Other systems than Linux have no such call.
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
