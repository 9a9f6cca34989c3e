"""Which event loop runs, for the few places where that is worth code of its own."""

from __future__ import annotations

import asyncio

__all__ = ["on_asyncio"]


def on_asyncio() -> bool:
    """Whether the running task is one of asyncio's, of whatever loop; otherwise it is one of Trio's."""
    try:
        # Trio may run as the guest of an asyncio loop: that loop runs then, but no task of its.
        return asyncio.current_task() is not None
    except RuntimeError:  # no asyncio loop runs here
        return False
