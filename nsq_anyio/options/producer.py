"""The options of a producer."""

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias, get_args

from .checks import check_seconds
from .declaration import check, documented
from .kinds import Choice, Flag, Integer, Seconds
from .lookup import LookupdOptions, LookupdPollInterval

PublishMode: TypeAlias = Literal["round_robin", "least_outstanding", "hostpool", "epsilon_greedy"]
"""How to choose the nsqd for a publish."""


@documented
@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOptions(LookupdOptions):
    """The options of a producer: connections, limits of outstanding messages, and shutdown.

    :raises InvalidOption: for a value outside its range
    """

    mode: Annotated[PublishMode, Choice(choices=get_args(PublishMode))] = "round_robin"
    """How to choose the nsqd for a publish: ``round_robin``, each in turn; ``least_outstanding``, the one
    with the fewest messages awaiting its answer; ``hostpool``, each in turn, but one that failed is left out
    for a growing time; ``epsilon_greedy``, mostly the one that answers fastest, and sometimes another, to
    measure it ('round_robin', 'least_outstanding', 'hostpool' or 'epsilon_greedy'; default 'round_robin').
    """
    # nsqlookupd lists a tombstone for 45 s, so polls that are more frequent miss none.
    lookupd_poll_interval: LookupdPollInterval = 30.0
    """The time between polls of all nsqlookupds; until one lists an nsqd, polls follow each other more
    quickly, at first after 0.1 s (seconds: 0.01 or more; default 30).
    """
    resend_unknown: Annotated[bool, Flag()] = False
    """Whether a message whose answer was lost is published again, and may then be stored twice, instead of
    raising `OutcomeUnknown` (default False).
    """
    coalesce: Annotated[bool, Flag(spark="")] = False
    """Whether `publish` calls to one topic that wait at the same time travel as one MPUB, each with its own
    outcome (default False).
    """
    linger: Annotated[float, Seconds(low=0, high=60, spark="")] = 0.0
    """How long a publish waits for others with ``coalesce``; 0 joins only publishes that already wait
    (seconds: 0 to 60; default 0).
    """
    max_batch_messages: Annotated[int, Integer(low=1, unit="messages", spark="batchRows")] = 500
    """The most messages that ``coalesce`` sends together (messages: 1 or more; default 500)."""
    max_batch_bytes: Annotated[int, Integer(low=1, unit="bytes", spark="batchBytes")] = 1024 * 1024
    """The largest total size of the bodies that ``coalesce`` sends together (bytes: 1 or more; default 1
    MiB).
    """
    connect_timeout: Annotated[float, Seconds(low=0)] = 10.0
    """How long a publish waits for a connection before `NotSent` (seconds: 0 or more; default 10)."""
    publish_timeout: Annotated[float, Seconds(low=0.001)] = 60.0
    """The time from queueing a publish to nsqd's answer (seconds: 0.001 or more; default 60)."""
    reconnect_delay: Annotated[float, Seconds(low=0.001)] = 0.1
    """The delay before the first attempt to reconnect to an nsqd; it doubles with each attempt (seconds:
    0.001 or more; default 0.1).
    """
    max_reconnect_delay: Annotated[float, Seconds(low=0.001)] = 10.0
    """The longest delay between attempts to reconnect, not less than ``reconnect_delay`` (seconds: 0.001 or
    more; default 10).
    """
    max_outstanding: Annotated[int, Integer(low=1, unit="messages", spark="maxInFlight")] = 10_000
    """The most messages that await the answer of one nsqd; further publishes wait (messages: 1 or more;
    default 10000).
    """
    max_outstanding_bytes: Annotated[int, Integer(low=1, unit="bytes")] = 64 * 1024 * 1024
    """The largest total size of the commands that await the answer of one nsqd (bytes: 1 or more; default 64
    MiB).
    """
    max_msg_size: Annotated[int, Integer(low=1, unit="bytes")] = 1024 * 1024
    """The largest body of a message (nsqd: --max-msg-size) (bytes: 1 or more; default 1 MiB)."""
    max_body_size: Annotated[int, Integer(low=1, unit="bytes")] = 5 * 1024 * 1024
    """The largest body of an MPUB (nsqd: --max-body-size) (bytes: 1 or more; default 5 MiB)."""
    max_defer: Annotated[float, Seconds(low=0)] = 3600.0
    """The longest deferral (nsqd: --max-req-timeout) (seconds: 0 or more; default 3600)."""
    drain_timeout: Annotated[float, Seconds(low=0)] = 10.0
    """How long the end of the block waits for outstanding answers (seconds: 0 or more; default 10)."""
    cancelled_drain_timeout: Annotated[float, Seconds(low=0)] = 1.0
    """How long a cancelled block waits for outstanding answers (seconds: 0 or more; default 1)."""

    def __post_init__(self) -> None:
        check(self)
        check_seconds("max_reconnect_delay", self.max_reconnect_delay, self.reconnect_delay)
