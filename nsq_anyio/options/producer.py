"""The options of a producer."""

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias, get_args

from ..checks import check_seconds
from .declaration import check, documented
from .kinds import Choice, Flag, Integer, Seconds
from .lookup import (
    LookupdAuthorization,
    LookupdPollInterval,
    LookupdPollJitter,
    LookupdPollTimeout,
    LookupdTLS,
)

__all__ = ["ProducerOptions", "PublishMode"]

PublishMode: TypeAlias = Literal["round_robin", "least_outstanding", "hostpool", "epsilon_greedy"]
"""How to choose the nsqd for a publish."""


@documented
@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOptions:
    """How a producer connects, limits its outstanding messages, and stops.

    :raises InvalidOption: for a value outside its range
    """

    mode: Annotated[
        PublishMode,
        Choice(
            "how to choose the nsqd for a publish: ``round_robin``, each in turn; ``least_outstanding``, "
            "the one with the fewest messages awaiting its answer; ``hostpool``, each in turn, but one that "
            "failed is left out for a growing time; ``epsilon_greedy``, mostly the one that answers fastest, "
            "and sometimes another, to measure it",
            choices=get_args(PublishMode),
        ),
    ] = "round_robin"
    # nsqlookupd lists a tombstone for 45 s, so polls that are more frequent miss none.
    lookupd_poll_interval: LookupdPollInterval = 30.0
    lookupd_poll_jitter: LookupdPollJitter = 0.3
    lookupd_poll_timeout: LookupdPollTimeout = 10.0
    lookupd_tls: LookupdTLS = False
    lookupd_authorization: LookupdAuthorization = False
    resend_unknown: Annotated[
        bool,
        Flag(
            "whether a message whose answer was lost is published again, and may then be stored twice, "
            "instead of raising `OutcomeUnknown`"
        ),
    ] = False
    coalesce: Annotated[
        bool,
        Flag(
            "whether `publish` calls to one topic that wait at the same time travel as one MPUB, each with "
            "its own outcome",
            spark="",
        ),
    ] = False
    linger: Annotated[
        float,
        Seconds(
            "how long a publish waits for others with ``coalesce``; 0 joins only publishes that already wait",
            low=0,
            high=60,
            spark="",
        ),
    ] = 0.0
    max_batch_messages: Annotated[
        int,
        Integer(
            "the most messages that ``coalesce`` sends together", low=1, unit="messages", spark="batchRows"
        ),
    ] = 500
    max_batch_bytes: Annotated[
        int, Integer("the largest total size of their bodies", low=1, unit="bytes", spark="batchBytes")
    ] = 1024 * 1024
    connect_timeout: Annotated[
        float, Seconds("how long a publish waits for a connection before `NotSent`", low=0)
    ] = 10.0
    publish_timeout: Annotated[
        float, Seconds("the time from queueing a publish to nsqd's answer", low=0.001)
    ] = 60.0
    reconnect_delay: Annotated[
        float,
        Seconds(
            "the delay before the first attempt to reconnect to an nsqd; it doubles with each attempt",
            low=0.001,
        ),
    ] = 0.1
    max_reconnect_delay: Annotated[
        float, Seconds("the longest such delay, not less than ``reconnect_delay``", low=0.001)
    ] = 10.0
    max_outstanding: Annotated[
        int,
        Integer(
            "the most messages that await the answer of one nsqd; further publishes wait",
            low=1,
            unit="messages",
            spark="maxInFlight",
        ),
    ] = 10_000
    max_outstanding_bytes: Annotated[
        int, Integer("the largest total size of their commands", low=1, unit="bytes")
    ] = 64 * 1024 * 1024
    max_msg_size: Annotated[
        int, Integer("the largest body of a message (nsqd: --max-msg-size)", low=1, unit="bytes")
    ] = 1024 * 1024
    max_body_size: Annotated[
        int, Integer("the largest body of an MPUB (nsqd: --max-body-size)", low=1, unit="bytes")
    ] = 5 * 1024 * 1024
    max_defer: Annotated[float, Seconds("the longest deferral (nsqd: --max-req-timeout)", low=0)] = 3600.0
    drain_timeout: Annotated[
        float, Seconds("how long the end of the block waits for outstanding answers", low=0)
    ] = 10.0
    cancelled_drain_timeout: Annotated[float, Seconds("the same when the block is cancelled", low=0)] = 1.0

    def __post_init__(self) -> None:
        check(self)
        check_seconds("max_reconnect_delay", self.max_reconnect_delay, self.reconnect_delay)
