"""Publishing to one or several nsqds."""

from .bodies import Body
from .produce import produce
from .producer import Producer

__all__ = ["Body", "Producer", "produce"]
