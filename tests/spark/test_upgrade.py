"""Spools and checkpoints of format 1, which has neither checksums nor records, go on without loss."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from nsq_anyio.spark.chunks import decode
from nsq_anyio.spark.schema import arrow_schema
from nsq_anyio.spark.spool_admin import find_spools
from nsq_anyio.spark.spool_errors import SpoolDamaged, SpoolError

from .rows import on_disk, rows_of
from .spool_lives import BATCH, NSQD, Offset, Query

UUID = "1f0c0000-0000-4000-8000-000000000001"
PLAN = [[NSQD, BATCH // 2], [NSQD, BATCH // 2]]
LOGGED: Offset = {"spool": UUID, "epoch": 1, "plan": PLAN}
EVERYTHING = Counter(b"%d" % number for number in range(2 * BATCH))


def write_format_1(path: Path, rows: pa.RecordBatch) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
        writer.write_batch(rows)  # pyright: ignore[reportUnknownMemberType] - stubs lack its return type


class OldQuery(Query):
    """A query whose first batch an earlier version has planned."""

    def make(self, *, begun: bool = True) -> Path:
        """Make the spool, and with `begun` the place of the first batch; return that."""
        epoch = on_disk(self.directory) / UUID / "1"
        epoch.parent.mkdir()
        description = {
            "format": 1,
            "topic": "clicks",
            "channel": "spark",
            "created": "2026-11-21T12:57:29+00:00",
        }
        (epoch.parent / "query.json").write_text(json.dumps(description))
        if begun:
            epoch.mkdir()
            (epoch / "plan.json").write_text(json.dumps(PLAN))
        return epoch

    def store(self, epoch: Path, number: int, chunks: Sequence[int], *, ended: bool) -> None:
        """Store chunks of so many rows, as an earlier version did."""
        partition = epoch / str(number)
        partition.mkdir()
        for place, size in enumerate(chunks):
            some = self.waiting[:size]
            del self.waiting[:size]
            write_format_1(partition / f"{place:06d}.arrow", rows_of(some))
        if ended:
            nothing = pa.RecordBatch.from_pylist([], schema=arrow_schema())
            write_format_1(partition / f"{len(chunks):06d}.arrow", nothing)

    def go_on(self) -> None:
        """Restart from the log: the batch that was not committed first."""
        reader = self.reader()
        self.sink += self.read(reader, reader.initialOffset(), LOGGED)
        end = self.plan(reader, LOGGED)
        assert (end["format"], end["epoch"]) == (2, 2)
        reader.commit(LOGGED)
        self.sink += self.read(reader, LOGGED, end)
        assert self.plan(reader, end) == end
        reader.commit(end)
        reader.stop()


@pytest.fixture
def query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OldQuery:
    return OldQuery(tmp_path, monkeypatch)


def finish(query: OldQuery) -> None:
    query.go_on()
    assert Counter(query.sink) == EVERYTHING
    left = (on_disk(query.directory) / UUID).iterdir()
    assert sorted(path.name for path in left) == ["committed-2", "query.json"]


def test_a_batch_that_is_logged_and_not_begun(query: OldQuery) -> None:
    query.make(begun=False)
    finish(query)


def test_a_batch_of_which_no_task_has_run(query: OldQuery) -> None:
    query.make()
    finish(query)


def test_a_batch_in_mid_read(query: OldQuery) -> None:
    epoch = query.make()
    query.store(epoch, 0, [5, 10], ended=True)
    query.store(epoch, 1, [5, 5], ended=False)
    finish(query)


def test_a_batch_that_is_read_and_not_in_the_sink(query: OldQuery) -> None:
    epoch = query.make()
    query.store(epoch, 0, [5, 10], ended=True)
    query.store(epoch, 1, [15], ended=True)
    (info,) = find_spools(query.directory, check=True)
    assert (info.rows, info.state) == (30, "sound")
    finish(query)


def test_a_spool_between_two_batches(query: OldQuery) -> None:
    query.make(begun=False)
    del query.waiting[:BATCH]
    reader = query.reader()
    end = query.plan(reader, LOGGED)
    reader.commit(LOGGED)
    query.sink += query.read(reader, LOGGED, end)
    assert len(query.sink) == BATCH


def test_what_was_found_once_is_missed_from_then_on(query: OldQuery) -> None:
    epoch = query.make()
    query.store(epoch, 0, [5, 10], ended=True)
    query.store(epoch, 1, [15], ended=True)
    reader = query.reader()
    query.read(reader, reader.initialOffset(), LOGGED)
    for number in (1, 2):
        (epoch / "0" / f"{number:06d}.arrow").unlink()
    with pytest.raises(SpoolDamaged, match="records 10 rows") as caught:
        query.go_on()
    assert caught.value.path == str(epoch / "0" / "000001.arrow")


def test_a_missing_number_and_another_plan_are_named(query: OldQuery) -> None:
    epoch = query.make()
    query.store(epoch, 0, [5, 10], ended=True)
    (epoch / "0" / "000001.arrow").unlink()
    with pytest.raises(SpoolDamaged, match="later chunks exist") as caught:
        query.go_on()
    assert caught.value.path == str(epoch / "0" / "000001.arrow")
    shutil.rmtree(epoch)
    epoch.mkdir()
    (epoch / "plan.json").write_text(json.dumps([[NSQD, 1]]))
    with pytest.raises(SpoolError, match="the checkpoint is older than the spool"):
        query.go_on()


def test_no_raw_error_for_any_byte_of_a_chunk(tmp_path: Path) -> None:
    """Format 1 has no checksum, so that much can be read; what cannot be is said with its path."""
    path = tmp_path / "000000.arrow"
    write_format_1(path, rows_of([b"a", b"bc"]))
    content = path.read_bytes()
    assert decode(content, path, "query/1/0", 0).record.bytes == 3
    named: list[str] = []
    for position in range(len(content)):
        altered = content[:position] + bytes([content[position] ^ 0x81]) + content[position + 1 :]
        try:
            decode(altered, path, "query/1/0", 0)
        except SpoolDamaged as error:
            named.append(error.path)
    assert len(named) > 100
    assert set(named) == {str(path)}
