"""The consumer: discovery, connections, flow control, messages and handlers."""

from .consume import consume
from .consumer import Consumer, GiveUp
from .handler import Handler
from .message import Message
from .statistics import ConnectionStatistics, ConsumerStatistics

__all__ = [
    "ConnectionStatistics",
    "Consumer",
    "ConsumerStatistics",
    "GiveUp",
    "Handler",
    "Message",
    "consume",
]
