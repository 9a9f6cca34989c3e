"""Publishing to one or several nsqds."""

from .bodies import Body
from .produce import produce
from .producer import Producer, ProducerMiddleware, Publishing
from .statistics import ProducerConnectionStatistics, ProducerStatistics

__all__ = [
    "Body",
    "Producer",
    "ProducerConnectionStatistics",
    "ProducerMiddleware",
    "ProducerStatistics",
    "Publishing",
    "produce",
]
