"""The Python that the measured programs run on: how it was built, and what it has."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from dataclasses import dataclass
from typing import Any

from .surroundings import ROOT, plain_environment

FACTS = "tests.benchmarks.clients.facts"
DEBIAN = "--with-wheel-pkg-dir=/usr/share/python-wheels/"
"""What Debian alone gives to ``configure``. Its rules pass ``-flto`` and run ``make profile-opt`` by
themselves."""


class Unusable(Exception):
    """The Python cannot run this package; the text says why."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """An interpreter, by what decides how fast it is.

    :ivar version: such as ``3.14.2``
    :ivar pgo: whether it was built with profile-guided optimisation; None where the build does not tell
    :ivar lto: the same of link-time optimisation
    :ivar debug: whether it is a debug build
    :ivar free_threaded: whether it was built to run without the GIL
    :ivar gil: whether the GIL was enabled
    """

    version: str
    implementation: str = "CPython"
    pgo: bool | None = None
    lto: bool | None = None
    debug: bool = False
    free_threaded: bool = False
    gil: bool = True

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> Interpreter:
        """Return what `clients/facts.py` has told of itself."""
        pgo, lto = optimisations(facts["config_args"])
        return cls(
            version=facts["version"],
            implementation=facts["implementation"],
            pgo=pgo,
            lto=lto,
            debug=facts["debug"],
            free_threaded=facts["free_threaded"],
            gil=facts["gil"],
        )

    @property
    def optimised(self) -> bool:
        """Whether it is known to be built as people deploy it."""
        return bool(self.pgo and self.lto) and not self.debug

    @property
    def label(self) -> str:
        """What a column of a table calls it: runs with the same label are put together."""
        release = ".".join(self.version.split(".")[:2]) + ("t" if self.free_threaded else "")
        name = release if self.implementation == "CPython" else f"{self.implementation} {release}"
        return name if self.optimised else f"{name}, not optimised"

    @property
    def description(self) -> str:
        """All that is known, in a line."""
        if self.pgo is None:
            build = "its build does not tell of optimisations"
        else:
            build = f"{'with' if self.pgo else 'without'} PGO, {'with' if self.lto else 'without'} LTO"
        parts = [f"{self.implementation} {self.version}", build]
        if self.debug:
            parts.append("a debug build")
        if self.free_threaded:
            parts.append(f"free-threaded, the GIL {'on' if self.gil else 'off'}")
        return ", ".join(parts)

    @property
    def warning(self) -> str:
        """Why its figures are not to be published; empty if they may be."""
        if self.optimised:
            return ""
        return (
            f"{self.description}: not the optimised build that people deploy, on which a Python client is"
            " faster by a fifth or so. Do not publish these figures."
        )

    @property
    def rank(self) -> tuple[bool, tuple[int, ...]]:
        """Sorts the one that tables show first to the end."""
        return self.optimised, tuple(map(int, re.findall(r"\d+", self.version)))


def optimisations(config_args: str | None) -> tuple[bool | None, bool | None]:
    """Return whether a build has PGO and LTO, from the arguments of its ``configure``; None: not known."""
    if config_args is None:
        return None, None
    given = shlex.split(config_args)
    if DEBIAN in given:
        return True, True
    return _is_on(given, "--enable-optimizations"), _is_on(given, "--with-lto")


def _is_on(given: list[str], flag: str) -> bool:
    found = [argument.partition("=")[2] for argument in given if argument.partition("=")[0] == flag]
    return bool(found) and found[-1] != "no"


@dataclass(frozen=True, slots=True)
class MeasuredPython:
    """A Python that has this package's requirements.

    :ivar packages: the versions of what the clients need, by name; what is not installed is missing
    :ivar has_codec: whether the compiled codec is installed
    """

    path: str
    interpreter: Interpreter
    packages: dict[str, str]
    has_codec: bool = False

    @classmethod
    def ask(cls, path: str) -> MeasuredPython:
        """Run the Python at `path`, and let it tell.

        :raises Unusable: it cannot import this package, or it is no Python
        """
        try:
            done = subprocess.run(
                [path, "-m", FACTS],
                cwd=ROOT,
                env=plain_environment(),
                capture_output=True,
                text=True,
                check=False,
            )
        except OSError as error:
            raise Unusable(f"{path} does not run: {error}") from error
        if done.returncode != 0:
            raise Unusable(f"{path} cannot import nsq_anyio: {done.stderr.strip()}")
        facts = json.loads(done.stdout)
        return cls(path, Interpreter.from_facts(facts), facts["packages"], facts["codec"])
