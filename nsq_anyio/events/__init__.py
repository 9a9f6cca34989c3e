"""Records of what happens in a consumer or producer, for a hook and for the log.

Give ``on_event=hook`` to `consume` or `produce`; it is called in the event loop with each of the
records below, and must not block. Each record is also logged under ``nsq_anyio.consumer`` or
``nsq_anyio.producer``, with ``str(event)`` as its text; no logging handler is installed.
"""

from .connecting import (
    Connected,
    ConnectFailed,
    ConnectionClosed,
    Disconnected,
    LookupDone,
    LookupFailed,
    Subscribed,
)
from .consuming import (
    BackoffEnded,
    BackoffStarted,
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
)
from .emitter import Emitter, EventHook
from .publishing import NsqdLeftOut, PublishedMessages, PublishFailed, PublishResent
from .record import Event

__all__ = [
    "BackoffEnded",
    "BackoffStarted",
    "ConnectFailed",
    "Connected",
    "ConnectionClosed",
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
    "MessageFinished",
    "MessageRequeued",
    "MessageTimedOut",
    "MessageTouched",
    "NsqdLeftOut",
    "PublishFailed",
    "PublishResent",
    "PublishedMessages",
    "RdyChanged",
    "ResponseFailed",
    "Subscribed",
]
