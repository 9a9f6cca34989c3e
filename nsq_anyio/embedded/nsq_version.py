"""The version of NSQ whose behaviour the embedded daemons have, and which they report.

nsqadmin and other tools parse it and decide by it what a daemon can do.
"""

from __future__ import annotations

__all__ = ["NSQ_VERSION"]

NSQ_VERSION = "1.3.0"
