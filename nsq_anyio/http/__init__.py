"""The HTTP sides of nsqd and nsqlookupd: every endpoint, with typed replies."""

from __future__ import annotations

from .client import Client, Profile
from .models import Lookup, NsqdInfo, NsqlookupdInfo, Producer, Registration
from .nsqd import LogLevel, Nsqd
from .nsqlookupd import Nsqlookupd
from .stats import (
    ChannelStats,
    ClientStats,
    Latency,
    MemoryStats,
    Percentile,
    PublishCount,
    Stats,
    TopicStats,
)

__all__ = [
    "ChannelStats",
    "Client",
    "ClientStats",
    "Latency",
    "LogLevel",
    "Lookup",
    "MemoryStats",
    "Nsqd",
    "NsqdInfo",
    "Nsqlookupd",
    "NsqlookupdInfo",
    "Percentile",
    "Producer",
    "Profile",
    "PublishCount",
    "Registration",
    "Stats",
    "TopicStats",
]
