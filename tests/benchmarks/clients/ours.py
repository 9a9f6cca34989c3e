"""This package: ``ours.py asyncio|uvloop|trio TASK``."""

from __future__ import annotations

import time

# Before all else, also of the standard library: what it loads is timed.
_started_at = time.perf_counter()
import nsq_anyio as nsq  # noqa: E402

_loading_seconds = time.perf_counter() - _started_at

import os  # noqa: E402
import sys  # noqa: E402
from collections.abc import Awaitable, Callable  # noqa: E402
from typing import Any  # noqa: E402

from .meter import loaded_in  # noqa: E402
from .task import Kind, Task, read_task  # noqa: E402

BACKENDS: dict[str, dict[str, Any]] = {
    "asyncio": {"backend": "asyncio"},
    "uvloop": {"backend": "asyncio", "backend_options": {"use_uvloop": True}},
    "trio": {"backend": "trio"},
}


def main() -> None:
    task = read_task()
    if task.kind == "to-http":
        from .forward import forward

        forward(task, [sys.executable, "-m", "nsq_anyio", "to-http", "--backend", sys.argv[1]])
        return
    loaded_in(_loading_seconds)
    _check_codec(getattr(nsq, "accelerated", False))
    import anyio

    anyio.run(_work(task.kind), task, **BACKENDS[sys.argv[1]])


def _work(kind: Kind) -> Callable[[Task], Awaitable[None]]:
    # A first message is not to wait for what it does not need.
    if kind in {"publish", "latency"}:
        from . import ours_publish

        return ours_publish.publish if kind == "publish" else ours_publish.latency
    from . import ours_consume

    return ours_consume.consume if kind == "consume" else ours_consume.idle


def _check_codec(accelerated: bool) -> None:
    wanted = os.environ.get("NSQ_ANYIO_CODEC") == "compiled"
    if accelerated != wanted:
        sys.exit(f"nsq_anyio.accelerated is {accelerated}, although NSQ_ANYIO_CODEC asks for {wanted}")


if __name__ == "__main__":
    main()
