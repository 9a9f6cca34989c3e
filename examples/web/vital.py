"""What an application must not live on without."""

import logging
import signal
from collections.abc import Generator
from contextlib import contextmanager

logger = logging.getLogger(__name__)


@contextmanager
def vital() -> Generator[None]:
    """End the process when the block fails, as at any SIGTERM; whatever started it can start it again.

    When the lifespan of an application fails after its start, servers such as uvicorn only log it. They would
    go on answering requests, without a consumer.
    """
    try:
        yield
    except Exception:
        logger.exception("the application ends, because a part that it needs has failed")
        signal.raise_signal(signal.SIGTERM)
        raise
