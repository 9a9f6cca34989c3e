"""What is measured: a table of workloads."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from .clients.task import Kind, Style

_BUFFERED = 200
"""More messages of 100 bytes than nsqd's output buffer of 16 KiB holds."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure of a workload.

    :ivar key: its name among a sample's values
    :ivar better: which way it should go
    """

    key: str
    title: str
    unit: str
    better: Literal["higher", "lower"]


CPU = Metric("cpu_us", "CPU", "µs", "lower")
"""Of the client, a message."""
RATE = Metric("rate", "", "msg/s", "higher")
P50 = Metric("p50", "p50", "ms", "lower")
P99 = Metric("p99", "p99", "ms", "lower")
P999 = Metric("p99.9", "p99.9", "ms", "lower")
IDLE_CPU = Metric("cpu_percent", "CPU", "% of a core", "lower")
GROWTH = Metric("rss_growth", "growth of peak RSS", "MiB", "lower")
LOADING = Metric("loading", "import", "ms", "lower")
FIRST = Metric("first_message", "first message", "ms", "lower")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One thing to do, in the same way by each contender. Most fields are those of `Task`.

    :ivar metrics: its figures; the first is what the contenders are compared by
    :ivar main: whether it is measured with all pinnings, and with the codec
    :ivar peers: whether the other Python clients take part, beside this package, go-nsq and the bare socket
    :ivar reference: the contender that the others are compared with
    :ivar shortest: messages that a quick run keeps at least
    """

    name: str
    title: str
    kind: Kind = "consume"
    metrics: tuple[Metric, ...] = (RATE,)
    main: bool = False
    peers: bool = False
    reference: str = "go-nsq"
    warm_up: int = 1
    timed: int = 1_000_000
    shortest: int = 10_000
    size: int = 100
    max_in_flight: int = 2500
    style: Style = "iterate"
    concurrency: int = 1
    batch: int = 1
    coalesce: bool = False
    rate: int = 0
    connections: int = 0
    tls: bool = False
    compression: Literal["", "snappy", "deflate"] = ""
    output_buffer_size: int = 0
    nsqds: int = 1

    @property
    def surplus(self) -> int:
        """Messages after the clock has stopped."""
        if self.kind not in {"consume", "to-http"}:
            return 0
        # More than nsqd sends ahead: it never waits while the clock runs.
        ahead = 2 * self.max_in_flight + _BUFFERED
        # Several nsqds do not run dry at the same moment.
        return ahead if self.nsqds == 1 else ahead + self.timed // 4

    @property
    def needs(self) -> frozenset[str]:
        """What a contender must be able to do."""
        found: set[str] = {self.kind}
        if self.batch > 1:
            found.add("publish_many")
        if self.tls:
            found.add("tls")
        if self.compression:
            found.add(self.compression)
        if self.nsqds > 1:
            found.add("many_nsqds")
        return frozenset(found)

    def quick(self) -> Workload:
        """Return the same with a twentieth of the messages: to try it, not to cite it."""
        timed = max(self.timed // 20, min(self.timed, self.shortest))
        return dataclasses.replace(self, timed=timed, warm_up=max(self.warm_up // 20, min(self.warm_up, 100)))


def _consume() -> list[Workload]:
    rdy = [
        Workload(
            name=f"iterate-rdy-{rdy}",
            title=f"iterate and finish, RDY {rdy}",
            max_in_flight=rdy,
            timed=timed,
            main=True,
            peers=rdy != 200,
        )
        for rdy, timed in ((2500, 500_000), (200, 400_000), (10, 100_000), (1, 20_000))
    ]
    handlers = [
        Workload(
            name=f"run-{concurrency}-rdy-{rdy}",
            title=f"run(handler, concurrency={concurrency}), RDY {rdy}",
            style="handler",
            concurrency=concurrency,
            max_in_flight=rdy,
            timed=timed,
            main=rdy == 10,
            peers=rdy == 10,
        )
        for concurrency, rdy, timed in (
            (10, 10, 100_000),
            (100, 2500, 1_000_000),
            (100, 200, 800_000),
            (1, 1, 30_000),
        )
    ]
    block = Workload(name="block-rdy-2500", title="async with message, RDY 2500", style="block")
    sizes = [
        Workload(name="iterate-1k", title="bodies of 1 KiB, RDY 2500", size=1024, timed=500_000),
        Workload(name="iterate-16k", title="bodies of 16 KiB, RDY 2500", size=16 * 1024, timed=50_000),
    ]
    return [*rdy, *handlers, block, *sizes]


def _publish() -> list[Workload]:
    one = Workload(
        name="publish-1",
        title="publish, 1 task",
        kind="publish",
        warm_up=100,
        timed=20_000,
        main=True,
        peers=True,
    )
    hundred = dataclasses.replace(
        one, name="publish-100", title="publish, 100 tasks", concurrency=100, timed=100_000
    )
    return [
        one,
        hundred,
        dataclasses.replace(
            hundred,
            name="publish-pipelined",
            title="publish, 2,000 tasks: a full pipeline",
            concurrency=2000,
            peers=False,
        ),
        dataclasses.replace(
            hundred,
            name="publish-coalesced",
            title="publish, 100 tasks, coalesced",
            timed=200_000,
            coalesce=True,
            peers=False,
        ),
        dataclasses.replace(
            one, name="publish-many", title="publish_many of 100", batch=100, timed=1_000_000
        ),
    ]


def _wire() -> list[Workload]:
    return [
        Workload(name="tls", title="consume over TLS", tls=True),
        Workload(name="snappy", title="consume, snappy", compression="snappy"),
        Workload(name="deflate", title="consume, deflate", compression="deflate", timed=500_000),
        Workload(name="tls-snappy", title="consume over TLS, snappy", tls=True, compression="snappy"),
    ]


def _latency() -> list[Workload]:
    # With nsqd's buffer its flush is what is measured, every 250 ms, or 25 ms for this client: whoever wants
    # low latency turns it off, or has an RDY of 1, at which nsqd flushes each message.
    unbuffered = Workload(
        name="latency",
        title="publisher to consumer at 1,000 msg/s, output_buffer_size=-1",
        kind="latency",
        metrics=(P99, P50, P999),
        main=True,
        warm_up=500,
        timed=8_000,
        shortest=2_000,
        rate=1_000,
        max_in_flight=200,
        output_buffer_size=-1,
    )
    return [
        unbuffered,
        dataclasses.replace(
            unbuffered,
            name="latency-rdy-1",
            title="publisher to consumer at 1,000 msg/s, RDY 1",
            max_in_flight=1,
            output_buffer_size=0,
        ),
        dataclasses.replace(
            unbuffered,
            name="latency-buffered",
            title="publisher to consumer at 1,000 msg/s, RDY 200",
            main=False,
            output_buffer_size=0,
        ),
    ]


def _commands() -> list[Workload]:
    return [
        Workload(
            name="to-http",
            title="to-http, 100 requests at once",
            kind="to-http",
            main=True,
            reference="nsq_to_http",
            warm_up=1_000,
            timed=10_000,
            shortest=1_000,
            concurrency=100,
            max_in_flight=200,
        )
    ]


def _resources() -> list[Workload]:
    return [
        Workload(
            name="start",
            title="a first message, from the start of the process",
            metrics=(FIRST, LOADING),
            main=True,
            timed=100,
            shortest=100,
            max_in_flight=1,
        ),
        Workload(name="nsqds-5", title="5 nsqds, RDY 2500 in all", nsqds=5),
        Workload(name="nsqds-50", title="50 nsqds, RDY 2500 in all", nsqds=50),
        Workload(
            name="idle",
            title="200 idle connections",
            kind="idle",
            metrics=(IDLE_CPU,),
            timed=60_000,
            shortest=3_000,
            connections=200,
        ),
        Workload(
            name="memory",
            title="5,000,000 messages, after the first 500,000",
            metrics=(GROWTH,),
            warm_up=500_000,
            timed=4_500_000,
        ),
    ]


WORKLOADS: tuple[Workload, ...] = (
    *_consume(),
    *_publish(),
    *_latency(),
    *_commands(),
    *_resources(),
    *_wire(),
)

SHOWN = {
    "iterate-rdy-1": "consume one at a time (`max_in_flight=1`)",
    "iterate-rdy-10": "consume with `max_in_flight=10`",
    "run-10-rdy-10": "`run(handler, concurrency=10)` with `max_in_flight=10`",
    "iterate-rdy-2500": "consume with `max_in_flight=2500`",
    "publish-1": "publish by one task",
    "publish-100": "publish by 100 tasks",
    "publish-coalesced": "publish by 100 tasks with `coalesce`",
    "publish-many": "`publish_many` of 100",
}
"""What the page for users shows, and what it calls that: measured unless others are asked for."""
