"""Get Python releases as Debian builds them: ``python tests/machine/pythons.py 3.14 3.15``.

They and the libraries that they need come from Debian's development suite and are unpacked into
``.nox/pythons``. Nothing is installed, so this needs no root. The archive is the one that apt is set up for.
It needs Debian's apt-get and dpkg-deb, and patchelf, with which the programs start with their own C library.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DIRECTORY = Path(__file__).resolve().parents[2] / ".nox" / "pythons"
SUITE = "sid"
"""Debian's other suites have one release of Python each."""

PARTS = "import bz2, ctypes, hashlib, lzma, sqlite3, ssl, zlib"


class NotThere(Exception):
    """The releases cannot be had; the text says why."""


def get(releases: list[str], directory: Path = DIRECTORY) -> None:
    """Unpack releases into `directory`; each is then ``usr/bin/pythonRELEASE`` there.

    :raises NotThere: a program is missing or has failed
    """
    for program in ("apt-get", "dpkg-deb", "patchelf"):
        if shutil.which(program) is None:
            raise NotThere(f"{program} is needed for Debian's packages, and is not in PATH")
    directory.parent.mkdir(parents=True, exist_ok=True)
    # Unpacked aside and moved: what was interrupted leaves no half of an interpreter.
    with tempfile.TemporaryDirectory(dir=directory.parent) as temporary:
        unpacked = Path(temporary, "unpacked")
        for package in _download([f"python{release}" for release in releases], Path(temporary)):
            run("dpkg-deb", "--extract", package, unpacked)
        shutil.rmtree(directory, ignore_errors=True)
        unpacked.replace(directory)
    for release in releases:
        try:
            _finish(directory, release)
        except NotThere:
            (directory / f"usr/bin/python{release}").unlink()
            raise


def _download(names: list[str], temporary: Path) -> list[Path]:
    """Download packages, and all that they depend on, with an apt that knows of nothing installed."""
    sources = temporary / "sources.list"
    sources.write_text("".join(f"deb {url} {SUITE} main\n" for url in _archives()))
    (temporary / "status").touch()
    for name in ("state/lists/partial", "cache/archives/partial"):
        (temporary / name).mkdir(parents=True)
    settings = {
        "Dir::Etc::SourceList": sources,
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State": temporary / "state",
        "Dir::State::status": temporary / "status",
        "Dir::Cache": temporary / "cache",
        "Acquire::Languages": "none",
        # A mirror that stands still, such as a snapshot, serves as well; what it has is signed.
        "Acquire::Check-Valid-Until": "false",
        # Where root runs apt, downloading is not given to a user who cannot write here.
        "APT::Sandbox::User": "root",
    }
    options = [f"--option={name}={value}" for name, value in settings.items()]
    run("apt-get", *options, "--error-on=any", "update")
    run("apt-get", *options, "--yes", "--no-install-recommends", "--download-only", "install", *names)
    return sorted(Path(temporary, "cache/archives").glob("*.deb"))


def _archives() -> set[str]:
    """Return the addresses of the Debian archives that apt is set up for."""
    said = run("apt-get", "indextargets", "--format=$(REPO_URI)", "Created-By: Packages", "Component: main")
    found = {url for url in said.split() if url.rstrip("/").endswith("/debian")}
    if not found:
        raise NotThere("apt's sources name no archive of Debian")
    return found


def _finish(directory: Path, release: str) -> None:
    """Let an interpreter start with the libraries beside it, and others install into its environments."""
    python = directory / f"usr/bin/python{release}"
    (libraries,) = directory.glob("usr/lib/*-linux-gnu*")
    (loader,) = libraries.glob("ld-linux*.so.*")
    run("patchelf", "--set-interpreter", loader, "--force-rpath", "--set-rpath", libraries, python)
    run(python, "-c", PARTS)


def run(*command: str | Path) -> str:
    """Run a command; return what it printed.

    :raises NotThere: it failed
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = f"{done.stdout}{done.stderr}".rstrip()
        raise NotThere(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{said}")
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description="Get Python releases as Debian builds them.")
    parser.add_argument("releases", nargs="+", metavar="RELEASE", help="such as 3.15")
    releases: list[str] = parser.parse_args().releases
    try:
        get(releases)
    except NotThere as error:
        sys.exit(f"pythons.py: {error}")
    print(*(DIRECTORY / f"usr/bin/python{release}" for release in releases), sep="\n")


if __name__ == "__main__":
    main()
