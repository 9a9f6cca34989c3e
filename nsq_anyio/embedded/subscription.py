"""A channel's view of one of its clients."""

from __future__ import annotations

from collections.abc import Callable

from .output import Output


class Subscription:
    """One client of a channel: its RDY count, its messages in flight, and its counters.

    :param output: where its messages are queued
    :param disconnect: disconnects the client; called when the channel is deleted
    :param msg_timeout: its message timeout in seconds
    :param sample_rate: the percentage of messages that it gets; the others are discarded. 0 is all
    :ivar rdy: how many messages it may have in flight
    :ivar in_flight: how many it has in flight
    :ivar is_queued: whether it is in the channel's queue of ready clients
    """

    __slots__ = (
        "disconnect",
        "finish_count",
        "in_flight",
        "is_queued",
        "message_count",
        "msg_timeout",
        "output",
        "rdy",
        "requeue_count",
        "sample_rate",
    )

    def __init__(
        self, output: Output, disconnect: Callable[[], None], *, msg_timeout: float, sample_rate: int
    ) -> None:
        self.output: Output = output
        self.disconnect: Callable[[], None] = disconnect
        self.msg_timeout: float = msg_timeout
        self.sample_rate: int = sample_rate
        self.rdy: int = 0
        self.in_flight: int = 0
        self.message_count: int = 0
        self.finish_count: int = 0
        self.requeue_count: int = 0
        self.is_queued: bool = False

    @property
    def can_take(self) -> bool:
        """Whether it may get another message now."""
        return self.in_flight < self.rdy and not self.output.is_full
