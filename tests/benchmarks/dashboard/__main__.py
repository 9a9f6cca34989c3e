"""Measure the dashboard on a large cluster: ``python -m tests.benchmarks.dashboard``.

Only the process of the dashboard is measured. Recorded answers stand for the nsqds; they come from other
processes, which share the machine, so CPU seconds say more than times.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console

from ..surroundings import ROOT
from .answers import Cluster
from .process import running_server, usage
from .viewers import Looked, look_at

_LISTENING = re.compile(r"listening on (\S+)")
_WARM_UP = 2


@contextmanager
def _dashboard(arguments: argparse.Namespace, lookups: Sequence[int]) -> Generator[tuple[int, str]]:
    command = [arguments.python, "-m", "nsq_anyio", "admin", "--http-address=127.0.0.1:0"]
    command += [f"--backend={arguments.backend}", *arguments.flag]
    command += [f"--lookupd-http-address=127.0.0.1:{port}" for port in lookups]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if found := _LISTENING.search(line):
                    break
            else:
                sys.exit("the dashboard did not start")
            yield process.pid, f"http://{found[1]}"
        finally:
            process.terminate()


def _measure(cluster: Cluster, arguments: argparse.Namespace) -> dict[str, Any]:
    shares = [
        list(range(cluster.nsqds))[first :: arguments.processes] for first in range(arguments.processes)
    ]
    with ExitStack() as stack:
        ports: dict[int, int] = {}
        for share in shares:
            opened = stack.enter_context(running_server({"cluster": asdict(cluster), "nsqds": share}))
            ports.update(zip(share, opened, strict=True))
        by_number = [ports[number] for number in range(cluster.nsqds)]
        first_ports = [ports[share[0]] for share in shares]
        lookups = stack.enter_context(
            running_server(
                {"cluster": asdict(cluster), "nsqlookupds": arguments.nsqlookupds, "ports": by_number}
            )
        )
        pid, url = stack.enter_context(_dashboard(arguments, lookups))
        return asyncio.run(_watch(pid, url, first_ports, arguments))


async def _watch(pid: int, url: str, ports: Sequence[int], arguments: argparse.Namespace) -> dict[str, Any]:
    await look_at(url, 1, _WARM_UP, Looked())
    before, began = usage(pid), asyncio.get_running_loop().time()
    looked = Looked()
    delays: list[float] = []
    page_delays: list[float] = []
    viewers = asyncio.create_task(look_at(url, arguments.viewers, arguments.polls + 1, looked))
    seen = 0
    async with httpx.AsyncClient(trust_env=False) as client:
        while not viewers.done():
            await asyncio.wait([viewers], timeout=0.5)
            if looked.pages and max(looked.pages) != seen:
                seen = max(looked.pages)
                sent = max([(await client.get(f"http://127.0.0.1:{port}/sent")).json() for port in ports])
                delays.append(looked.events[seen][0] - sent)
                page_delays.append(looked.pages[seen] - sent)
    await viewers
    after, seconds = usage(pid), asyncio.get_running_loop().time() - began
    cpu = after.cpu_seconds - before.cpu_seconds
    polls = max(max(looked.events) - min(looked.events), 1)
    return {
        "cpu_percent": 100 * cpu / seconds,
        "cpu_seconds_per_poll": cpu / polls,
        "interval": seconds / polls,
        "event_after_last_answer": _spread(delays[1:]),  # the first is of a poll before anybody looked
        "page_after_last_answer": _spread(page_delays[1:]),
        "overview_bytes": max(looked.sizes),
        "rss_mib": after.rss,
        "peak_rss_mib": after.peak_rss,
        "errors": max(event["errors"] for _, event in looked.events.values()),
    }


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"lowest": min(values), "median": statistics.median(values), "highest": max(values)}


def main() -> None:
    arguments = _parser().parse_args()
    console = Console()
    if arguments.nice:
        try:
            os.setpriority(os.PRIO_PROCESS, 0, -arguments.nice)
        except PermissionError:
            console.print(f"a priority of -{arguments.nice} is not permitted: running without it")
    results: list[dict[str, Any]] = []
    about = {"python": sys.version, "backend": arguments.backend, "viewers": arguments.viewers}
    base = Cluster(
        nsqds=arguments.nsqds, topics=arguments.topics, channels=arguments.channels, clients=arguments.clients
    )
    for spread in arguments.spread or (min(8, base.nsqds), base.nsqds):
        for active in arguments.active or (0.0, 0.1, 1.0):
            cluster = replace(base, spread=spread, active=active)
            result = {"cluster": asdict(cluster), **_measure(cluster, arguments)}
            results.append(result)
            console.print(_line(result), soft_wrap=True, highlight=False)
            if arguments.json:
                arguments.json.write_text(json.dumps({**about, "results": results}, indent=1) + "\n")


def _line(result: dict[str, Any]) -> str:
    cluster = result["cluster"]
    return (
        f"topics on {cluster['spread']:2} nsqds each, {cluster['active']:4.0%} active: "
        f"{result['cpu_percent']:5.1f} % of a core, {result['cpu_seconds_per_poll']:.3f} s a poll, "
        f"every {result['interval']:.1f} s; after the last answer: "
        f"event {_range(result['event_after_last_answer'])}, "
        f"all pages {_range(result['page_after_last_answer'])}; "
        f"overview {result['overview_bytes'] / 1000:.0f} kB; "
        f"{result['rss_mib']:.0f} MiB, at most {result['peak_rss_mib']:.0f}; {result['errors']} errors"
    )


def _range(spread: dict[str, float]) -> str:
    return f"{spread['median']:.2f} s ({spread['lowest']:.2f} to {spread['highest']:.2f})"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.dashboard", description=__doc__)
    parser.add_argument("--nsqds", type=int, default=80)
    parser.add_argument("--topics", type=int, default=1000, help="in the whole cluster")
    parser.add_argument("--channels", type=int, default=2, help="of each topic")
    parser.add_argument("--clients", type=int, default=600, help="of each nsqd")
    parser.add_argument("--nsqlookupds", type=int, default=2)
    parser.add_argument(
        "--spread", type=int, action="append", help="nsqds with each topic; default: 8, and all"
    )
    parser.add_argument(
        "--active", type=float, action="append", help="share of busy topics; default: 0, 0.1, 1"
    )
    parser.add_argument("--viewers", type=int, default=10)
    parser.add_argument("--polls", type=int, default=12, help="that are measured")
    parser.add_argument("--processes", type=int, default=8, help="that answer for the nsqds")
    parser.add_argument("--backend", default="asyncio", choices=("asyncio", "uvloop", "trio"))
    parser.add_argument("--python", default=sys.executable, help="what is measured; default: this Python")
    parser.add_argument("--flag", action="append", default=[], help="a further flag of nsq-anyio admin")
    parser.add_argument("--nice", type=int, default=5, help="raise the priority by this, if permitted")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    return parser


if __name__ == "__main__":
    main()
