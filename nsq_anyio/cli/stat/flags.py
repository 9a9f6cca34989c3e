"""The flags of ``nsq-anyio stat``."""

from __future__ import annotations

from ..command import quiet_command_flags
from ..flags.cluster import ClusterFlags, timed_cluster_flags
from ..flags.fields import Flags, flag, shared, switch
from ..flags.kinds import Integer, positive_duration
from ..flags.names import complete_channel, complete_topic


class StatFlags(Flags):
    """The flags of ``nsq-anyio stat``."""

    topic: str | None = flag("Show only this topic.", shell_complete=complete_topic)
    channel: str | None = flag("Show only this channel of --topic.", shell_complete=complete_channel)
    interval: float = flag("The time between polls.", type=positive_duration, default="2s")
    count: int | None = flag("Exit after this many reports with rates.", type=Integer(min=1))
    json_lines: bool = switch("Print a line of JSON per poll.", "--json")
    cluster: ClusterFlags = shared(timed_cluster_flags)
    backend: str = shared(quiet_command_flags)
