"""Measure: ``python -m tests.benchmarks --help``. `nox -s bench` does it with all that is needed."""

from __future__ import annotations

import argparse
import fnmatch
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from ..real_servers import RealServerError
from .contenders import CONTENDERS
from .driver import run_all
from .markdown import write_markdown
from .plot import draw
from .report import print_run
from .results import Run
from .targets import check
from .workloads import WORKLOADS


def main() -> None:
    arguments = _parser().parse_args()
    console = Console()
    if not console.is_terminal:
        console = Console(width=120)
    if arguments.list:
        for workload in WORKLOADS:
            console.print(f"{workload.name:<18} {workload.title}")
        for contender in CONTENDERS:
            console.print(contender.name)
        return
    run = Run.merged(map(Run.load, arguments.show)) if arguments.show else _measure(arguments, console)
    verdicts = check(run)
    # First what took long to measure is saved.
    if arguments.json:
        run.save(arguments.json, [verdict.as_json() for verdict in verdicts])
    if arguments.svg:
        draw(run, arguments.svg)
    if arguments.markdown:
        write_markdown(run, verdicts, arguments.markdown)
    print_run(console, run, verdicts)
    if any(failure.contender.startswith("nsq-anyio") for failure in run.failures):
        sys.exit("nsq-anyio failed at a workload")


def _measure(arguments: argparse.Namespace, console: Console) -> Run:
    workloads = [workload for workload in WORKLOADS if _named(workload.name, arguments.only)]
    contenders = [contender for contender in CONTENDERS if _named(contender.name, arguments.client)]
    if not workloads or not contenders:
        sys.exit("nothing matches: --list shows the names of workloads and clients")
    try:
        return run_all(
            [workload.quick() for workload in workloads] if arguments.quick else workloads,
            contenders,
            rounds=arguments.rounds or (1 if arguments.quick else 5),
            cores=arguments.cores,
            console=console,
        )
    except RealServerError as error:
        sys.exit(str(error))


def _named(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatch.fnmatch(name, f"*{pattern}*") for pattern in patterns)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few messages, one round: to try, not to cite")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="workloads with this in their name"
    )
    parser.add_argument(
        "--client", action="append", default=[], metavar="NAME", help="clients with this in their name"
    )
    parser.add_argument("--rounds", type=int, default=0, help="default: 5, and 1 with --quick")
    parser.add_argument(
        "--cores", type=int, default=2, help="that all share; 0 for all (default: %(default)s)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw the medians there")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables of the docs there")
    parser.add_argument(
        "--show",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="measure nothing: show what --json wrote; several are put together",
    )
    parser.add_argument("--list", action="store_true", help="name the workloads and the clients")
    return parser


if __name__ == "__main__":
    main()
