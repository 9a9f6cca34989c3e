"""Measure: ``python -m tests.benchmarks --help``. `nox -s bench` does it with all that is needed."""

from __future__ import annotations

import argparse
import datetime as dt
import fnmatch
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from ..real_servers import RealServerError
from .contenders import CONTENDERS
from .contenders import SHOWN as SHOWN_CLIENTS
from .document import publish
from .driver import Plan, new_session, run_all
from .interpreter import MeasuredPython, Unusable
from .report import print_run
from .results import Run
from .surroundings import PINNINGS, possible_pinnings
from .workloads import SHOWN, WORKLOADS

ROUNDS = 5


def main() -> None:
    arguments = _parser().parse_args()
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    if arguments.list:
        for workload in WORKLOADS:
            console.print(
                f"{workload.name:<18} {'shown' if workload.name in SHOWN else '':<5} {workload.title}"
            )
        for contender in CONTENDERS:
            console.print(f"{contender.name:<34} {'shown' if contender in SHOWN_CLIENTS else ''}")
        return
    run = Run.merged(map(Run.load, arguments.show)) if arguments.show else _measure(arguments, console)
    if arguments.publish:
        publish(run)
    print_run(console, run)
    if any(failure.contender.startswith("nsq-anyio") for failure in run.failures):
        sys.exit("nsq-anyio failed at a workload")


def _measure(arguments: argparse.Namespace, console: Console) -> Run:
    try:
        python = MeasuredPython.ask(arguments.python)
    except Unusable as error:
        sys.exit(str(error))
    console.print(f"measuring on {python.interpreter.description}", highlight=False)
    if python.interpreter.warning:
        console.print(f"[yellow]{python.interpreter.warning}")
    plan = _plan(arguments, python)
    run = _run_to_go_on_with(arguments, plan)

    def save() -> None:
        if arguments.json:
            run.save(arguments.json)

    try:
        run_all(plan, run, console, save)
    except RealServerError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        if arguments.json:
            console.print(f"interrupted: --json {arguments.json} --resume goes on after the last whole round")
        sys.exit(130)
    save()
    return run


def _plan(arguments: argparse.Namespace, python: MeasuredPython) -> Plan:
    date = dt.datetime.now(tz=dt.UTC).date().isoformat()
    chosen = [
        workload
        for workload in WORKLOADS
        if (
            _named(workload.name, arguments.only)
            if arguments.only
            else arguments.all or workload.name in SHOWN
        )
    ]
    contenders = [
        contender
        for contender in CONTENDERS
        if (
            _named(contender.name, arguments.client)
            if arguments.client
            else arguments.all or contender in SHOWN_CLIENTS
        )
    ]
    wanted = [each for each in PINNINGS if not arguments.pinning or each.name in arguments.pinning]
    pinnings = possible_pinnings(wanted)
    if not chosen or not contenders:
        sys.exit("nothing matches: --list shows the names of workloads and clients")
    if not pinnings:
        sys.exit(f"too few cores for any of: {', '.join(pinning.name for pinning in wanted)}")
    return Plan(
        session=arguments.session or f"CPython {python.interpreter.label}, {date}",
        python=python,
        workloads=[workload.quick() for workload in chosen] if arguments.quick else chosen,
        contenders=contenders,
        pinnings=pinnings,
        rounds=arguments.rounds or (1 if arguments.quick else ROUNDS),
    )


def _run_to_go_on_with(arguments: argparse.Namespace, plan: Plan) -> Run:
    """Return what `--resume` has found in the file, with the plan's session; else that session, empty."""
    date = dt.datetime.now(tz=dt.UTC).date().isoformat()
    session = new_session(plan.python, plan.rounds, date)
    path = arguments.json
    if path is None or not path.exists():
        return Run(sessions={plan.session: session})
    if not arguments.resume:
        sys.exit(f"{path} exists: --resume goes on with it")
    run = Run.load(path)
    known = run.sessions.setdefault(plan.session, session)
    if known.interpreter != session.interpreter:
        sys.exit(f"{plan.session!r} in {path} was measured on {known.interpreter.description}")
    return run


def _named(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatch(name, f"*{pattern}*") for pattern in patterns)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few messages, one round: to try, not to cite")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="workloads with this in their name"
    )
    parser.add_argument(
        "--all", action="store_true", help="all workloads and clients, not only those that the page shows"
    )
    parser.add_argument(
        "--client", action="append", default=[], metavar="NAME", help="clients with this in their name"
    )
    parser.add_argument("--rounds", type=int, default=0, help=f"default: {ROUNDS}, and 1 with --quick")
    parser.add_argument(
        "--pinning",
        action="append",
        default=[],
        choices=[pinning.name for pinning in PINNINGS],
        help="which cores client and nsqd have; default: all three",
    )
    parser.add_argument(
        "--python", default=sys.executable, metavar="PATH", help="what is measured; default: this Python"
    )
    parser.add_argument(
        "--session", metavar="NAME", help="of these samples; default: the Python and the date"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there, round by round")
    parser.add_argument("--resume", action="store_true", help="go on with what --json has written")
    parser.add_argument(
        "--publish", action="store_true", help="write docs/performance.*, docs/benchmarks.md and the README"
    )
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
