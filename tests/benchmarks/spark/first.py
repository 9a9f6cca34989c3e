"""How long the first batch of a new session takes: run as a program, in a session of its own.

It prints JSON: see `First`.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from nsq_anyio.spark import session

from .bare import BareSource

_SETTLING = 5.0
"""Seconds for Java to end what it does after a batch, such as compiling."""


@dataclass(frozen=True, slots=True)
class First:
    """A query, from its definition to the end of its first batch with rows.

    :ivar seconds: the whole time
    :ivar batch_ms: what Spark says of the batch itself
    :ivar cpu_seconds: what the processes of Spark used, by what they are, since they began
    :ivar idle_share: the share of a core that they used afterwards, without messages, by what they are
    """

    seconds: float
    batch_ms: dict[str, int]
    cpu_seconds: dict[str, float]
    idle_share: dict[str, float]


def _query(
    spark: SparkSession, source: str, options: dict[str, str], directory: Path, idle: float = 0.0
) -> First:
    began_at = time.monotonic()
    query = (
        spark.readStream.format(source)
        .options(**options)
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .start()
    )
    try:
        while not (batches := [each for each in query.recentProgress if each.numInputRows]):
            if error := query.exception():
                raise error
            time.sleep(0.01)
        seconds = time.monotonic() - began_at
        used = _cpu_seconds()
        return First(seconds, dict(batches[0].durationMs), used, _share(idle) if idle else {})
    finally:
        query.stop()


def _share(seconds: float) -> dict[str, float]:
    time.sleep(_SETTLING)
    before = _cpu_seconds()
    time.sleep(seconds)
    after = _cpu_seconds()
    return {name: (after[name] - before[name]) / seconds for name in before.keys() & after.keys()}


def _cpu_seconds() -> dict[str, float]:
    """Return what the descendants of this process have used, by the module that each Python runs, or java."""
    found: dict[str, float] = {}
    ours = {os.getpid()}
    for pid, parent, name, seconds in sorted(_processes()):
        if parent in ours:
            ours.add(pid)
            found[name] = found.get(name, 0.0) + seconds
    return found


def _processes() -> list[tuple[int, int, str, float]]:
    found: list[tuple[int, int, str, float]] = []
    for path in Path("/proc").iterdir():
        if not path.name.isdecimal():
            continue
        try:
            arguments = (path / "cmdline").read_text().split("\0")
            fields = (path / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        modules = [each for each in arguments if each.startswith("pyspark.")]
        name = modules[-1] if modules else Path(arguments[0]).name
        seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        found.append((int(path.name), int(fields[1]), name, seconds))
    return found


def main(options: dict[str, str] | None, runs: int, idle: float) -> dict[str, Any]:
    """Start a session, and run a query that reads the same topic some times.

    :param options: of the query; None for a query of `BareSource`
    :param idle: how long the last one waits for more messages, in seconds
    """
    began_at = time.monotonic()
    spark = session("first", master="local[2]", config={"spark.ui.showConsoleProgress": "false"})
    spark.sparkContext.setLogLevel("ERROR")
    started = time.monotonic() - began_at
    queries: list[First] = []
    with tempfile.TemporaryDirectory(prefix="first-") as directory:
        for number in range(runs):
            own = Path(directory, str(number))
            if options is None:
                spark.dataSource.register(BareSource)
                queries.append(_query(spark, "bare", {}, own))
                continue
            mine = {
                **options,
                "channel": f"{options['channel']}{number}",
                "spoolDir": str(own / "spool"),
            }
            is_last = number == runs - 1
            queries.append(_query(spark, "nsq", mine, own, idle if is_last else 0.0))
    spark.stop()
    return {"session": started, "queries": [asdict(each) for each in queries]}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(**json.loads(sys.argv[1]))) + "\n")
