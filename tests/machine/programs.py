"""Look for the programs that sessions of nox need: ``python tests/machine/programs.py SESSION...``.

Where root runs it on a system with apt-get, missing ones are installed. Elsewhere it fails, with a list of
them and the commands that install them or leave out the sessions that need them.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Need(NamedTuple):
    """Something that is not a Python package."""

    name: str
    package: str
    """Debian's package that has it."""
    sessions: tuple[str, ...]
    """Those that fail without it. Where there are none, single tests are skipped."""
    is_there: Callable[[], bool]


def any_of(*programs: str) -> Callable[[], bool]:
    """Return a function that tells whether one of the programs is in PATH."""
    return lambda: any(map(shutil.which, programs))


def has_headers() -> bool:
    """Return whether extensions can be compiled for this Python."""
    return Path(sysconfig.get_path("include"), "Python.h").is_file()


CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first has no windows of its own to draw, and needs two thirds of the time."""
SPARK = ("spark", "spark_lowest")
STORAGES = ("storages", *SPARK)
NEEDS = (
    Need("Chromium", CHROMIUM[0], ("browser",), any_of(*CHROMIUM)),
    Need("zsh", "zsh", (), any_of("zsh")),
    Need("fish", "fish", (), any_of("fish")),
    Need("Redis or Valkey", "redis-server", (), any_of("redis-server", "valkey-server")),
    Need("promtool", "prometheus", (), any_of("promtool")),
    Need("a C compiler", "gcc", ("codec",), any_of("cc")),
    Need("the headers of Python", "python3-dev", ("codec",), has_headers),
    Need("Java 17 or later", "default-jre-headless", SPARK, any_of("java")),
    Need("Maven", "maven", STORAGES, any_of("mvn")),
    Need("Node.js", "nodejs", STORAGES, any_of("node")),
    Need("npm", "npm", STORAGES, any_of("npm")),
)


def missing() -> list[Need]:
    """Return what is not there."""
    return [need for need in NEEDS if not need.is_there()]


def report(needs: list[Need], sessions: list[str]) -> str:
    """Return what is missing, how to install it, and how to run the sessions that do without."""
    packages = " ".join(need.package for need in needs)
    failing = {name for need in needs for name in need.sessions}
    lines = [f"  {need.name}, for {' '.join(need.sessions) or 'single tests'}" for need in needs]
    lines = [
        "These programs are missing:",
        *lines,
        "On Debian, this installs them:",
        f"  sudo apt-get update && sudo apt-get install -y {packages}",
        "And this runs the sessions that do without them:",
        f"  nox -s {' '.join(name for name in sessions if name not in failing)}",
    ]
    return "\n".join(lines)


def install(needs: list[Need]) -> None:
    """Install Debian's packages, as root.

    :raises subprocess.CalledProcessError: apt-get failed, and has said why
    """
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    packages = [need.package for need in needs]
    for arguments in (["update", "-qq"], ["install", "-qq", "-y", *packages]):
        subprocess.run(["apt-get", *arguments], env=environment, stdout=subprocess.DEVNULL, check=True)


def may_install() -> bool:
    """Return whether this is root on a system with apt-get."""
    return sys.platform == "linux" and os.geteuid() == 0 and shutil.which("apt-get") is not None


def main() -> None:
    needs = missing()
    if needs and may_install():
        print("installing", *(need.package for need in needs), flush=True)
        try:
            install(needs)
        except subprocess.CalledProcessError as error:
            print(f"programs.py: {error}", file=sys.stderr)
        needs = missing()
    if needs:
        sys.exit(report(needs, sys.argv[1:]))


if __name__ == "__main__":
    main()
