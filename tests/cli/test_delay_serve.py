"""``nsq-anyio delay serve`` as a process, on an embedded nsqd."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Generator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import httpx
import pytest
from click.testing import CliRunner, Result

import nsq_anyio as nsq
from nsq_anyio.cli.backend import BACKENDS
from nsq_anyio.cli.main import cli
from nsq_anyio.delaying import DelayFile, Selection, WaitingMessage

from .forwarders import Server, embedded_nsqds, until
from .processes import LIMIT, end, run, running


@pytest.fixture(scope="module")
def nsqd() -> Generator[Server]:
    with embedded_nsqds(1, registered=False) as (_, (found,)):
        yield found


def publish(nsqd: Server, delays: str, topic: str, at: datetime, *bodies: bytes) -> None:
    async def main() -> None:
        async with nsq.produce(nsqd.tcp_address, delays=delays) as producer:
            for body in bodies:
                await producer.publish(topic, body, at=at, durable=True)

    anyio.run(main)


def received(nsqd: Server, topic: str, number: int) -> list[bytes]:
    """The bodies of so many messages."""

    async def main() -> list[bytes]:
        found: list[bytes] = []
        with anyio.fail_after(LIMIT):
            async with nsq.consume(topic, "c", nsqd=nsqd.tcp_address) as consumer:
                while len(found) < number:
                    async with await anext(consumer) as message:
                        found.append(message.body)
        return found

    return anyio.run(main)


def in_process(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["delay", *arguments], prog_name="nsq-anyio")


def address(process: subprocess.Popen[bytes]) -> str:
    """The address that it listens on."""
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(r"HTTP: listening on (\S+)", line.decode()):
            return f"http://{found[1]}"
    raise AssertionError(process.wait(LIMIT))


def get(where: str, path: str) -> httpx.Response:
    return httpx.get(where + path, trust_env=False, timeout=LIMIT)


def is_ready(where: str) -> bool:
    return get(where, "/readyz").status_code == 200


def waiting(path: Path) -> list[WaitingMessage]:
    """The messages that wait, in the file of a service that runs."""
    with closing(DelayFile(path, writer=False)) as file:
        return list(file.waiting(Selection()))


@pytest.mark.parametrize("backend", BACKENDS)
def test_it_serves_until_a_signal_and_goes_on_after_a_kill(
    nsqd: Server, tmp_path: Path, backend: str
) -> None:
    path, delays = tmp_path / "delays.db", f"delays.{backend}"
    arguments = [
        *("delay", "serve", str(path), "--topic", delays, "--nsqd-tcp-address", nsqd.tcp_address),
        *("--http-address=127.0.0.1:0", f"--backend={backend}"),
    ]
    far = datetime.now(UTC) + timedelta(days=400)
    publish(nsqd, delays, f"later.{backend}", far, b"in a year", b"cancelled")
    with running(*arguments) as process:
        where = address(process)
        until(lambda: is_ready(where))
        until(lambda: "nsq_delays_messages_stored_total 2.0" in get(where, "/metrics").text)
        lines = get(where, "/metrics").text.splitlines()
        assert f'nsq_delays_messages_waiting{{topic="later.{backend}"}} 2.0' in lines
        assert "nsq_delays_lateness_seconds 0.0" in lines
        assert any(line.startswith("nsq_consumer_messages_finished_total") for line in lines)
        assert get(where, "/healthz").text == "OK\n"
        id = str(waiting(path)[1].id)
        assert in_process("cancel", str(path), id, "--yes").stdout == "cancelled 1 message\n"
        process.send_signal(signal.SIGKILL)
        process.wait(LIMIT)
    soon = datetime.now(UTC) + timedelta(seconds=0.5)
    publish(nsqd, delays, f"soon.{backend}", soon, b"one", b"two")
    with running(*arguments) as process:
        assert sorted(received(nsqd, f"soon.{backend}", 2)) == [b"one", b"two"]
        assert datetime.now(UTC) > soon
        until(lambda: len(waiting(path)) == 1)
        began = time.monotonic()
        printed, log = end(process)
        assert time.monotonic() - began < 5.0
        assert printed == b""
        assert "Traceback" not in log


def test_a_file_belongs_to_one_service(nsqd: Server, tmp_path: Path) -> None:
    path = tmp_path / "delays.db"
    with closing(DelayFile(path, writer=True)):
        done = run("delay", "serve", str(path), f"--nsqd={nsqd.tcp_address}")
    assert done.returncode == 1
    assert b"another service uses it" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--producer-opt=dial_timeout,2s"], "--producer-opt dial_timeout is for connections: use"),
        (["--topic=a b"], "topic 'a b' is not valid"),
        (["--http-address=none"], "'none' is not an address"),
    ],
)
def test_mistakes_are_said_before_the_file_is_made(tmp_path: Path, flags: list[str], text: str) -> None:
    done = in_process("serve", str(tmp_path / "delays.db"), "--nsqd=127.0.0.1:1", *flags)
    assert done.exit_code == 2
    assert text in done.stderr
    assert list(tmp_path.iterdir()) == []
