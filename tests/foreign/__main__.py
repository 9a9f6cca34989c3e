"""``python -m tests.foreign [SUITE ...]``: run suites of other clients on both kinds of servers; compare.

The suites find the programs ``nsqd`` and ``nsqlookupd`` on their path. For the embedded servers these are
scripts that run ``nsq-anyio nsqd`` and ``nsq-anyio nsqlookupd`` with whatever flags they get. Most suites use
NSQ's own ports on 127.0.0.1, which have to be free.

The exit code is 1 if a test passes with the real servers and not with the embedded ones.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

from ..servers import build
from .suites import SUITES, Outcomes, Suite

_KINDS = ("real", "embedded")
_PROGRAMS = ("nsqd", "nsqlookupd")


def _path_with(kind: str, directory: Path) -> str:
    """A search path on which the servers of this kind come first."""
    directory.mkdir()
    for name in _PROGRAMS:
        if kind == "real":
            (directory / name).symlink_to(Path(build.DIRECTORY).resolve() / name)
        else:
            script = directory / name
            # The path in `os.environ` is the one of the suite, on which another python may come first.
            command = shutil.which("nsq-anyio", path=str(Path(sys.executable).parent))
            script.write_text(f'#!/bin/sh\nexec "{command}" {name} "$@"\n')
            script.chmod(0o755)
    return os.pathsep.join([str(directory), os.environ["PATH"]])


def _run(suite: Suite, kind: str) -> Outcomes:
    with tempfile.TemporaryDirectory(prefix=f"{suite.name}-{kind}-") as scratch:
        programs = Path(scratch, "programs")
        work = Path(scratch, "work")
        work.mkdir()
        return suite.run(work, {**os.environ, "PATH": _path_with(kind, programs)})


def _row(suite: Suite, results: dict[str, Outcomes]) -> str:
    counts = [Counter(results[kind].values()) for kind in _KINDS]
    cells = [f"{count['passed']} of {count.total() - count['skipped']}" for count in counts]
    return f"| {suite.name} {suite.version} | {cells[0]} | {cells[1]} |"


def main(names: list[str]) -> int:
    """Run the suites; 1 if the embedded servers fail where the real ones pass."""
    unknown = set(names) - {suite.name for suite in SUITES}
    if unknown:
        print(
            f"no suites {sorted(unknown)}: use {', '.join(suite.name for suite in SUITES)}", file=sys.stderr
        )
        return 2
    cache = Path(".nox/foreign").resolve()
    rows: list[str] = []
    differences: list[str] = []
    is_worse = False
    for suite in SUITES:
        if names and suite.name not in names:
            continue
        suite.fetch(cache)
        results = {kind: _run(suite, kind) for kind in _KINDS}
        rows.append(_row(suite, results))
        for test in sorted(results["real"].keys() | results["embedded"].keys()):
            real, embedded = (results[kind].get(test, "missing") for kind in _KINDS)
            if real != embedded:
                differences.append(
                    f"{suite.name}: {test}: {real} with real servers, {embedded} with embedded"
                )
                is_worse |= real == "passed"
        print(rows[-1], flush=True)
    print("\n| suite | real | embedded |\n|---|---|---|", *rows, "", *differences, sep="\n")
    return int(is_worse)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
