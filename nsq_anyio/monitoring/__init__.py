"""Watches a cluster: surveys it again and again, and computes rates.

::

    figures   rates and sums from two surveys
    poller    the surveys, and the last result
"""

from __future__ import annotations

from .figures import Counts, Figures, Meter, Rates
from .poller import Poll, Poller

__all__ = ["Counts", "Figures", "Meter", "Poll", "Poller", "Rates"]
