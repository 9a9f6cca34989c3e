"""The options of a consumer."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ..checks import check_flag, check_integer, check_seconds
from ..errors import InvalidOption
from .tls import TLSOptions, check_tls

__all__ = ["ConsumerOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions:
    """How a consumer discovers, reconnects, retries and stops.

    :param lookupd_poll_interval: between polls of all nsqlookupds, 0.01 or more; default 60
    :param lookupd_poll_jitter: the part of the interval by which each poll is spread, 0 to 1; default 0.3
    :param lookupd_poll_timeout: for one nsqlookupd's answer; default 10
    :param lookupd_tls: how https nsqlookupds are verified, as ``ConnectionOptions.tls``; False and True trust
        the system's authorities; default False
    :param lookupd_authorization: whether nsqlookupds are sent the connection's ``auth_secret``, as
        ``Authorization: Bearer``; default False
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
    lookupd_tls: bool | ssl.SSLContext | TLSOptions = False
    lookupd_authorization: bool = False
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
        check_tls("lookupd_tls", self.lookupd_tls)
        for name in (
            "cancel_at_deadline",
            "backoff_on_timeout",
            "backoff_on_refused_answer",
            "lookupd_authorization",
        ):
            check_flag(name, getattr(self, name))
        check_seconds("drain_timeout", self.drain_timeout, 0)
        check_seconds("cancelled_drain_timeout", self.cancelled_drain_timeout, 0)
        check_seconds("close_timeout", self.close_timeout, 0.001)
