"""The measures of the history, by name."""

from __future__ import annotations

import math
from typing import NamedTuple


class Measures(NamedTuple):
    """What is measured of a channel, a topic or the cluster; see `nsq_anyio.monitoring.history.MEASURES`."""

    depth: float
    in_flight: float
    deferred: float
    ingress: float
    egress: float
    requeued: float
    timed_out: float


NOTHING = Measures(0, 0, 0, math.nan, math.nan, math.nan, math.nan)
"""The measures of what is not there."""
