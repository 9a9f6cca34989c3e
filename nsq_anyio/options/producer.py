"""The options of a producer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from ..checks import check_flag, check_integer, check_seconds
from ..errors import InvalidOption

__all__ = ["ProducerOptions"]

_MODES = ("round_robin", "least_outstanding", "hostpool", "epsilon_greedy")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOptions:
    """How a producer connects, bounds what is outstanding, and stops.

    :param mode: which connected nsqd a publish goes to. ``round_robin``: each in turn;
        ``least_outstanding``: the one with the fewest publishes waiting for their answer; ``hostpool``: in
        turn, but one that failed is left out for a growing time; ``epsilon_greedy``: mostly the one that
        answers fastest, at times another to learn of it. Default ``round_robin``
    :param resend_unknown: whether a message whose answer was lost is published again instead of raising
        `OutcomeUnknown`: it may be stored twice then; default False
    :param coalesce: whether `publish` calls to one topic that wait at the same time travel as one MPUB, each
        with its own outcome; default False
    :param linger: how long such a publish waits for others, 0 to 60; 0 takes those that are there; default 0
    :param max_batch_messages: the most that travel together, 1 or more; default 500
    :param max_batch_bytes: their bodies in sum; default 1 MiB
    :param connect_timeout: how long a publish waits for a connection before `NotSent`; default 10
    :param publish_timeout: from queueing a publish to nsqd's answer; default 60
    :param reconnect_delay: before the first attempt to reach an nsqd again, then doubled; default 0.1
    :param max_reconnect_delay: bound of that delay; default 10
    :param max_outstanding: messages that wait for the answer of one nsqd, 1 or more; more wait for room;
        default 10000
    :param max_outstanding_bytes: their bodies in sum, 1 or more; default 64 MiB
    :param max_msg_size: the largest body that is sent (nsqd: --max-msg-size); default 1 MiB
    :param max_body_size: the largest publish_many (nsqd: --max-body-size); default 5 MiB
    :param max_defer: the longest defer (nsqd: --max-req-timeout); default 3600
    :param drain_timeout: for outstanding answers when the block ends; default 10
    :param cancelled_drain_timeout: the same when the block is cancelled; default 1
    :raises InvalidOption: for a value outside its range
    """

    mode: Literal["round_robin", "least_outstanding", "hostpool", "epsilon_greedy"] = "round_robin"
    resend_unknown: bool = False
    coalesce: bool = False
    linger: float = 0.0
    max_batch_messages: int = 500
    max_batch_bytes: int = 1024 * 1024
    connect_timeout: float = 10.0
    publish_timeout: float = 60.0
    reconnect_delay: float = 0.1
    max_reconnect_delay: float = 10.0
    max_outstanding: int = 10_000
    max_outstanding_bytes: int = 64 * 1024 * 1024
    max_msg_size: int = 1024 * 1024
    max_body_size: int = 5 * 1024 * 1024
    max_defer: float = 3600.0
    drain_timeout: float = 10.0
    cancelled_drain_timeout: float = 1.0

    def __post_init__(self) -> None:
        if self.mode not in _MODES:
            raise InvalidOption(f"mode={self.mode!r} is not valid: use {', '.join(map(repr, _MODES))}")
        check_flag("resend_unknown", self.resend_unknown)
        check_flag("coalesce", self.coalesce)
        check_seconds("linger", self.linger, 0, 60)
        check_integer("max_batch_messages", self.max_batch_messages, 1)
        check_integer("max_batch_bytes", self.max_batch_bytes, 1)
        check_seconds("connect_timeout", self.connect_timeout, 0)
        check_seconds("publish_timeout", self.publish_timeout, 0.001)
        check_seconds("reconnect_delay", self.reconnect_delay, 0.001)
        check_seconds("max_reconnect_delay", self.max_reconnect_delay, self.reconnect_delay)
        check_integer("max_outstanding", self.max_outstanding, 1)
        check_integer("max_outstanding_bytes", self.max_outstanding_bytes, 1)
        check_integer("max_msg_size", self.max_msg_size, 1)
        check_integer("max_body_size", self.max_body_size, 1)
        check_seconds("max_defer", self.max_defer, 0, math.inf)
        check_seconds("drain_timeout", self.drain_timeout, 0)
        check_seconds("cancelled_drain_timeout", self.cancelled_drain_timeout, 0)
