"""What a measured program is told to do: one JSON object, its last argument."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["consume", "publish", "latency", "idle", "to-http"]
Style = Literal["iterate", "block", "handler"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One piece of work. Programs take from it what their client can do; the Go program reads the same JSON.

    :ivar warm_up: messages before the clock starts, 1 or more
    :ivar timed: messages on the clock; for `idle`, milliseconds
    :ivar surplus: messages after the clock has stopped. nsqd holds the last ones back for up to 250 ms,
        which would be measured without them.
    :ivar style: how messages are taken, for clients that have several ways
    :ivar concurrency: how many tasks handle messages, or publish
    :ivar batch: bodies of one publish; 1 uses the plain publish
    :ivar rate: messages a second, for `latency`
    :ivar connections: for `idle`
    :ivar ca_file: the authority of nsqd's certificate; empty for no TLS
    :ivar output_buffer_size: asked of nsqd; 0 takes its default, -1 is none
    :ivar sink: for `to-http`, the program that serves the requests (`../go_nsq/sink`)
    :ivar server_cores: which cores the sink runs on; none for any
    :ivar limit: seconds after which it is ended
    :ivar started: when the process was started, in nanoseconds since the epoch; 0 if nobody asks
    """

    kind: Kind
    nsqds: list[str]
    topic: str
    channel: str
    warm_up: int = 1
    timed: int
    surplus: int = 0
    size: int = 100
    max_in_flight: int = 1
    style: Style = "iterate"
    concurrency: int = 1
    batch: int = 1
    coalesce: bool = False
    rate: int = 0
    connections: int = 0
    ca_file: str = ""
    compression: Literal["", "snappy", "deflate"] = ""
    output_buffer_size: int = 0
    sink: str = ""
    server_cores: list[int] = field(default_factory=list[int])
    limit: float = 60.0
    started: int = 0

    @property
    def messages(self) -> int:
        """How many there are in all."""
        return self.warm_up + self.timed + self.surplus


def read_task() -> Task:
    """Return the task of this process."""
    fields: dict[str, Any] = json.loads(sys.argv[-1])
    return Task(**fields)
