"""The options of the embedded nsqlookupd, named and defaulted like nsqlookupd's flags.

A separate module, because a module that declares options cannot postpone its annotations.
"""

from dataclasses import dataclass
from typing import Annotated

from ...options.declaration import check, documented
from ...options.kinds import Seconds


@documented
@dataclass(frozen=True, slots=True, kw_only=True)
class NsqlookupdOptions:
    """The times for which nsqlookupd lists a silent nsqd, and hides a tombstoned one.

    :raises InvalidOption: for a value outside its range
    """

    inactive_producer_timeout: Annotated[float, Seconds(low=0)] = 300.0
    """The time without a PING after which an nsqd is not listed (seconds: 0 or more; default 300)."""
    tombstone_lifetime: Annotated[float, Seconds(low=0)] = 45.0
    """The time for which a tombstoned nsqd is not listed (seconds: 0 or more; default 45)."""

    def __post_init__(self) -> None:
        check(self)
