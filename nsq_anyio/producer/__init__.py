"""Publishing to one or several nsqds."""

from .bodies import Body
from .produce import produce
from .producer import Producer
from .statistics import ProducerConnectionStatistics, ProducerStatistics

__all__ = ["Body", "Producer", "ProducerConnectionStatistics", "ProducerStatistics", "produce"]
