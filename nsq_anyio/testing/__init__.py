"""Messages for unit tests of handlers. They need no nsqd, and record how they are answered.

::

    async def test_a_bad_click_is_discarded() -> None:
        message = nsq.testing.message(b"not JSON")
        assert await nsq.testing.handle(handler, message) == nsq.testing.Discarded("not JSON")
"""

from __future__ import annotations

from .answers import Answer, Discarded, Finished, Requeued, TimedOut
from .handle import handle
from .message import RecordedMessage, message

__all__ = [
    "Answer",
    "Discarded",
    "Finished",
    "RecordedMessage",
    "Requeued",
    "TimedOut",
    "handle",
    "message",
]
