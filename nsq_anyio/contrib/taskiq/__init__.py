"""NSQ as a broker for taskiq, on asyncio.

::

    from nsq_anyio.contrib.taskiq import NsqBroker

    broker = NsqBroker(nsqd="127.0.0.1:4150")

    @broker.task
    async def resize(path: str) -> None: ...

It needs taskiq: ``pip install 'nsq-anyio[taskiq]'``.
"""

from __future__ import annotations

import importlib

try:
    importlib.import_module("taskiq")
except ImportError as _missing:
    raise ImportError(
        f"nsq_anyio.contrib.taskiq needs taskiq ({_missing}): pip install 'nsq-anyio[taskiq]'",
        name=_missing.name,
    ) from _missing

from .broker import NsqBroker
from .delivery import Delivered, delivered
from .retry import NsqRetryMiddleware

__all__ = ["Delivered", "NsqBroker", "NsqRetryMiddleware", "delivered"]
