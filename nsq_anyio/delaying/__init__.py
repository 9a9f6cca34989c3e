"""Delays of any length: a service that keeps messages in a file until their time."""

from .delay_file import DelayedMessage, DelayFile, Selection, TopicDelays, WaitingMessage
from .service import Delays, DelayStatistics, delays

__all__ = [
    "DelayFile",
    "DelayStatistics",
    "DelayedMessage",
    "Delays",
    "Selection",
    "TopicDelays",
    "WaitingMessage",
    "delays",
]
