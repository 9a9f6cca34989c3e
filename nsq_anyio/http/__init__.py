"""The HTTP APIs of nsqd and nsqlookupd: every endpoint with typed replies, and whole clusters."""

from __future__ import annotations

from .client import Authorization, Client, Profile
from .cluster import Cluster
from .models import Lookup, Node, NsqdInfo, NsqlookupdInfo, Producer, Registration
from .nsqd import LogLevel, Nsqd
from .nsqlookupd import Nsqlookupd
from .servers import ClusterFailed, ClusterReply
from .stats import (
    ChannelStats,
    ClientStats,
    Latency,
    MemoryStats,
    Percentile,
    PublishCount,
    Stats,
    TopicStats,
    Totals,
)
from .survey import NsqdSurvey, NsqlookupdSurvey, Survey, Surveyor

__all__ = [
    "Authorization",
    "ChannelStats",
    "Client",
    "ClientStats",
    "Cluster",
    "ClusterFailed",
    "ClusterReply",
    "Latency",
    "LogLevel",
    "Lookup",
    "MemoryStats",
    "Node",
    "Nsqd",
    "NsqdInfo",
    "NsqdSurvey",
    "Nsqlookupd",
    "NsqlookupdInfo",
    "NsqlookupdSurvey",
    "Percentile",
    "Producer",
    "Profile",
    "PublishCount",
    "Registration",
    "Stats",
    "Survey",
    "Surveyor",
    "TopicStats",
    "Totals",
]
