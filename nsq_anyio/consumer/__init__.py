"""Consuming: discovery, connections, flow control, and the messages they bring."""

from .consume import consume
from .consumer import Consumer, ConsumerStatistics, GiveUp
from .handler import Handler
from .message import Message

__all__ = ["Consumer", "ConsumerStatistics", "GiveUp", "Handler", "Message", "consume"]
