"""Where each suite comes from, and how it is run.

They are fetched from their registries by name and version, into a directory that is no part of this project.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import xml.etree.ElementTree as ET
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

Outcomes: TypeAlias = dict[str, str]
"""``passed``, ``failed`` or ``skipped`` by test."""

LIMIT = 900.0
_START_LIMIT = 30.0


class Suite(ABC):
    """The tests of one client.

    :ivar source: where `fetch` has put it
    """

    def __init__(self, name: str, version: str) -> None:
        self.name = name
        self.version = version
        self.source = Path()

    @abstractmethod
    def fetch(self, cache: Path) -> None:
        """Get the suite and what it needs, unless ``cache`` has it."""

    @abstractmethod
    def run(self, work: Path, environment: Mapping[str, str]) -> Outcomes:
        """Run it once.

        :param work: an empty directory
        :param environment: its PATH has the servers
        """


class Sdist(Suite):
    """A Python client whose source distribution has its tests.

    :param needs: what else to install
    :param options: for pytest
    :param configuration: the file with pytest's options
    """

    def __init__(
        self,
        name: str,
        version: str,
        needs: tuple[str, ...],
        options: tuple[str, ...] = (),
        *,
        configuration: str = "setup.cfg",
    ) -> None:
        super().__init__(name, version)
        self._needs = needs
        self._options = options
        self._configuration = configuration
        self._python = Path()

    def fetch(self, cache: Path) -> None:
        """See `Suite.fetch`."""
        directory = cache / self.name
        self.source = directory / f"{self.name}-{self.version}"
        self._python = directory / "venv" / "bin" / "python"
        if self.source.is_dir():
            return
        shutil.rmtree(directory, ignore_errors=True)
        _call([sys.executable, "-m", "venv", str(directory / "venv")])
        pip = [str(self._python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
        requirement = f"{self.name}=={self.version}"
        _call([*pip, "install", requirement, *self._needs])
        _call([*pip, "download", "--no-deps", "--no-binary=:all:", f"--dest={directory}", requirement])
        with tarfile.open(directory / f"{self.name}-{self.version}.tar.gz") as archive:
            archive.extractall(directory, filter="data")

    def run(self, work: Path, environment: Mapping[str, str]) -> Outcomes:
        """See `Suite.run`."""
        report = work / "report.xml"
        here = str(Path(__file__).parent)
        _call(
            [
                str(self._python),
                "-m",
                "pytest",
                "-c",
                self._configuration,
                "tests",
                "-q",
                f"--junitxml={report}",
                *self._options,
            ],
            cwd=self.source,
            env={**environment, "PYTHONPATH": here},
            may_fail=True,
        )
        outcomes: Outcomes = {}
        for case in ET.parse(report).iter("testcase"):
            kinds = {child.tag for child in case}
            outcome = (
                "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
            )
            outcomes[f"{case.get('classname')}.{case.get('name')}"] = outcome
        return outcomes


class Taskiq(Sdist):
    """taskiq, whose tests get a broker of this package (`taskiq_brokers`) in place of those in memory."""

    def run(self, work: Path, environment: Mapping[str, str]) -> Outcomes:
        """See `Suite.run`."""
        with serving(["nsqd", f"--data-path={work}"], 4151, self.source, environment):
            return super().run(work, environment)


class GoNsq(Suite):
    """go-nsq, whose ``test.sh`` starts the servers."""

    def fetch(self, cache: Path) -> None:
        """See `Suite.fetch`."""
        module = f"github.com/nsqio/{self.name}@{self.version}"
        found = subprocess.run(
            ["go", "mod", "download", "-json", module],
            capture_output=True,
            check=True,
            timeout=LIMIT,
            cwd="/",
        )
        self.source = cache / self.name
        if not self.source.is_dir():
            # A copy: Go's cache is read-only.
            shutil.copytree(json.loads(found.stdout)["Dir"], self.source, copy_function=shutil.copyfile)
            self.source.chmod(0o755)

    def run(self, work: Path, environment: Mapping[str, str]) -> Outcomes:
        """See `Suite.run`."""
        nsqd = [
            *("nsqd", f"--data-path={work}", "--lookupd-tcp-address=127.0.0.1:4160"),
            *("--tls-cert=./test/server.pem", "--tls-key=./test/server.key"),
            "--tls-root-ca-file=./test/ca.pem",
        ]
        with (
            serving(["nsqlookupd"], 4161, self.source, environment),
            serving(nsqd, 4151, self.source, environment),
        ):
            output = _call(
                ["go", "test", "-json", "-count=1", "-timeout=120s", "."],
                cwd=self.source,
                env=environment,
                may_fail=True,
            )
        outcomes: Outcomes = {}
        for line in output.splitlines():
            event: dict[str, str] = json.loads(line) if line.startswith("{") else {}
            if "Test" in event and event["Action"] in ("pass", "fail", "skip"):
                outcomes[event["Test"]] = {"pass": "passed", "fail": "failed", "skip": "skipped"}[
                    event["Action"]
                ]
        return outcomes


class Nsqjs(Suite):
    """nsqjs, whose tests start nsqd themselves."""

    def fetch(self, cache: Path) -> None:
        """See `Suite.fetch`."""
        directory = cache / self.name
        self.source = directory / "package"
        if (self.source / "node_modules").is_dir():
            return
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        _call(["npm", "pack", "--silent", f"{self.name}@{self.version}"], cwd=directory)
        with tarfile.open(directory / f"{self.name}-{self.version}.tgz") as archive:
            archive.extractall(directory, filter="data")
        _call(["npm", "install", "--silent", "--no-audit", "--no-fund"], cwd=self.source)

    def run(self, work: Path, environment: Mapping[str, str]) -> Outcomes:
        """See `Suite.run`."""
        report = work / "report.json"
        mocha = [
            *("node_modules/.bin/mocha", "--exit", "--reporter=json", f"--reporter-option=output={report}"),
            "--timeout=20000",  # nsqd is started for each test, which mocha gives 2 s otherwise
        ]
        _call(mocha, cwd=self.source, env=environment, may_fail=True)
        told = json.loads(report.read_text())
        return {
            test["fullTitle"]: outcome
            for outcome, key in (("passed", "passes"), ("skipped", "pending"), ("failed", "failures"))
            for test in told[key]
        }


@contextmanager
def serving(
    command: list[str], port: int, directory: Path, environment: Mapping[str, str]
) -> Generator[None]:
    """Run a server on its fixed port."""
    program = shutil.which(command[0], path=environment["PATH"])
    process = subprocess.Popen(
        [str(program), *command[1:]], cwd=directory, env=environment, stderr=subprocess.DEVNULL
    )
    try:
        _wait_for(port)
        yield
    finally:
        process.terminate()
        process.wait(_START_LIMIT)


def _call(
    command: list[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    may_fail: bool = False,
) -> str:
    """What the command printed; the servers that a failed suite has left running are killed."""
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, cwd=cwd, env=env, stdout=output, start_new_session=True)
        try:
            returncode = process.wait(LIMIT)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if returncode and not may_fail:
            raise subprocess.CalledProcessError(returncode, command)
        output.seek(0)
        return output.read()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + _START_LIMIT
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


SUITES: tuple[Suite, ...] = (
    Sdist("gnsq", "1.0.2", ("python-snappy", "pytest")),
    Sdist(
        "ansq",
        "0.3.0",
        ("pytest<8", "pytest-asyncio<0.22"),  # newer ones lack the fixture `event_loop`
        ("-p", "ansq_fixtures", "--asyncio-mode=auto"),
    ),
    Taskiq(
        "taskiq",
        "0.13.0",
        (str(Path(__file__).parents[2]), "pytest", "freezegun", "polyfactory", "orjson", "msgpack", "cbor2"),
        ("-p", "taskiq_brokers", "--ignore=tests/opentelemetry", "--ignore=tests/cli"),
        configuration="pyproject.toml",
    ),
    GoNsq("go-nsq", "v1.1.0"),
    Nsqjs("nsqjs", "0.13.0"),
)
