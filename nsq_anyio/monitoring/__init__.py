"""Watches a cluster: surveys it again and again, and computes rates.

::

    figures         rates and sums
    meter           computes them from two surveys
    registrations   what nsqlookupds lack, and for how long
    view            what one survey comes to
    pace            how often to poll
    poller          the surveys, and the last view
    ring            means over equal steps of time
    history         the series of each topic and channel
    history_file    keeps them over a restart
    watch           a poller with history
    trend           how a topic or a channel fared lately
    health          what is stuck, by `server_health` and `topic_health`, each a `Problem` in words
"""

from __future__ import annotations

from .health import Problem, problems
from .history import History, Series
from .history_file import HistoryFile, HistoryFileUnusable, history_kept
from .meter import Meter
from .poller import Poller, Surveyed
from .snapshot import Counts, Figures, Rates, View
from .trend import Trend, TrendOf, trend
from .watch import Watch

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
    "Surveyed",
    "Trend",
    "TrendOf",
    "View",
    "Watch",
    "history_kept",
    "problems",
    "trend",
]
