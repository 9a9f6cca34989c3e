"""``nsq-anyio spool``: lists, deletes and puts back, and never loses a row that NSQ does not have."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections import Counter
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import anyio
import anyio.from_thread
import pyarrow as pa
import pytest
from anyio.from_thread import BlockingPortal
from click.testing import CliRunner, Result

import nsq_anyio as nsq
from nsq_anyio.cli.main import cli
from nsq_anyio.spark import spool_admin
from nsq_anyio.spark.chunks import Record
from nsq_anyio.spark.lease import Lease
from nsq_anyio.spark.schema import arrow_schema
from nsq_anyio.spark.spool import Spool
from nsq_anyio.spark.spool_admin import SpoolInfo, clear
from nsq_anyio.storage.place import Place

from .rows import on_disk, rows_of, spooled

FIRST = "1f0c0000-0000-4000-8000-000000000001"
SECOND = "2b1d0000-0000-4000-8000-000000000002"


def make_spool(directory: Path, uuid: str, topic: str, *chunks: Sequence[bytes]) -> Path:
    """A spool of one epoch, with each chunk in a partition of its own."""
    spool = Spool.create(str(directory), uuid, topic, "spark")
    spool.begin(1, [("127.0.0.1:4150", len(chunk)) for chunk in chunks])
    for number, chunk in enumerate(chunks):
        rows = [
            {
                "body": body,
                "id": f"{place:016x}",
                "timestamp": datetime.now(UTC),
                "attempts": 1,
                "topic": topic,
                "channel": "spark",
                "nsqd": "127.0.0.1:4150",
            }
            for place, body in enumerate(chunk)
        ]
        partition = spool.partition(1, number)
        partition.store_chunk(0, pa.RecordBatch.from_pylist(rows, schema=arrow_schema()))
        partition.end(1)
    return on_disk(spool.path)


def spool(*arguments: str, answer: str = "") -> Result:
    return CliRunner().invoke(cli, ["spool", *arguments], input=answer)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Two spools: of `clicks` with five rows, and of `views` with one."""
    make_spool(tmp_path, FIRST, "clicks", [b"1", b"2", b"3"], [b"4", b"\xff"])
    make_spool(tmp_path, SECOND, "views", [b"v"])
    return tmp_path


@pytest.fixture(scope="module")
def portal() -> Generator[BlockingPortal]:
    with anyio.from_thread.start_blocking_portal() as portal:
        yield portal


@pytest.fixture
def nsqd(portal: BlockingPortal) -> Generator[str]:
    """The address of an nsqd whose messages have at most 100 bytes."""
    options = nsq.embedded.NsqdOptions(max_msg_size=100)
    with portal.wrap_async_context_manager(nsq.embedded.nsqd(options=options)) as server:
        yield server.tcp_address


def take(portal: BlockingPortal, nsqd: str, topic: str, count: int) -> Counter[bytes]:
    """Return the bodies of so many messages."""

    async def consume() -> Counter[bytes]:
        found: Counter[bytes] = Counter()
        with anyio.fail_after(20):
            async with nsq.consume(topic, "check", nsqd=nsqd, max_in_flight=10) as consumer:
                async for message in consumer:
                    found[message.body] += 1
                    message.finish()
                    if found.total() == count:
                        break
        return found

    return portal.call(consume)


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def test_list_shows_what_is_there(directory: Path) -> None:
    result = spool("list", str(directory))
    assert result.exit_code == 0, result.output
    first, second = (line for line in result.stdout.splitlines() if "/spark" in line)
    assert [cell.strip() for cell in first.split("│")[1:3]] == [FIRST[:8], "clicks/spark"]
    assert [cell.strip() for cell in second.split("│")[1:3]] == [SECOND[:8], "views/spark"]
    assert first.split("│")[5].strip() == "5"


def test_list_as_json(directory: Path) -> None:
    result = spool("list", str(directory), "--json")
    first, second = json.loads(result.stdout)
    assert (first["uuid"], first["topic"], first["channel"]) == (FIRST, "clicks", "spark")
    assert (first["rows"], first["epochs"]) == (5, 1)
    assert first["bytes"] > 0
    assert datetime.fromisoformat(first["last_written"]) >= datetime.fromisoformat(first["created"])
    assert second["rows"] == 1


def test_nothing_to_list(tmp_path: Path) -> None:
    assert spool("list", str(tmp_path)).stdout == f"no spools in {tmp_path}\n"
    assert json.loads(spool("list", str(tmp_path), "--json").stdout) == []


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_put_back_publishes_and_then_deletes(
    directory: Path, portal: BlockingPortal, nsqd: str, backend: str
) -> None:
    result = spool("put-back", str(directory), "1f0c", "--nsqd", nsqd, "--backend", backend, answer="y\n")
    assert result.exit_code == 0, result.output
    assert "Publish these rows to NSQ again" in result.stderr
    assert result.stdout == f"put back 5 rows of clicks/spark, spool {FIRST}\n"
    assert names(directory) == {SECOND}
    assert take(portal, nsqd, "clicks", 5) == Counter([b"1", b"2", b"3", b"4", b"\xff"])


def test_small_batches_lose_nothing(tmp_path: Path, portal: BlockingPortal, nsqd: str) -> None:
    bodies = [b"x" * size for size in (90, 90, 1, 1, 1, 90, 2)]
    make_spool(tmp_path, FIRST, "clicks", bodies)
    bounds = ("--option", "batchRows=2", "--option", "batchBytes=100")
    result = spool("put-back", str(tmp_path), "--all", "--nsqd", nsqd, "--yes", "--json", *bounds)
    assert result.exit_code == 0, result.output
    assert [info["rows"] for info in json.loads(result.stdout)] == [7]
    assert take(portal, nsqd, "clicks", 7) == Counter(bodies)


def test_an_nsqd_with_a_small_max_body_size_gets_all_rows(tmp_path: Path, portal: BlockingPortal) -> None:
    bodies = [b"%d" % number for number in range(500)]
    make_spool(tmp_path, FIRST, "clicks", bodies)
    options = nsq.embedded.NsqdOptions(max_body_size=500)
    with portal.wrap_async_context_manager(nsq.embedded.nsqd(options=options)) as server:
        result = spool("put-back", str(tmp_path), "--all", "--nsqd", server.tcp_address, "--yes")
        assert result.exit_code == 0, result.output
        assert take(portal, server.tcp_address, "clicks", 500) == Counter(bodies)


def test_what_cannot_be_published_stays(directory: Path, nsqd: str) -> None:
    make_spool(directory, FIRST.replace("1f0c", "3333"), "large", [b"x" * 101])
    result = spool("put-back", str(directory), "3333", "--nsqd", nsqd, "--yes")
    assert result.exit_code == 1
    assert "E_BAD_MESSAGE" in result.stderr
    assert "Traceback" not in result.stderr
    assert len(names(directory)) == 3


def test_an_unreachable_nsqd_changes_nothing(directory: Path) -> None:
    give_up = ("--option", "connectTimeout=0.2", "--option", "publishTimeout=0.2")
    result = spool("put-back", str(directory), "--all", "--nsqd", "127.0.0.1:1", "--yes", *give_up)
    assert result.exit_code == 1
    assert "127.0.0.1:1" in result.stderr
    assert names(directory) == {FIRST, SECOND}


def test_delete_asks_first(directory: Path) -> None:
    refused = spool("delete", str(directory), FIRST, answer="n\n")
    assert refused.exit_code == 1
    assert "Delete these rows for good?" in refused.stderr
    assert names(directory) == {FIRST, SECOND}
    # Nobody is there to answer.
    assert spool("delete", str(directory), FIRST).exit_code == 1
    assert names(directory) == {FIRST, SECOND}
    deleted = spool("delete", str(directory), FIRST, answer="y\n")
    assert deleted.stdout == f"deleted 5 rows of clicks/spark, spool {FIRST}\n"
    assert names(directory) == {SECOND}
    assert spool("delete", str(directory), "--all", "--yes").exit_code == 0
    assert names(directory) == set()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("delete", "DIR"), "name the spools, or use --all"),
        (("delete", "DIR", FIRST, "--all"), "name the spools, or use --all"),
        (("delete", "DIR", "9"), "'9' names no spool of"),
        (("delete", "DIR", ""), "'' names 2 spools of"),
        (("put-back", "DIR", FIRST), "--nsqd"),
        (("put-back", "DIR", FIRST, "--nsqd", "nowhere"), "nowhere"),
        (("put-back", "DIR", FIRST, "--nsqd", "a:1", "--option", "tsl=true"), "tls"),
    ],
)
def test_mistakes_are_explained(directory: Path, arguments: tuple[str, ...], expected: str) -> None:
    result = spool(*(str(directory) if argument == "DIR" else argument for argument in arguments), "--yes")
    assert result.exit_code == 2
    assert expected in result.stderr
    assert names(directory) == {FIRST, SECOND}


def test_a_directory_that_is_missing_is_named(tmp_path: Path) -> None:
    result = spool("list", str(tmp_path / "nothing-here"))
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: spool {tmp_path / 'nothing-here'}: No such file")


def test_a_spool_in_use_is_left_alone(directory: Path, portal: BlockingPortal, nsqd: str) -> None:
    lease = Lease()
    lease.hold(directory / FIRST)
    try:
        (used, other) = json.loads(spool("list", str(directory), "--json").stdout)
        assert (used["state"], other["state"]) == ("in use", "unchecked")
        for command in (("put-back", "--nsqd", nsqd), ("delete",)):
            name, *options = command
            refused = spool(name, str(directory), FIRST, "--yes", *options)
            assert refused.exit_code == 1
            assert f"spool {FIRST} is in use by a query on " in refused.stderr
            assert "--force" in refused.stderr
        result = spool("put-back", str(directory), "--all", "--nsqd", nsqd, "--yes")
        assert result.exit_code == 0, result.output
        assert "left alone" in result.stderr
        assert names(directory) == {FIRST}
        assert spool("delete", str(directory), FIRST, "--yes", "--force").exit_code == 0
        assert names(directory) == set()
    finally:
        lease.release()


def test_a_task_that_writes_uses_its_spool_until_it_is_silent(directory: Path, nsqd: str) -> None:
    partition = Spool(directory / FIRST).partition(1, 1)
    (on_disk(partition.path) / "000001.arrow").unlink()
    (record,) = on_disk(partition.record).glob("000001-*")
    record.unlink()
    for path in directory.rglob("*.arrow"):
        os.utime(path)
    refused = spool("put-back", str(directory), FIRST, "--nsqd", nsqd, "--yes")
    assert refused.exit_code == 1
    assert "is in use by a task, which wrote 0 s ago" in refused.stderr
    for path in directory.rglob("*.arrow"):
        os.utime(path, (0, 0))
    assert spool("put-back", str(directory), FIRST, "--nsqd", nsqd, "--yes").exit_code == 0
    assert names(directory) == {SECOND}


def test_what_comes_while_rows_are_put_back_stays(
    directory: Path, portal: BlockingPortal, nsqd: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a query that runs, since it was forced: only what is published is deleted."""
    late = Spool(directory / FIRST)

    def clear_later(info: SpoolInfo, chunks: Sequence[tuple[Path, Record]]) -> list[Place]:
        late.begin(2, [("127.0.0.1:4150", 1)])
        late.partition(2, 0).store_chunk(0, rows_of([b"late"]))
        return clear(info, chunks)

    monkeypatch.setattr(spool_admin, "clear", clear_later)
    result = spool("put-back", str(directory), FIRST, "--nsqd", nsqd, "--yes", "--force")
    assert result.exit_code == 1
    assert result.stdout == f"put back 5 rows of clicks/spark, spool {FIRST}\n"
    assert str(late.partition(2, 0).path / "000000.arrow") in result.stderr
    assert spooled(late.partition(2, 0)) == [b"late"]
    assert take(portal, nsqd, "clicks", 5).total() == 5


def test_a_damaged_spool_hinders_no_other(directory: Path, portal: BlockingPortal, nsqd: str) -> None:
    chunk = directory / FIRST / "1" / "0" / "000000.arrow"
    chunk.write_bytes(b"nothing of a spool")
    (directory / FIRST / "99").write_bytes(b"nothing of a spool")
    (directory / "lost+found").mkdir()
    result = spool("list", str(directory), "--check")
    assert result.exit_code == 0, result.output
    first, second = (line for line in result.stdout.splitlines() if "/spark" in line)
    assert [cell.strip() for cell in first.split("│")[1:4]] == [FIRST[:8], "clicks/spark", "damaged"]
    assert [cell.strip() for cell in second.split("│")[1:4]] == [SECOND[:8], "views/spark", "sound"]
    assert f"{chunk}: is not a chunk of a spool" in result.stderr
    result = spool("put-back", str(directory), "--all", "--nsqd", nsqd, "--yes")
    assert result.exit_code == 1
    assert f"put back 2 rows of clicks/spark, spool {FIRST}\n" in result.stdout
    assert f"put back 1 rows of views/spark, spool {SECOND}\n" in result.stdout
    assert f"{chunk} stays" in result.stderr
    assert f"{chunk}: is not a chunk of a spool" in result.stderr, "put-back has read it"
    assert take(portal, nsqd, "clicks", 2) == Counter([b"4", b"\xff"])
    assert names(directory) == {FIRST, "lost+found"}
    os.utime(chunk, (0, 0))  # or a task might be about to store the next one
    assert spool("delete", str(directory), FIRST, "--yes").exit_code == 0
    assert names(directory) == {"lost+found"}


def test_rows_of_a_partition_without_its_record_are_put_back(
    directory: Path, portal: BlockingPortal, nsqd: str
) -> None:
    shutil.rmtree(on_disk(Spool(directory / FIRST).partition(1, 1).record))
    (listed, _) = json.loads(spool("list", str(directory), "--json").stdout)
    assert (listed["state"], listed["rows"]) == ("damaged", 5)
    result = spool("put-back", str(directory), FIRST, "--nsqd", nsqd, "--yes")
    assert result.exit_code == 0, result.output
    assert take(portal, nsqd, "clicks", 5).total() == 5


@pytest.mark.parametrize("harm", [b"", b"\xff", b'{"format": 1}', None])
def test_rows_of_a_spool_without_a_description_are_put_back(
    directory: Path, portal: BlockingPortal, nsqd: str, harm: bytes | None
) -> None:
    path = directory / FIRST / "query.json"
    path.unlink()
    if harm is not None:
        path.write_bytes(harm)
    (listed, _) = json.loads(spool("list", str(directory), "--json").stdout)
    assert (listed["state"], listed["topic"], listed["rows"]) == ("damaged", None, 5)
    result = spool("put-back", str(directory), FIRST, "--nsqd", nsqd, "--yes")
    assert result.exit_code == 0, result.output
    assert names(directory) == {SECOND}
    assert take(portal, nsqd, "clicks", 5).total() == 5


def test_what_was_not_read_is_not_called_sound(directory: Path) -> None:
    """Names show what is missing; only the content shows what is altered."""
    chunk = directory / FIRST / "1" / "0" / "000000.arrow"
    content = bytearray(chunk.read_bytes())
    content[-1] ^= 1
    chunk.write_bytes(content)
    listed = json.loads(spool("list", str(directory), "--json").stdout)
    assert [(info["state"], info["rows"]) for info in listed] == [("unchecked", 5), ("unchecked", 1)]
    checked = json.loads(spool("list", str(directory), "--check", "--json").stdout)
    assert [(info["state"], info["rows"]) for info in checked] == [("damaged", 2), ("sound", 1)]
    assert checked[0]["damage"] == [{"path": str(chunk), "reason": "is damaged: its checksum is wrong"}]
    chunk.unlink()
    listed = json.loads(spool("list", str(directory), "--json").stdout)
    assert [(info["state"], info["rows"]) for info in listed] == [("damaged", 2), ("unchecked", 1)]
    (damage,) = listed[0]["damage"]
    assert damage["path"] == str(chunk)
    assert "records 3 rows in it" in damage["reason"]


@pytest.mark.parametrize("check", [False, True])
def test_listing_beside_a_running_query_never_fails(directory: Path, check: bool) -> None:
    """Chunks and batches come and go between a look and the next one."""
    running = Spool(directory / FIRST)
    ended = threading.Event()

    def run() -> None:
        epoch = 2
        while not ended.is_set():
            running.begin(epoch, [("127.0.0.1:4150", 2)] * 2)
            for number in range(2):
                running.partition(epoch, number).store_chunk(0, rows_of([b"a", b"b"]))
                running.partition(epoch, number).end(1)
            running.commit(epoch)
            epoch += 1

    with ThreadPoolExecutor(1) as pool:
        query = pool.submit(run)
        try:
            for _ in range(100):
                first, second = spool_admin.find_spools(directory, check=check)
                assert [*first.damage, *second.damage] == []
        finally:
            ended.set()
        query.result()
