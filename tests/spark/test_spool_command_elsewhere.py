"""``nsq-anyio spool`` with a URL."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import click
import pytest
from anyio.from_thread import start_blocking_portal
from click.testing import CliRunner, Result

import nsq_anyio as nsq
from nsq_anyio.cli.main import cli
from nsq_anyio.spark.lease import Lease
from nsq_anyio.spark.spool import Spool
from nsq_anyio.storage.place import Place, storage_of

from .bad_storages import silent_storage
from .nsqds import ROOT
from .processes import running
from .rows import rows_of

pytestmark = pytest.mark.timeout(180)  # HDFS takes its time to start

QUERY = "1f0c0000-0000-4000-8000-000000000001"
OTHER = "2b1d0000-0000-4000-8000-000000000002"
NSQD = "127.0.0.1:4150"


@pytest.mark.parametrize("store", ["s3", "gcs", "azure", "hierarchical", "hdfs"], indirect=True)
def test_the_command_takes_urls(store: Place) -> None:
    spool = Spool.create(str(store), QUERY, "clicks", "spark")
    spool.begin(1, [(NSQD, 5)])
    partition = spool.partition(1, 0)
    partition.store_chunk(0, rows_of([b"a", b"b"]))
    partition.end(1)
    other = Spool.create(str(store), OTHER, "views", "spark")

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(cli, ["spool", *arguments])

    listed = json.loads(run("list", str(store), "--check", "--json").stdout)
    assert [(info["uuid"], info["rows"], info["state"]) for info in listed] == [
        (QUERY, 2, "sound"),
        (OTHER, 0, "sound"),
    ]
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(nsq.embedded.nsqd()) as nsqd:
        result = run("put-back", str(store), "1f0c", "--nsqd", nsqd.tcp_address, "--yes")
        assert result.exit_code == 0, result.output
        assert result.stdout == f"put back 2 rows of clicks/spark, spool {QUERY}\n"
    assert not storage_of(store).exists(spool.path)
    result = run("delete", str(store), OTHER, "--yes")
    assert result.exit_code == 0, result.output
    assert not storage_of(store).exists(other.path)
    assert "name a directory in s3://bucket" in run("list", "s3://bucket").stderr


@pytest.mark.parametrize("store", ["posix", "s3", "azure", "hdfs"], indirect=True)
@pytest.mark.parametrize("name", ["delete", "put-back"])
def test_a_spool_that_is_used_while_the_person_thinks_stays(
    store: Place, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes meanwhile was not agreed to, whether its query still runs or has ended."""
    spool = Spool.create(str(store), QUERY, "clicks", "spark")
    other = Spool.create(str(store), OTHER, "views", "spark")
    lease = Lease()

    def start(*_: object, **__: object) -> bool:
        lease.hold(spool.path)
        return True

    def run_and_end(*_: object, **__: object) -> bool:
        spool.begin(1, [(NSQD, 5)])
        spool.partition(1, 0).store_chunk(0, rows_of([b"a", b"b"]))
        spool.partition(1, 0).end(1)
        return True

    def run(*which: str) -> Result:
        nsqd = ["--nsqd", "127.0.0.1:1", "--backend", "trio"] if name == "put-back" else []
        return CliRunner().invoke(cli, ["spool", name, str(store), *which, *nsqd])

    monkeypatch.setattr(click, "confirm", start)
    refused = run(QUERY)
    lease.release()
    assert refused.exit_code == 1
    assert f"spool {QUERY} is in use by a query on " in refused.stderr
    monkeypatch.setattr(click, "confirm", run_and_end)
    refused = run("--all")
    assert refused.exit_code == 0, refused.output
    assert f"spool {QUERY} has changed since it was shown, and has 2 rows now: left alone" in refused.stderr
    assert not storage_of(store).exists(other.path)
    assert {entry.name for entry in storage_of(store).entries(spool.path)} == {"1", "query.json"}


@pytest.mark.parametrize("url", ["s3://bucket/spools", "webhdfs://{}/spools"])
@pytest.mark.parametrize("arguments", [("list",), ("delete", "--all", "--yes")])
def test_a_signal_ends_the_command_while_a_storage_says_nothing(
    url: str, arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with silent_storage(monkeypatch) as silent:
        name, *flags = arguments
        command = [sys.executable, "-m", "nsq_anyio", "spool", name, url.format(silent.address), *flags]
        with (
            running(command, log_path=tmp_path / "log", env=os.environ, cwd=ROOT) as program,
            silent.accepted(),
        ):
            program.process.send_signal(signal.SIGINT)
            assert program.wait(20) == 128 + signal.SIGINT
        assert program.log == ""
