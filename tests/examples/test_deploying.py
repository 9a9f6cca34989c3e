"""What docs/deploying.md shows, run as it stands there, with the addresses and directories of the test."""

from __future__ import annotations

import gzip
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path

import pytest
import yaml

from nsq_anyio.testing import Nsqd, Nsqlookupd

from .programs import LIMIT, ROOT

pytestmark = pytest.mark.timeout(180)

DIRECTORY = ROOT / "examples" / "deploying"
UNITS = sorted(DIRECTORY.glob("*.service"))
COMMAND = Path(sys.executable).with_name("nsq-anyio")


@pytest.fixture
def config(nsqlookupd: Nsqlookupd, tmp_path: Path) -> Path:
    """The configuration file."""
    path = tmp_path / "nsq-anyio.toml"
    text = (DIRECTORY / "nsq-anyio.toml").read_text("utf-8")
    path.write_text(here(text, nsqlookupd, tmp_path), "utf-8")
    return path


def here(text: str, nsqlookupd: Nsqlookupd, directory: Path) -> str:
    """Replace addresses and directories by those of the test."""
    lookupd = nsqlookupd.http_url.removeprefix("http://")
    for documented, ours in {
        "127.0.0.1:4161": lookupd,
        "nsqlookupd:4161": lookupd,
        "127.0.0.1:8080": "127.0.0.1:0",
        " :8080": " 127.0.0.1:0",
        "/opt/nsq/bin/nsq-anyio": str(COMMAND),
        "/var/": f"{directory}/",
    }.items():
        text = text.replace(documented, ours)
    return text


def in_unit(name: str, nsqlookupd: Nsqlookupd, directory: Path) -> list[str]:
    """The command of a unit, whose instance is "clicks"."""
    text = (DIRECTORY / name).read_text("utf-8").replace("\\\n", " ")
    (command,) = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
    return shlex.split(here(command.replace("%i", "clicks"), nsqlookupd, directory))


@contextmanager
def running(
    command: Sequence[str], environment: dict[str, str] | None = None
) -> Generator[subprocess.Popen[str]]:
    """Run a service; what still runs at the end is killed."""
    with subprocess.Popen(
        command,
        cwd=DIRECTORY,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def port_of(process: subprocess.Popen[str]) -> str:
    """The port at which the service answers health checks, which its log names."""
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(r"HTTP: listening on 127\.0\.0\.1:(\d+)", line):
            return found[1]
    raise AssertionError("the service has ended")


def drained(process: subprocess.Popen[str]) -> str:
    """End the service as systemd and Docker do; return what it has printed."""
    process.send_signal(signal.SIGTERM)
    output, log = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, log
    return output


def test_the_unit_of_a_service(nsqd: Nsqd, nsqlookupd: Nsqlookupd, config: Path, tmp_path: Path) -> None:
    nsqd.sync.publish("clicks", b"one click")
    environment = {"NSQ_ANYIO_CONFIG": str(config)}
    with running(in_unit("clicks.service", nsqlookupd, tmp_path), environment) as process:
        nsqd.sync.wait_until_empty("clicks", "show", timeout=LIMIT)
        assert drained(process) == "one click\n"


def test_the_unit_of_an_archive(nsqd: Nsqd, nsqlookupd: Nsqlookupd, config: Path, tmp_path: Path) -> None:
    command = [*in_unit("nsq-archive@.service", nsqlookupd, tmp_path), "--sync-interval", "50ms"]
    archive = tmp_path / "lib" / "nsq-archive"
    nsqd.sync.publish("clicks", b"one")
    with running(command, {"NSQ_ANYIO_CONFIG": str(config)}) as process:
        nsqd.sync.wait_until_empty("clicks", "archive", timeout=LIMIT)
        process.send_signal(signal.SIGHUP)  # as ExecReload does
        while not [*archive.glob("*.gz")]:
            time.sleep(0.01)
        nsqd.sync.publish("clicks", b"two")
        nsqd.sync.wait_until_empty("clicks", "archive", timeout=LIMIT)
        drained(process)
    files = sorted(archive.glob("*.gz"))
    lines = b"".join(gzip.decompress(file.read_bytes()) for file in files)
    assert (len(files), lines) == (2, b"one\ntwo\n")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="it comes with systemd")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_understands_the_unit(unit: Path, tmp_path: Path) -> None:
    path = tmp_path / unit.name.replace("@", "@clicks")
    # It looks for the program.
    path.write_text(unit.read_text("utf-8").replace("/opt/nsq/bin/nsq-anyio", str(COMMAND)), "utf-8")
    done = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_jobs_of_cron_say_nothing_when_they_succeed(
    nsqd: Nsqd, nsqlookupd: Nsqlookupd, config: Path, tmp_path: Path
) -> None:
    yesterday = date.today() - timedelta(days=1)  # noqa: DTZ011 - as cron's shell sees it
    orders = tmp_path / "spool" / "orders" / f"{yesterday}.jsonl"
    orders.parent.mkdir(parents=True)
    orders.write_text('{"order": 1}\n{"order": 2}\n', "utf-8")
    nsqd.sync.publish("clicks.dead", b"no letter")
    table = here((DIRECTORY / "crontab").read_text("utf-8"), nsqlookupd, tmp_path)
    lines = [line for line in table.splitlines() if line and not line.startswith("#")]
    settings = dict(line.split("=", 1) for line in lines if re.match(r"\w+=", line))
    assert settings["PATH"].startswith("/opt/nsq/bin:")
    settings |= {"PATH": f"{COMMAND.parent}:/usr/bin:/bin", "NSQ_ANYIO_CONFIG": str(config)}
    jobs = [line.split(maxsplit=6) for line in lines if not re.match(r"\w+=", line)]
    assert len(jobs) == 2
    for *times, user, command in jobs:
        assert [len(times), user] == [5, "nsq"]
        assert not re.search(r"(?<!\\)%", command)  # to cron it is the end of the command
        shell = ["/bin/sh", "-c", command.replace("\\%", "%")]
        done = subprocess.run(shell, env=settings, capture_output=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    published = nsqd.sync.messages("orders", count=2, timeout=LIMIT)
    assert [message.payload for message in published] == [b'{"order": 1}', b'{"order": 2}']


def test_the_containers(nsqd: Nsqd, nsqlookupd: Nsqlookupd, tmp_path: Path) -> None:
    services = yaml.safe_load((DIRECTORY / "compose.yaml").read_text("utf-8"))["services"]
    ours = {name: each for name, each in services.items() if "build" in each}
    assert list(ours) == ["clicks", "dashboard"]
    for each in ours.values():
        context = (DIRECTORY / each["build"]["context"]).resolve()
        assert context == ROOT
        assert (context / each["build"]["dockerfile"]).is_file()
    command = [str(COMMAND), *shlex.split(here(ours["clicks"]["command"], nsqlookupd, tmp_path))]
    nsqd.sync.publish("clicks", b"one click")
    with running(command) as process:
        port = port_of(process)
        nsqd.sync.wait_until_empty("clicks", "show", timeout=LIMIT)
        kind, _, *check = ours["clicks"]["healthcheck"]["test"]
        assert kind == "CMD"
        check = [each.replace(":8080", f":{port}") for each in check]
        subprocess.run([sys.executable, *check], check=True, timeout=LIMIT)
        assert drained(process) == "one click\n"
    dashboard = shlex.split(here(ours["dashboard"]["command"], nsqlookupd, tmp_path))
    with running([str(COMMAND), *dashboard[:-1], "127.0.0.1:0"]) as process:
        port_of(process)
        drained(process)


def test_the_image_copies_what_is_there() -> None:
    text = (DIRECTORY / "Dockerfile").read_text("utf-8")
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE)
    sources = [each for line in copied for each in line.split()]
    assert sources
    assert [each for each in sources if not (ROOT / each).exists()] == []


@pytest.mark.skipif(sys.platform == "win32", reason="the linter has no wheel there")
def test_the_linter_accepts_the_image() -> None:
    linter = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([linter, DIRECTORY / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
