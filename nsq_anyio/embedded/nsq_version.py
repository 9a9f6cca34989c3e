"""The version of NSQ that the embedded daemons behave like and report.

nsqadmin and other tools parse it to decide what a daemon can do.
"""

from __future__ import annotations

NSQ_VERSION = "1.3.0"


def version_line(program: str) -> str:
    """Return what ``program --version`` prints; tools parse it."""
    return f"{program} v{NSQ_VERSION} (built w/nsq-anyio)"
