"""The options of a consumer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias, get_args

from .checks import check_integer, check_seconds
from .declaration import check, documented
from .kinds import SAME, Choice, Flag, Integer, Seconds
from .lookup import LookupdOptions

_MOST_ATTEMPTS = 65_535
"""The most that nsqd counts: it sends attempts as 16 bits."""

_RdyPolicy: TypeAlias = Literal["lend", "even"]
_RequeueStrategy: TypeAlias = Literal["linear", "exponential"]
_BackoffStrategy: TypeAlias = Literal["exponential", "full_jitter"]


@documented
@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions(LookupdOptions):
    """The options of a consumer: discovery, reconnects, retries and shutdown.

    :raises InvalidOption: for a value outside its range
    """

    reconnect_delay: Annotated[float, Seconds(low=0.001)] = 0.5
    """The delay before the first attempt to reconnect to an nsqd; it doubles with each attempt. With
    ``nsqlookupd=``, each attempt follows a poll that still lists the nsqd (seconds: 0.001 or more; default
    0.5).
    """
    max_reconnect_delay: Annotated[float, Seconds(low=0.001)] = 60.0
    """The longest delay between attempts to reconnect, not less than ``reconnect_delay`` (seconds: 0.001 or
    more; default 60).
    """
    max_attempts: Annotated[int, Integer(low=0, high=_MOST_ATTEMPTS, unit="deliveries", go=SAME)] = 5
    """A message whose handling fails is given up if nsqd has delivered it this often; 0 for never
    (deliveries: 0 to 65535; default 5).
    """
    max_deliveries: Annotated[
        int | None,
        Integer(
            low=0,
            high=_MOST_ATTEMPTS,
            special=(None,),
            unit="deliveries",
            default="20 times ``max_attempts``",
        ),
    ] = None
    """A message that nsqd has delivered more often is given up without being handled, since it may end each
    process that handles it; not less than ``max_attempts``; 0 for no limit (deliveries: 0 to 65535 or None;
    default 20 times ``max_attempts``).
    """
    requeue_delay: Annotated[float, Seconds(low=0, go="default_requeue_delay")] = 90.0
    """The delay of a requeue after the first attempt, unless the handler sets one; it grows with each attempt
    (seconds: 0 or more; default 90).
    """
    requeue_strategy: Annotated[_RequeueStrategy, Choice(choices=get_args(_RequeueStrategy))] = "linear"
    """How ``requeue_delay`` grows: ``linear`` multiplies it by the attempts so far, ``exponential`` doubles
    it with each further attempt ('linear' or 'exponential'; default 'linear').
    """
    max_requeue_delay: Annotated[float, Seconds(low=0, high=3600, go=SAME)] = 900.0
    """The longest delay of a requeue; nsqd's own limit is 3600 by default (seconds: 0 to 3600; default 900).
    """
    rdy_policy: Annotated[_RdyPolicy, Choice(choices=get_args(_RdyPolicy))] = "lend"
    """How connections share max_in_flight: ``lend`` lets busy ones use the share of idle ones, ``even`` gives
    each the same ('lend' or 'even'; default 'lend').
    """
    lend_after: Annotated[float, Seconds(low=0.001)] = 1.0
    """The time without a message after which a connection counts as idle for ``lend`` (seconds: 0.001 or
    more; default 1).
    """
    rdy_redistribute_interval: Annotated[float, Seconds(low=0.001, high=5, go=SAME)] = 1.0
    """The time between updates of the RDY distribution (seconds: 0.001 to 5; default 1)."""
    low_rdy_idle_timeout: Annotated[float, Seconds(low=0.01, go=SAME)] = 10.0
    """The time without a message after which a connection passes its turn on, when connections outnumber
    max_in_flight (seconds: 0.01 or more; default 10).
    """
    low_rdy_timeout: Annotated[float, Seconds(low=0.01, go=SAME)] = 30.0
    """The time after which a connection passes its turn on even if it is not idle (seconds: 0.01 or more;
    default 30).
    """
    prune_after_polls: Annotated[int, Integer(low=0, unit="polls")] = 0
    """How many polls in a row must miss an nsqd before its connection is drained and closed; 0 for never
    (polls: 0 or more; default 0).
    """
    cancel_at_deadline: Annotated[bool, Flag()] = True
    """Whether a handler of ``run`` is cancelled when its message times out, since nsqd then gives it to
    another consumer (default True).
    """
    backoff_strategy: Annotated[
        _BackoffStrategy | Callable[[int], float],
        Choice(choices=get_args(_BackoffStrategy), function="a function from a level to seconds", go=SAME),
    ] = "exponential"
    """The time to wait at each level of backoff: ``exponential`` is ``backoff_multiplier`` times 2, 4, 8,
    ...; ``full_jitter`` is a random part of that; a function gets the level, 1 or more ('exponential',
    'full_jitter' or a function from a level to seconds; default 'exponential').
    """
    backoff_multiplier: Annotated[float, Seconds(low=0.001, go=SAME)] = 1.0
    """The time that ``exponential`` and ``full_jitter`` multiply (seconds: 0.001 or more; default 1)."""
    max_backoff_duration: Annotated[float, Seconds(low=0, go=SAME)] = 120.0
    """The longest wait of backoff; 0 switches backoff off (seconds: 0 or more; default 120)."""
    backoff_on_timeout: Annotated[bool, Flag()] = False
    """Whether a message that times out counts as a failure (default False)."""
    backoff_on_refused_answer: Annotated[bool, Flag()] = False
    """Whether an answer that nsqd refuses (E_FIN_FAILED, E_REQ_FAILED) counts as a failure (default False).
    """
    drain_timeout: Annotated[float, Seconds(low=0)] = 30.0
    """After ``stop``, how long the running handlers of ``run`` may go on before they are cancelled; also how
    long a pruned connection waits for answers to its messages (seconds: 0 or more; default 30).
    """
    cancelled_drain_timeout: Annotated[float, Seconds(low=0)] = 1.0
    """After ``run`` is cancelled, how long its running handlers may go on before they are cancelled too
    (seconds: 0 or more; default 1).
    """
    close_timeout: Annotated[float, Seconds(low=0.001)] = 2.0
    """The time for nsqd to confirm the answers that were given while draining (seconds: 0.001 or more;
    default 2).
    """

    def __post_init__(self) -> None:
        check(self)
        check_seconds("max_reconnect_delay", self.max_reconnect_delay, self.reconnect_delay)
        if self.max_deliveries:
            check_integer("max_deliveries", self.max_deliveries, self.max_attempts)

    @property
    def _most_deliveries(self) -> int:
        """The most deliveries of a message before it is given up unhandled."""
        wanted = 20 * self.max_attempts if self.max_deliveries is None else self.max_deliveries
        return min(wanted, _MOST_ATTEMPTS) or _MOST_ATTEMPTS
