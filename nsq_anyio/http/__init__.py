"""The HTTP APIs of nsqd and nsqlookupd: every endpoint with typed replies, and whole clusters."""

from __future__ import annotations

from .client import Client, Profile
from .cluster import Cluster
from .fan_out import ClusterFailed, ClusterReply
from .headers import Authorization
from .models import Lookup, NsqdInfo, NsqlookupdInfo, Producer, Registration
from .nodes import Node
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
from .survey import NsqdSurvey, NsqlookupdSurvey, Survey
from .totals import Totals

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
    "TopicStats",
    "Totals",
]
