"""The other Python clients, each installed into an environment of its own: ``.nox/bench-clients/NAME``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from .interpreter import MeasuredPython
from .surroundings import ROOT

DIRECTORY = ROOT / ".nox" / "bench-clients"


class Unavailable(Exception):
    """A contender cannot be measured on this machine; the text says why. The others are."""


def prepare(name: str, requirements: list[str], python: MeasuredPython) -> Path:
    """Return the Python of the environment, which is made unless it is up to date.

    :param python: what the environment is made with
    :raises Unavailable: the requirements cannot be installed
    """
    environment = DIRECTORY / name
    program = environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp_file = environment / "requirements"
    stamp = "\n".join([python.path, python.interpreter.description, *requirements])
    if stamp_file.is_file() and stamp_file.read_text(encoding="utf-8") == stamp:
        return program
    # By uv, since Python as Debian builds it has no ensurepip.
    uv = [sys.executable, "-m", "uv"]
    _run(name, [*uv, "venv", "--quiet", "--clear", "--python", python.path, str(environment)])
    _run(name, [*uv, "pip", "install", "--quiet", "--python", str(program), *requirements])
    stamp_file.write_text(stamp, encoding="utf-8")
    return program


def _run(name: str, command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        shutil.rmtree(DIRECTORY / name, ignore_errors=True)
        last = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise Unavailable(f"{name} cannot be installed on this Python: {' '.join(last)}")
