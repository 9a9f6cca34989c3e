"""NSQ as a broker for FastStream, on asyncio.

::

    from faststream import FastStream
    from faststream_nsq import NsqBroker

    broker = NsqBroker("127.0.0.1:4150")
    app = FastStream(broker)

    @broker.subscriber("images", "resizer")
    async def resize(path: str) -> None: ...
"""

from .annotations import NsqBatchMessage, NsqMessage
from .broker import NsqBroker
from .errors import RequestsUnsupported
from .response import NsqPublishCommand, NsqResponse
from .router import NsqPublisher, NsqRoute, NsqRouter
from .testing import TestNsqBroker

__all__ = [
    "NsqBatchMessage",
    "NsqBroker",
    "NsqMessage",
    "NsqPublishCommand",
    "NsqPublisher",
    "NsqResponse",
    "NsqRoute",
    "NsqRouter",
    "RequestsUnsupported",
    "TestNsqBroker",
]
