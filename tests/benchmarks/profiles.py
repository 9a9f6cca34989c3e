"""Where a Python client spends its time: ``python -m tests.benchmarks.profiles iterate-rdy-2500``.

py-spy samples from outside and slows nothing down; cProfile counts every call, and makes calls look dearer
than they are.
"""

from __future__ import annotations

import argparse
import collections
import pstats
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from .contenders import CONTENDERS, OURS, Contender
from .environments import Unavailable
from .interpreter import MeasuredPython
from .measure import prepare_topic, start_command, task_for
from .nsqds import running_nsqds
from .surroundings import ROOT, plain_environment
from .workloads import WORKLOADS, Workload


def main() -> None:
    arguments = _parser().parse_args()
    (contender,) = [found for found in CONTENDERS if found.name == arguments.client]
    (workload,) = [found for found in WORKLOADS if found.name == arguments.workload]
    if not contender.takes_part(workload):
        sys.exit(f"{contender.name} takes no part in {workload.name}")
    try:
        command = contender.prepare(MeasuredPython.ask(sys.executable))
    except Unavailable as error:
        sys.exit(str(error))
    if "-m" not in command:
        sys.exit(f"{contender.name} is no Python program")
    profiler = arguments.profiler or ("py-spy" if shutil.which("py-spy") else "cprofile")
    with tempfile.TemporaryDirectory(prefix="profile-") as directory:
        output = Path(directory, "profile")
        wrapped = _under_py_spy(command, output) if profiler == "py-spy" else _under_cprofile(command, output)
        _run(workload.quick() if arguments.quick else workload, contender, wrapped)
        if profiler == "py-spy":
            _print_samples(output, arguments.top)
        else:
            pstats.Stats(str(output)).strip_dirs().sort_stats("tottime").print_stats(arguments.top)


def _under_py_spy(command: list[str], output: Path) -> list[str]:
    options = ["--rate", "500", "--format", "raw", "--function", "--output", str(output)]
    return ["py-spy", "record", *options, "--", *command]


def _under_cprofile(command: list[str], output: Path) -> list[str]:
    python, *module = command
    return [python, "-m", "cProfile", "-o", str(output), *module]


def _run(workload: Workload, contender: Contender, command: list[str]) -> None:
    with running_nsqds(workload.nsqds, tls=workload.tls) as nsqds:
        task = task_for(workload, contender, nsqds, "profile")
        prepare_topic(task, nsqds)
        done = subprocess.run(
            start_command(command, task),
            cwd=ROOT,
            env=plain_environment(**contender.environment),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
        )
    if done.returncode != 0:
        sys.exit(f"{command[0]} ended with {done.returncode}: {done.stderr.decode(errors='replace')}")


def _print_samples(output: Path, top: int) -> None:
    own: collections.Counter[str] = collections.Counter()
    within: collections.Counter[str] = collections.Counter()
    for line in output.read_text(encoding="utf-8").splitlines():
        stack, _, samples = line.rpartition(" ")
        frames = stack.split(";")
        own[frames[-1] or "(outside of Python)"] += int(samples)
        for frame in set(frames):
            within[frame] += int(samples)
    total = own.total()
    sys.stdout.write("   own  with callees\n")
    for frame, count in own.most_common(top):
        sys.stdout.write(f"{count / total:6.1%} {within[frame] / total:6.1%}  {frame}\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.profiles", description=__doc__)
    parser.add_argument("workload", choices=[workload.name for workload in WORKLOADS])
    parser.add_argument(
        "--client",
        choices=[contender.name for contender in CONTENDERS],
        default=OURS[0].name,
        help="default: %(default)s",
    )
    parser.add_argument(
        "--profiler", choices=["py-spy", "cprofile"], help="default: py-spy if it is installed"
    )
    parser.add_argument("--top", type=int, default=30, help="functions to list; default: %(default)s")
    parser.add_argument("--quick", action="store_true", help="with few messages")
    return parser


if __name__ == "__main__":
    main()
