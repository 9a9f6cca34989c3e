"""Defines `vital`, for what a process must not live on without."""

from __future__ import annotations

import logging
import signal
from collections.abc import Generator
from contextlib import contextmanager

_log = logging.getLogger("nsq_anyio.service")


@contextmanager
def vital() -> Generator[None]:
    """End the process when the block fails, as at any SIGTERM, so that whatever started it starts it again.

    It goes around the consumers of a web application, in its lifespan::

        @asynccontextmanager
        async def lifespan(app):
            with nsq.vital():
                async with nsq.consume("orders", "billing", nsqd="127.0.0.1:4150") as consumer:
                    ...
                    yield

    When a lifespan fails after its start, servers such as uvicorn only log that, and go on answering
    requests. The error is logged, SIGTERM is raised in this process, and then the error is raised. Where
    nothing handles SIGTERM, as in tests, the error is only raised. A block that is cancelled has not failed.

    The process ends as at any SIGTERM, which systemd takes for a clean end: its unit has ``Restart=always``.
    """
    try:
        yield
    except Exception as error:
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            _log.exception("the process ends, because a part that it needs has failed: %r", error)
            signal.raise_signal(signal.SIGTERM)
        raise
