"""How long the plan of a batch takes where there are many nsqds with many topics."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.request import urlopen

from pyspark.sql.streaming.datasource import ReadAllAvailable

from nsq_anyio.spark.options import read_options
from nsq_anyio.spark.stream_reader import NsqStreamReader

from ..dashboard.answers import Cluster
from ..dashboard.process import running_server

_CHANNEL = "consumer-1"


@dataclass(frozen=True, slots=True)
class Planned:
    """How plans were made, one after the other.

    :ivar partitions: of each plan
    :ivar seconds: the time of each, the first of which opens the connections
    :ivar cpu_seconds: what this process used for each
    :ivar asked: the parameters of each request for /stats, by nsqd
    """

    partitions: int
    seconds: tuple[float, ...]
    cpu_seconds: tuple[float, ...]
    asked: tuple[tuple[dict[str, list[str]], ...], ...]


def plan_over(cluster: Cluster, directory: Path, *, triggers: int) -> Planned:
    """Plan the same batch some times, over nsqds in another process that all have its topic."""
    topic = cluster.topics_of(0)[0]
    task = {"cluster": asdict(cluster), "nsqds": list(range(cluster.nsqds))}
    with running_server(task) as ports:
        options = {
            "nsqd": ",".join(f"127.0.0.1:{port}" for port in ports),
            "nsqdHttp": ",".join(f"http://127.0.0.1:{port}" for port in ports),
            "topic": topic,
            "channel": _CHANNEL,
            "spoolDir": str(directory),
        }
        reader = NsqStreamReader(read_options(options))
        start = reader.initialOffset()
        planned: list[int] = []
        seconds: list[float] = []
        cpu_seconds: list[float] = []
        for _ in range(triggers):
            began_at, used = time.perf_counter(), time.process_time()
            end = reader.latestOffset(start, ReadAllAvailable())
            seconds.append(time.perf_counter() - began_at)
            cpu_seconds.append(time.process_time() - used)
            planned.append(len(reader.partitions(start, end)))
        reader.stop()
        asked = tuple(tuple(_asked(port)) for port in ports)
    (partitions,) = set(planned)
    return Planned(partitions, tuple(seconds), tuple(cpu_seconds), asked)


def _asked(port: int) -> Sequence[dict[str, list[str]]]:
    with urlopen(f"http://127.0.0.1:{port}/asked") as reply:
        found: Sequence[dict[str, list[str]]] = json.load(reply)
    return found
