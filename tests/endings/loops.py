"""The event loops: asyncio, uvloop, asyncio whose tasks begin at once, and Trio."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anyio
import pytest


@dataclass(frozen=True)
class Loop:
    """An event loop to run a cell on."""

    name: str
    backend: str
    options: dict[str, Any]

    def run(self, main: Callable[[], Awaitable[None]]) -> None:
        """Run to the end, as a user's program does."""
        anyio.run(main, backend=self.backend, backend_options=self.options)


def _eager_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    loop.set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined, unused-ignore]
    return loop


LOOPS = [
    pytest.param(Loop("asyncio", "asyncio", {}), id="asyncio"),
    pytest.param(Loop("uvloop", "asyncio", {"use_uvloop": True}), id="uvloop"),
    pytest.param(
        Loop("eager", "asyncio", {"loop_factory": _eager_loop}),
        id="eager",
        marks=pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.12 has the eager task factory"),
    ),
    pytest.param(Loop("trio", "trio", {}), id="trio"),
]

every_loop = pytest.mark.parametrize("loop", LOOPS)
asyncio_only = pytest.mark.parametrize("loop", LOOPS[:-1])
