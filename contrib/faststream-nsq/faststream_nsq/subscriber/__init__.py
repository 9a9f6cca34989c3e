"""Subscribers, which take messages and let FastStream handle them."""

from .batch import NsqBatchSubscriber
from .single import NsqMessageSubscriber
from .usecase import NsqSubscriber

__all__ = ["NsqBatchSubscriber", "NsqMessageSubscriber", "NsqSubscriber"]
