"""Options, validated when they are made. All durations are seconds, all sizes bytes.

The ranges are those of nsqd 1.3.0 where nsqd has one; a bound that only nsqd's configuration knows
(the largest heartbeat interval, for example) is left to nsqd, whose refusal is raised.
"""

from __future__ import annotations

import math
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Literal

from .checks import check_integer, check_seconds
from .errors import InvalidOption

__all__ = ["ConnectionOptions", "ConsumerOptions", "ProducerOptions", "default_user_agent"]


def default_user_agent() -> str:
    """``nsq-anyio/<version>``, which nsqadmin shows for each client."""
    return f"nsq-anyio/{version('nsq-anyio')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """How one connection to nsqd is opened, identified and watched.

    :param client_id: shown by nsqadmin; default: the host name up to its first dot
    :param hostname: shown by nsqadmin; default: the host name
    :param user_agent: default: ``nsq-anyio/<version>``
    :param dial_timeout: to open the transport; default 5
    :param handshake_timeout: from the open transport to the answer to IDENTIFY, and for SUB; default 10
    :param write_timeout: after which a peer that takes no bytes counts as lost; default 30
    :param heartbeat_interval: between nsqd's heartbeats, 1 or more; -1 for none, but then nsqd refuses SUB;
        default 30
    :param sample_rate: percentage of the messages to receive, 0 to 99; nsqd discards the rest; 0 receives all
    :param output_buffer_size: of nsqd for this connection, 64 to 65536, -1 for none; None takes nsqd's 16384
    :param output_buffer_timeout: how long nsqd may hold back output, 0.025 to 30, -1 for no timer;
        None takes nsqd's 0.25
    :param msg_timeout: after which nsqd requeues an unanswered message, 1 to 900; None takes nsqd's (60)
    :param max_frame_size: the largest frame taken from nsqd; default 16 MiB
    :raises InvalidOption: for a value outside its range
    """

    client_id: str = field(default_factory=lambda: socket.gethostname().partition(".")[0])
    hostname: str = field(default_factory=socket.gethostname)
    user_agent: str = field(default_factory=default_user_agent)
    dial_timeout: float = 5.0
    handshake_timeout: float = 10.0
    write_timeout: float = 30.0
    heartbeat_interval: float = 30.0
    sample_rate: int = 0
    output_buffer_size: int | None = None
    output_buffer_timeout: float | None = None
    msg_timeout: float | None = None
    max_frame_size: int = 16 * 1024 * 1024

    def __post_init__(self) -> None:
        for name in ("client_id", "hostname", "user_agent"):
            if not isinstance(getattr(self, name), str):
                raise InvalidOption(f"{name}={getattr(self, name)!r} is not valid: use a string")
        check_seconds("dial_timeout", self.dial_timeout, 0.001)
        check_seconds("handshake_timeout", self.handshake_timeout, 0.001)
        check_seconds("write_timeout", self.write_timeout, 0.001)
        check_seconds("heartbeat_interval", self.heartbeat_interval, 1, special=(-1,))
        check_integer("sample_rate", self.sample_rate, 0, 99)
        check_integer("output_buffer_size", self.output_buffer_size, 64, special=(-1, None))
        check_seconds("output_buffer_timeout", self.output_buffer_timeout, 0.001, special=(-1, None))
        check_seconds("msg_timeout", self.msg_timeout, 1, special=(None,))
        check_integer("max_frame_size", self.max_frame_size, 64, 2**31 - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions:
    """How a consumer discovers, reconnects, retries and stops.

    :param lookupd_poll_interval: between polls of all nsqlookupds, 0.01 or more; default 60
    :param lookupd_poll_jitter: the part of the interval by which each poll is spread, 0 to 1; default 0.3
    :param lookupd_poll_timeout: for one nsqlookupd's answer; default 10
    :param reconnect_delay: before the first attempt to reach a static nsqd again, then doubled; default 0.5
    :param max_reconnect_delay: bound of that delay; default 60
    :param max_attempts: deliveries after which a message is given up, 0 to 65535, 0 for no limit; default 5
    :param requeue_delay: per attempt, when a handler names no delay; default 90
    :param max_requeue_delay: bound of that delay, 0 to 3600 (nsqd's default bound); default 900
    :param rdy_policy: ``lend`` lets busy connections have what idle ones would not use, ``even`` gives each
        the same; default ``lend``
    :param lend_after: without a message, after which a connection counts as idle for that; default 1
    :param rdy_redistribute_interval: between looks at the RDY distribution; default 1
    :param low_rdy_idle_timeout: without a message, after which a connection passes its turn on when
        connections outnumber max_in_flight; default 10
    :param low_rdy_timeout: after which a connection passes its turn on in any case then; default 30
    :param prune_after_polls: polls in which no nsqlookupd lists an nsqd, after which its connection is
        drained and closed, 0 or more; default 0, never
    :param cancel_at_deadline: whether a handler of ``run`` is cancelled when its message times out, since
        nsqd gives it to another consumer then; default True
    :param backoff_strategy: seconds to wait at each level of backoff: ``exponential``, ``full_jitter``, or a
        function of the level (1 or more); default ``exponential``: ``backoff_multiplier`` times 2, 4, 8, ...
    :param backoff_multiplier: for the first two, 0.001 or more; default 1
    :param max_backoff_duration: bound of a wait, 0 switches backoff off; default 120
    :param backoff_on_timeout: whether a message that times out counts as a failure; default False
    :param backoff_on_refused_answer: whether an answer that nsqd refuses (E_FIN_FAILED, E_REQ_FAILED) counts
        as a failure; default False
    :param drain_timeout: for running handlers to finish when the block ends; default 30
    :param cancelled_drain_timeout: the same when the block is cancelled; default 1
    :param close_timeout: for nsqd to confirm the answers given while draining; default 2
    :raises InvalidOption: for a value outside its range
    """

    lookupd_poll_interval: float = 60.0
    lookupd_poll_jitter: float = 0.3
    lookupd_poll_timeout: float = 10.0
    reconnect_delay: float = 0.5
    max_reconnect_delay: float = 60.0
    max_attempts: int = 5
    requeue_delay: float = 90.0
    max_requeue_delay: float = 900.0
    rdy_policy: Literal["lend", "even"] = "lend"
    lend_after: float = 1.0
    rdy_redistribute_interval: float = 1.0
    low_rdy_idle_timeout: float = 10.0
    low_rdy_timeout: float = 30.0
    prune_after_polls: int = 0
    cancel_at_deadline: bool = True
    backoff_strategy: Literal["exponential", "full_jitter"] | Callable[[int], float] = "exponential"
    backoff_multiplier: float = 1.0
    max_backoff_duration: float = 120.0
    backoff_on_timeout: bool = False
    backoff_on_refused_answer: bool = False
    drain_timeout: float = 30.0
    cancelled_drain_timeout: float = 1.0
    close_timeout: float = 2.0

    def __post_init__(self) -> None:
        check_seconds("lookupd_poll_interval", self.lookupd_poll_interval, 0.01)
        check_seconds("lookupd_poll_jitter", self.lookupd_poll_jitter, 0, 1)
        check_seconds("lookupd_poll_timeout", self.lookupd_poll_timeout, 0.001)
        check_seconds("reconnect_delay", self.reconnect_delay, 0.001)
        check_seconds("max_reconnect_delay", self.max_reconnect_delay, self.reconnect_delay)
        check_integer("max_attempts", self.max_attempts, 0, 65535)
        check_seconds("requeue_delay", self.requeue_delay, 0)
        check_seconds("max_requeue_delay", self.max_requeue_delay, 0, 3600)
        if self.rdy_policy not in ("lend", "even"):
            raise InvalidOption(f"rdy_policy={self.rdy_policy!r} is not valid: use 'lend' or 'even'")
        check_seconds("lend_after", self.lend_after, 0.001)
        check_seconds("rdy_redistribute_interval", self.rdy_redistribute_interval, 0.001, 5)
        check_seconds("low_rdy_idle_timeout", self.low_rdy_idle_timeout, 0.01)
        check_seconds("low_rdy_timeout", self.low_rdy_timeout, 0.01)
        check_integer("prune_after_polls", self.prune_after_polls, 0)
        if self.backoff_strategy not in ("exponential", "full_jitter") and not callable(
            self.backoff_strategy
        ):
            raise InvalidOption(
                f"backoff_strategy={self.backoff_strategy!r} is not valid: use 'exponential', 'full_jitter' "
                "or a function from a level to seconds"
            )
        check_seconds("backoff_multiplier", self.backoff_multiplier, 0.001)
        check_seconds("max_backoff_duration", self.max_backoff_duration, 0)
        for name in ("cancel_at_deadline", "backoff_on_timeout", "backoff_on_refused_answer"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidOption(f"{name}={getattr(self, name)!r} is not valid: use True or False")
        check_seconds("drain_timeout", self.drain_timeout, 0)
        check_seconds("cancelled_drain_timeout", self.cancelled_drain_timeout, 0)
        check_seconds("close_timeout", self.close_timeout, 0.001)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOptions:
    """How a producer connects, bounds what is outstanding, and stops.

    :param connect_timeout: how long a publish waits for a connection before `NotSent`; default 10
    :param publish_timeout: from queueing a publish to nsqd's answer; default 60
    :param reconnect_delay: before the first attempt to reach an nsqd again, then doubled; default 0.1
    :param max_reconnect_delay: bound of that delay; default 10
    :param max_outstanding: publishes of one connection that wait for their answer, 1 or more; more wait
        for a place; default 10000
    :param max_outstanding_bytes: their bodies in sum, 1 or more; default 64 MiB
    :param max_msg_size: the largest body that is sent (nsqd: --max-msg-size); default 1 MiB
    :param max_body_size: the largest publish_many (nsqd: --max-body-size); default 5 MiB
    :param max_defer: the longest defer (nsqd: --max-req-timeout); default 3600
    :param drain_timeout: for outstanding answers when the block ends; default 10
    :param cancelled_drain_timeout: the same when the block is cancelled; default 1
    :raises InvalidOption: for a value outside its range
    """

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
