"""Types for the parameters of handlers, which FastStream fills from its context."""

from typing import Annotated, TypeAlias

from faststream import Context
from faststream.annotations import ContextRepo, Logger

import nsq_anyio as nsq

from . import broker, message

__all__ = ["ContextRepo", "Logger", "NsqBatchMessage", "NsqBroker", "NsqMessage", "Producer"]

NsqMessage: TypeAlias = Annotated[message.NsqMessage, Context("message")]
"""The message that is handled."""
NsqBatchMessage: TypeAlias = Annotated[message.NsqBatchMessage, Context("message")]
"""The batch that is handled."""
NsqBroker: TypeAlias = Annotated[broker.NsqBroker, Context("broker")]
"""The broker."""
Producer: TypeAlias = Annotated[nsq.Producer, Context("broker._connection")]
"""The producer that the broker publishes with."""
