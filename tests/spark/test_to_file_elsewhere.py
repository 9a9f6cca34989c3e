"""``nsq-anyio to-file`` with a URL: each message is in the storage, whenever the command is killed."""

from __future__ import annotations

import gzip
import json
import os
import signal
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from nsq_anyio.cli.to_file.directories import OWN
from nsq_anyio.storage.place import Place, place_of, storage_of
from nsq_anyio.testing import fault_proxy_in_thread

from .bad_storages import silent_storage
from .conftest import new_name
from .nsqds import ROOT, Topic, wait_until
from .processes import Program, running
from .storages import Server

MESSAGES = 3_000
LIMIT = 20.0
"""Seconds, in which no storage is given up."""

pytestmark = pytest.mark.timeout(180)  # HDFS takes its time to start


def archiving(topic: Topic, store: Place, directory: Path, *flags: str) -> AbstractContextManager[Program]:
    command = [
        *(sys.executable, "-m", "nsq_anyio", "to-file", "--sync-interval=100ms", "--rotate-size=4000"),
        # nsqd waits for the answers of a killed client until its messages time out.
        "--consumer-opt=msg_timeout,2s",
        *(f"--topic={topic.name}", f"--channel={topic.channel}"),
        f"--nsqd-tcp-address={topic.options['nsqd']}",
        *(f"--output-dir={store}/archive", f"--work-dir={directory / 'work'}", *flags),
    ]
    number = len(list(directory.glob("log-*")))
    return running(command, log_path=directory / f"log-{number}", env=os.environ, cwd=ROOT)


def archived(store: Place) -> list[Any]:
    """The places of all files, but for temporary ones, which a killed process cannot delete."""
    found: list[Any] = list(storage_of(store).files(store / "archive"))
    return [place for place in found if not place.name.startswith(".")]


def is_closing(topic: Topic) -> bool:
    """Whether the client of a channel has been told to stop, and has answered with CLS."""
    reply = topic.nsqd.request("GET", f"/stats?format=json&topic={topic.name}&include_clients=true")
    (channel,) = json.loads(reply)["topics"][0]["channels"]
    return all(client["state"] == 4 for client in channel["clients"])


@pytest.mark.parametrize("store", ["s3", "gcs", "azure", "hdfs"], indirect=True)
@pytest.mark.parametrize(("compressed", "backend"), [(False, "uvloop"), (True, "asyncio"), (True, "trio")])
def test_every_message_gets_there_though_it_is_killed(
    store: Place, compressed: bool, backend: str, real_topic: Topic, tmp_path: Path
) -> None:
    flags = [f"--backend={backend}", *(["--gzip"] if compressed else [])]
    real_topic.publish_numbers(MESSAGES)
    with archiving(real_topic, store, tmp_path, *flags) as first:
        wait_until(lambda: archived(store) or first.process.poll() is not None, "a file in the storage")
        first.kill()
    real_topic.publish_numbers(MESSAGES, first=MESSAGES)
    with archiving(real_topic, store, tmp_path, *flags) as second:
        wait_until(
            lambda: real_topic.state().left == 0 or second.process.poll() is not None,
            "the end of the channel",
        )
        second.process.send_signal(signal.SIGTERM)
        assert second.wait() == 0, second.tail
    contents = [storage_of(store).get(place) for place in archived(store)]
    lines = b"".join(map(gzip.decompress, contents) if compressed else contents).split(b"\n")
    assert {int(line) for line in lines if line} >= set(range(2 * MESSAGES))
    assert [path.name for path in (tmp_path / "work").rglob("*") if path.is_file()] == [OWN]


@pytest.mark.parametrize("store", ["s3"], indirect=True)
def test_a_work_directory_has_one_process(store: Place, real_topic: Topic, tmp_path: Path) -> None:
    real_topic.publish_numbers(10)
    with archiving(real_topic, store, tmp_path) as first:
        wait_until(lambda: real_topic.state().left == 0 or first.process.poll() is not None, "it to begin")
        with archiving(real_topic, store, tmp_path) as second:
            assert second.wait() == 1
            assert "in use by another process: give each one its own" in second.log
        first.process.send_signal(signal.SIGTERM)
        assert first.wait() == 0


@pytest.mark.parametrize("backend", ["asyncio", "uvloop", "trio"])
def test_a_hangup_while_the_last_file_is_sent_is_harmless(
    backend: str, s3: Server, real_topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_topic.publish_numbers(10)
    with fault_proxy_in_thread(s3.environment["AWS_ENDPOINT_URL"].removeprefix("http://")) as proxy:
        environment = {**s3.environment, "AWS_ENDPOINT_URL": f"http://{proxy.address}"}
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        store = place_of(f"{s3.root}/{new_name()}")
        with archiving(real_topic, store, tmp_path, f"--backend={backend}") as program:
            wait_until(lambda: real_topic.state().left == 0 or program.process.poll() is not None, "a sync")
            proxy.stalled = True
            program.process.send_signal(signal.SIGTERM)
            wait_until(lambda: is_closing(real_topic), "it to stop reading")
            program.process.send_signal(signal.SIGHUP)
            proxy.stalled = False
            assert program.wait() == 0, program.tail
        assert "moved" in program.log


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("url", ["s3://bucket/of", "webhdfs://{}/of"])
@pytest.mark.parametrize("to_main", [True, False])
def test_a_signal_ends_it_while_a_storage_says_nothing(
    number: signal.Signals,
    url: str,
    to_main: bool,
    real_topic: Topic,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with silent_storage(monkeypatch) as silent:
        store: Any = url.format(silent.address)
        with archiving(real_topic, store, tmp_path) as program, silent.accepted():
            if to_main:
                program.process.send_signal(number)
            else:
                program.signal_another_thread(number)
            assert program.wait(LIMIT) == 128 + number
        assert "Traceback" not in program.log


def test_a_bucket_that_does_not_exist_is_told(
    s3: Any, real_topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    store: Any = "s3://no-such-bucket/of-this-name"
    with archiving(real_topic, store, tmp_path) as program:
        assert program.wait() == 1
    assert "s3://no-such-bucket/of-this-name/archive" in program.log
    assert "no such bucket" in program.log.lower()
    assert "Traceback" not in program.log
