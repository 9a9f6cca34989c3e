"""The version of NSQ whose behaviour the embedded daemons have, and which they report.

nsqadmin and other tools parse it and decide by it what a daemon can do.
"""

from __future__ import annotations

__all__ = ["NSQ_VERSION", "version_line"]

NSQ_VERSION = "1.3.0"


def version_line(program: str) -> str:
    """What ``program --version`` prints; tools take it apart."""
    return f"{program} v{NSQ_VERSION} (built w/nsq-anyio)"
