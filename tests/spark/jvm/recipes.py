"""The programs of docs/spark-recipes.md, which are files of examples/spark, and a topic for them to read."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from anyio.from_thread import start_blocking_portal

from ...real_servers import real_nsqlookupd
from ..nsqds import ROOT, Nsqd, Topic, registered, running_nsqd, wait_until

PROGRAMS = ROOT / "examples" / "spark"

_MAX_RUNS = 3

_parquet: Any = pq  # its stubs know only some of the types


@dataclass(frozen=True, slots=True)
class Clicks:
    """The topic ``clicks`` of the recipes, on an nsqd that an nsqlookupd knows."""

    nsqd: Nsqd
    nsqlookupd: str

    def channel(self, name: str) -> Topic:
        """Make a channel, which gets what is published from now on."""
        return self.nsqd.topic("clicks", name)

    def run(self, program: str, directory: Path) -> None:
        """Run a program in this process, so that it uses the session that the tests share."""
        (directory / "spool").mkdir(exist_ok=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", [program, self.nsqlookupd, str(directory)])
            runpy.run_path(str(PROGRAMS / program), run_name="__main__")

    def run_out(self, topic: Topic, program: str, directory: Path) -> None:
        """Run a program until nothing is left in its channel: a run reads no more than what waits first."""
        for _ in range(_MAX_RUNS):
            self.run(program, directory)
            wait_until(lambda: topic.state().in_flight == 0, "nsqd to take back what was in flight")
            if topic.state().left == 0:
                return
        raise AssertionError(f"{topic.state()} after {_MAX_RUNS} runs")


def column(path: Path, name: str) -> list[Any]:
    """The values of a column in Parquet, without a session."""
    values: list[Any] = _parquet.read_table(path).column(name).to_pylist()
    return values


@contextmanager
def running_clicks() -> Generator[Clicks]:
    """Run the servers for the length of the block."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(real_nsqlookupd()) as lookupd:
        with running_nsqd("real", [f"--lookupd-tcp-address={lookupd.tcp_address}"]) as nsqd:
            nsqd.topic("clicks", "first")
            wait_until(lambda: registered(lookupd.http_url, "clicks"), "nsqd to register the topic")
            yield Clicks(nsqd, lookupd.http_url)
