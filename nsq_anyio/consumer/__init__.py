"""Consuming: discovery, connections, flow control, and the messages they bring."""

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
