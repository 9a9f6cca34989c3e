"""The events of consumers and producers, for a hook and for the log.

Pass ``on_event=hook`` to `consume` or `produce`. The hook is called in the event loop with each of the events
below, and must not block. Most events are also logged, under ``nsq_anyio.consumer`` or
``nsq_anyio.producer``, with ``str(event)`` as the text. Events that occur for every message or publish go to
the hook only. No logging handler is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_imports import importer

if TYPE_CHECKING:
    from collections.abc import Callable

    from .connecting import (
        Connected,
        ConnectFailed,
        ConnectionClosed,
        Disconnected,
        LookupDone,
        LookupFailed,
        NoNsqdKnown,
        Subscribed,
        TopicUnknown,
    )
    from .consuming import (
        AbandonedThreadEnded,
        BackoffEnded,
        BackoffStarted,
        DeadLetterFailed,
        DeduplicationFailed,
        GaveUp,
        HandlerFailed,
        HandlerReturnedFalse,
        LoopBlocked,
        MessageDiscarded,
        MessageFinished,
        MessageRequeued,
        MessageTimedOut,
        MessageTouched,
        RdyChanged,
        ResponseFailed,
        Starved,
        ThreadAbandoned,
    )
    from .emitter import Emitter, EventHook, Source
    from .event import ConnectionEvent, ConsumerEvent, Event, MessageEvent, PublishEvent
    from .publishing import NsqdLeftOut, PublishedMessages, PublishFailed, PublishResent

__all__ = [
    "AbandonedThreadEnded",
    "BackoffEnded",
    "BackoffStarted",
    "ConnectFailed",
    "Connected",
    "ConnectionClosed",
    "ConnectionEvent",
    "ConsumerEvent",
    "DeadLetterFailed",
    "DeduplicationFailed",
    "Disconnected",
    "Emitter",
    "Event",
    "EventHook",
    "GaveUp",
    "HandlerFailed",
    "HandlerReturnedFalse",
    "LookupDone",
    "LookupFailed",
    "LoopBlocked",
    "MessageDiscarded",
    "MessageEvent",
    "MessageFinished",
    "MessageRequeued",
    "MessageTimedOut",
    "MessageTouched",
    "NoNsqdKnown",
    "NsqdLeftOut",
    "PublishEvent",
    "PublishFailed",
    "PublishResent",
    "PublishedMessages",
    "RdyChanged",
    "ResponseFailed",
    "Source",
    "Starved",
    "Subscribed",
    "ThreadAbandoned",
    "TopicUnknown",
]

# Lazily, because a consumer needs none of a producer's events, and a producer few of a consumer's.
__getattr__: Callable[[str], object] = importer(
    __name__,
    {
        ".connecting": (
            "Connected",
            "ConnectFailed",
            "ConnectionClosed",
            "Disconnected",
            "LookupDone",
            "LookupFailed",
            "NoNsqdKnown",
            "Subscribed",
            "TopicUnknown",
        ),
        ".consuming": (
            "AbandonedThreadEnded",
            "BackoffEnded",
            "BackoffStarted",
            "DeadLetterFailed",
            "DeduplicationFailed",
            "GaveUp",
            "HandlerFailed",
            "HandlerReturnedFalse",
            "LoopBlocked",
            "MessageDiscarded",
            "MessageFinished",
            "MessageRequeued",
            "MessageTimedOut",
            "MessageTouched",
            "RdyChanged",
            "ResponseFailed",
            "Starved",
            "ThreadAbandoned",
        ),
        ".emitter": (
            "Emitter",
            "EventHook",
            "Source",
        ),
        ".publishing": (
            "NsqdLeftOut",
            "PublishedMessages",
            "PublishFailed",
            "PublishResent",
        ),
        ".event": (
            "ConnectionEvent",
            "ConsumerEvent",
            "Event",
            "MessageEvent",
            "PublishEvent",
        ),
    },
)
