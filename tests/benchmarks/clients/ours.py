"""This package: ``ours.py asyncio|uvloop|trio TASK``."""

from __future__ import annotations

import sys
from typing import Any

from .meter import load
from .task import read_task

BACKENDS: dict[str, dict[str, Any]] = {
    "asyncio": {"backend": "asyncio"},
    "uvloop": {"backend": "asyncio", "backend_options": {"use_uvloop": True}},
    "trio": {"backend": "trio"},
}


def main() -> None:
    task = read_task()
    backend = BACKENDS[sys.argv[1]]
    # Before everything that imports it: this is timed.
    load("nsq_anyio")
    import anyio

    from . import ours_consume, ours_publish

    work = {
        "consume": ours_consume.consume,
        "idle": ours_consume.idle,
        "publish": ours_publish.publish,
        "latency": ours_publish.latency,
    }[task.kind]
    anyio.run(work, task, **backend)


if __name__ == "__main__":
    main()
