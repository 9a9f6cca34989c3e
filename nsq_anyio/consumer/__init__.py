"""The consumer: discovery, connections, flow control, messages and handlers."""

from .batches import Batch
from .consume import consume
from .consumer import Consumer
from .dead_letter import DeadLetter
from .giving_up import GiveUp
from .handler import BatchHandler, Handler
from .message import ConsumerMiddleware, Handling, Message
from .rate import RateLimit
from .statistics import ConnectionStatistics, ConsumerStatistics

__all__ = [
    "Batch",
    "BatchHandler",
    "ConnectionStatistics",
    "Consumer",
    "ConsumerMiddleware",
    "ConsumerStatistics",
    "DeadLetter",
    "GiveUp",
    "Handler",
    "Handling",
    "Message",
    "RateLimit",
    "consume",
]
