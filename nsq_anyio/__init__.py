"""NSQ client on structured concurrency: consume and publish natively on Trio and asyncio.

::

    import nsq_anyio as nsq

    async with nsq.consume("clicks", "archive", nsqlookupd="http://127.0.0.1:4161") as consumer:
        async for message in consumer:
            async with message:
                print(message.payload)

    async with nsq.produce(nsqd="127.0.0.1:4150") as producer:
        await producer.publish("clicks", b"body")
"""

from __future__ import annotations

from .lazy_imports import importer
from .version import VERSION

TYPE_CHECKING: bool = False  # as in `typing`, whose import takes longer than everything else here

if TYPE_CHECKING:
    from collections.abc import Callable

    from . import deduplication, embedded, envelope, events, http, sync, testing
    from .consumer import (
        Batch,
        BatchHandler,
        ConnectionStatistics,
        Consumer,
        ConsumerStatistics,
        DeadLetter,
        Handling,
        Message,
        RateLimit,
        consume,
    )
    from .deduplication import Deduplicate
    from .delaying import Delays, delays
    from .errors import (
        AlreadyResponded,
        Closed,
        ConnectionFailed,
        ConnectionLost,
        DelayFileUnusable,
        DialFailed,
        Discard,
        FewerCopies,
        FrameTooLarge,
        HandshakeFailed,
        HeartbeatTimeout,
        HTTPError,
        HTTPInvalidReply,
        HTTPStatusError,
        HTTPUnavailable,
        InvalidAddress,
        InvalidBody,
        InvalidEnvelope,
        InvalidName,
        InvalidOption,
        NotEntered,
        NotSent,
        NSQError,
        OutcomeUnknown,
        PermanentRefusal,
        ProtocolError,
        PublishError,
        PublishRejected,
        Requeue,
        ServerError,
        TLSFailed,
        WouldDeadlock,
    )
    from .options import ConnectionOptions, ConsumerOptions, ProducerOptions, TLSOptions
    from .producer import Producer, ProducerConnectionStatistics, ProducerStatistics, Publishing, produce
    from .protocol.codec import accelerated
    from .protocol.identify import AuthReply, IdentifyReply
    from .service import Service, serve, vital

__version__ = VERSION

__all__ = [
    "AlreadyResponded",
    "AuthReply",
    "Batch",
    "BatchHandler",
    "Closed",
    "ConnectionFailed",
    "ConnectionLost",
    "ConnectionOptions",
    "ConnectionStatistics",
    "Consumer",
    "ConsumerOptions",
    "ConsumerStatistics",
    "DeadLetter",
    "Deduplicate",
    "DelayFileUnusable",
    "Delays",
    "DialFailed",
    "Discard",
    "FewerCopies",
    "FrameTooLarge",
    "HTTPError",
    "HTTPInvalidReply",
    "HTTPStatusError",
    "HTTPUnavailable",
    "Handling",
    "HandshakeFailed",
    "HeartbeatTimeout",
    "IdentifyReply",
    "InvalidAddress",
    "InvalidBody",
    "InvalidEnvelope",
    "InvalidName",
    "InvalidOption",
    "Message",
    "NSQError",
    "NotEntered",
    "NotSent",
    "OutcomeUnknown",
    "PermanentRefusal",
    "Producer",
    "ProducerConnectionStatistics",
    "ProducerOptions",
    "ProducerStatistics",
    "ProtocolError",
    "PublishError",
    "PublishRejected",
    "Publishing",
    "RateLimit",
    "Requeue",
    "ServerError",
    "Service",
    "TLSFailed",
    "TLSOptions",
    "WouldDeadlock",
    "accelerated",
    "consume",
    "deduplication",
    "delays",
    "embedded",
    "envelope",
    "events",
    "http",
    "produce",
    "serve",
    "sync",
    "testing",
    "vital",
]

_NAMES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        (".deduplication", ".embedded", ".envelope", ".events", ".http", ".sync", ".testing"), ()
    ),
    ".consumer": (
        "Batch",
        "BatchHandler",
        "ConnectionStatistics",
        "Consumer",
        "ConsumerStatistics",
        "DeadLetter",
        "Handling",
        "Message",
        "RateLimit",
        "consume",
    ),
    ".deduplication.store": ("Deduplicate",),
    ".delaying": ("Delays", "delays"),
    ".errors": (
        "AlreadyResponded",
        "Closed",
        "ConnectionFailed",
        "ConnectionLost",
        "DelayFileUnusable",
        "DialFailed",
        "Discard",
        "FewerCopies",
        "FrameTooLarge",
        "HandshakeFailed",
        "HeartbeatTimeout",
        "HTTPError",
        "HTTPInvalidReply",
        "HTTPStatusError",
        "HTTPUnavailable",
        "InvalidAddress",
        "InvalidBody",
        "InvalidEnvelope",
        "InvalidName",
        "InvalidOption",
        "NotEntered",
        "NotSent",
        "NSQError",
        "OutcomeUnknown",
        "PermanentRefusal",
        "ProtocolError",
        "PublishError",
        "PublishRejected",
        "Requeue",
        "ServerError",
        "TLSFailed",
        "WouldDeadlock",
    ),
    ".options": (
        "ConnectionOptions",
        "ConsumerOptions",
        "ProducerOptions",
        "TLSOptions",
    ),
    ".producer": (
        "Producer",
        "ProducerConnectionStatistics",
        "ProducerStatistics",
        "Publishing",
        "produce",
    ),
    ".protocol.codec": ("accelerated",),
    ".protocol.identify": ("AuthReply", "IdentifyReply"),
    ".service": ("Service", "serve", "vital"),
}
__getattr__: Callable[[str], object] = importer(__name__, _NAMES)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
