"""Monitoring of a cluster: repeated surveys, rates, history, and problems.

::

    snapshot        the result of one poll, with rates and sums
    meter           computes rates and sums from two surveys
    poller          polls the servers, at a bounded cost; with a history, it is a `Watch`
    ring            means over equal steps of time
    history         the series of each topic and channel
    history_file    stores the series, which survive a restart
    trend           the recent trend of a topic or channel
    health          the rules for problems, and their texts

A snapshot is immutable, so threads can read it while the next one is made.
"""

from __future__ import annotations

from .health import Problem, problems, unknown
from .history import History, Series
from .history_file import HistoryFile, HistoryFileUnusable, history_kept
from .meter import Meter
from .poller import Poller, Surveyed, Watch
from .snapshot import Counts, Figures, Rates, Snapshot
from .trend import Trend, TrendOf, trend

__all__ = [
    "Counts",
    "Figures",
    "History",
    "HistoryFile",
    "HistoryFileUnusable",
    "Meter",
    "Poller",
    "Problem",
    "Rates",
    "Series",
    "Snapshot",
    "Surveyed",
    "Trend",
    "TrendOf",
    "Watch",
    "history_kept",
    "problems",
    "trend",
    "unknown",
]
