"""The spool of a query: found again, never another one's, and emptied only of what the sink has."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import uuid
from collections.abc import Generator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsq_anyio.spark.chunks import Partition
from nsq_anyio.spark.spool import Spool
from nsq_anyio.spark.spool_admin import delete, find_spools
from nsq_anyio.spark.spool_errors import SpoolError
from nsq_anyio.spark.spool_files import put_document

from .reading import sound_chunks
from .rows import bodies, on_disk, rows_of, spooled

QUERY = "1f0c0000-0000-4000-8000-000000000001"
OTHER = "2b1d0000-0000-4000-8000-000000000002"
NSQD = "127.0.0.1:4150"


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    """The spool of a query that reads clicks/spark."""
    return Spool.create(str(tmp_path), QUERY, "clicks", "spark")


def fill(spool: Spool, epoch: int, number: int, *chunks: list[bytes]) -> Partition:
    """Store chunks, and end the partition."""
    partition = spool.partition(epoch, number)
    for place, chunk in enumerate(chunks):
        partition.store_chunk(place, rows_of(chunk))
    partition.end(len(chunks))
    return partition


def document(**fields: object) -> bytes:
    """What a file of a spool says, with its checksum."""
    with TemporaryDirectory() as directory:
        path = Path(directory, "document")
        put_document(path, fields)
        return path.read_bytes()


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_spool_is_found_again(spool: Spool, tmp_path: Path) -> None:
    before = (on_disk(spool.path) / "query.json").read_bytes()
    assert Spool.create(str(tmp_path), QUERY, "clicks", "spark") == spool
    assert Spool.open(str(tmp_path), QUERY, "clicks", "spark") == spool
    assert Spool.at(str(tmp_path), QUERY) == spool
    assert (on_disk(spool.path) / "query.json").read_bytes() == before
    assert names(tmp_path) == [QUERY]


def test_a_directory_on_the_way_is_made(tmp_path: Path) -> None:
    spool = Spool.create(str(tmp_path / "a" / "b"), QUERY, "clicks", "spark")
    assert spool.path == tmp_path / "a" / "b" / QUERY


@pytest.mark.parametrize(("topic", "channel"), [("views", "spark"), ("clicks", "other")])
@pytest.mark.parametrize("how", [Spool.open, Spool.create])
def test_the_spool_of_another_channel_is_refused(
    spool: Spool, tmp_path: Path, how: object, topic: str, channel: str
) -> None:
    assert callable(how)
    with pytest.raises(SpoolError) as caught:
        how(str(tmp_path), QUERY, topic, channel)
    assert caught.value.path == str(spool.path)
    assert f"belongs to clicks/spark, but this query reads {topic}/{channel}" in str(caught.value)


def test_a_missing_spool_is_explained(tmp_path: Path) -> None:
    with pytest.raises(SpoolError, match="is missing, but the checkpoint continues from it") as caught:
        Spool.open(str(tmp_path), QUERY, "clicks", "spark")
    assert caught.value.path == str(tmp_path / QUERY)
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"{", "it is not JSON"),
        (b"\xff", "it is not JSON"),
        (b"", "it is not JSON"),
        (b"[" * 100_000, "it is not JSON"),
        (b"[]", "it is not a JSON object"),
        (b"{}", "its checksum is wrong"),
        (b'{"format": 1}', "it lacks one of topic, channel, created"),
        (b'{"format": 1, "topic": "clicks", "channel": 1, "created": ""}', "it lacks one of topic, channel"),
        (document(format=3), "has format 3, but this version reads 1 and 2"),
    ],
)
def test_a_damaged_description_is_named(spool: Spool, tmp_path: Path, text: bytes, reason: str) -> None:
    path = on_disk(spool.path) / "query.json"
    path.write_bytes(text)
    with pytest.raises(SpoolError, match=reason) as caught:
        Spool.open(str(tmp_path), QUERY, "clicks", "spark")
    assert caught.value.path == str(path)
    (info,) = find_spools(tmp_path)
    assert (info.state, info.topic, info.channel, info.created) == ("damaged", None, None, None)
    assert [error.path for error in info.damage] == [str(path)]


def test_an_epoch_that_is_begun_again_is_the_same(spool: Spool) -> None:
    plan = [(NSQD, 10), (NSQD, 9)]
    spool.begin(1, plan)
    for _ in range(2):
        spool.check(1, plan)
    assert names(on_disk(spool.path) / "1") == [
        "0",
        "0.record",
        "1",
        "1.record",
        "plan.json",
    ]
    assert spool.plan(1) == plan


def test_an_epoch_that_spark_has_not_logged_is_planned_again(spool: Spool) -> None:
    """The driver was killed before it logged the batch, or could not write its checkpoint."""
    spool.begin(1, [(NSQD, 10), (NSQD, 10)])
    (on_disk(spool.partition(1, 0).path) / ".000000.arrow-0f").write_bytes(b"left over")
    spool.begin(1, [(NSQD, 11)])
    spool.check(1, [(NSQD, 11)])
    assert names(on_disk(spool.path) / "1") == ["0", "0.record", "plan.json"]
    assert names(on_disk(spool.path)) == ["1", "query.json"]


@pytest.mark.parametrize("made", range(6))
def test_an_epoch_that_was_half_made_is_made(
    spool: Spool, monkeypatch: pytest.MonkeyPatch, made: int
) -> None:
    mkdir = Path.mkdir
    count = 0

    def die(self: Path, *arguments: Any, **options: Any) -> None:
        nonlocal count
        if count == made:
            raise KeyboardInterrupt
        count += 1
        mkdir(self, *arguments, **options)

    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(Path, "mkdir", die)
        spool.begin(1, [(NSQD, 10), (NSQD, 10)])
    spool.begin(1, [(NSQD, 9)])
    spool.check(1, [(NSQD, 9)])


def test_an_epoch_of_another_plan_is_refused(spool: Spool) -> None:
    spool.begin(1, [(NSQD, 10)])
    with pytest.raises(SpoolError, match="the checkpoint is older than the spool") as caught:
        spool.check(1, [(NSQD, 11)])
    assert caught.value.path == str(spool.path / "1")
    assert "a sink that identifies batches by number (files, Delta) needs a new path" in str(caught.value)


def test_a_checkpoint_from_a_backup_is_found_out(spool: Spool) -> None:
    """It plans a batch again: a sink that knows the number already would skip other rows."""
    spool.begin(1, [(NSQD, 10)])
    fill(spool, 1, 0, [b"a"])
    for is_committed in (False, True):
        if is_committed:
            spool.commit(1)
        with pytest.raises(SpoolError, match="the checkpoint is older than the spool") as caught:
            spool.begin(1, [(NSQD, 10)])
        assert caught.value.path == str(spool.path / "1")
    with pytest.raises(SpoolError, match="the checkpoint is older than the spool"):
        spool.check(1, [(NSQD, 10)])


@settings(max_examples=25)
@given(epochs=st.sets(st.integers(1, 12)), committed=st.integers(0, 13))
def test_a_commit_deletes_up_to_its_epoch(
    tmp_path_factory: pytest.TempPathFactory, epochs: set[int], committed: int
) -> None:
    spool = Spool.create(str(tmp_path_factory.mktemp("spool")), QUERY, "clicks", "spark")
    for epoch in epochs:
        spool.begin(epoch, [(NSQD, 1)])
    for _ in range(2):
        spool.commit(committed)
        assert spool.epochs() == sorted(epoch for epoch in epochs if epoch > committed)
        marks = [f"committed-{committed}"] if committed else []
        assert names(on_disk(spool.path)) == sorted([*map(str, spool.epochs()), *marks, "query.json"])


def test_a_commit_leaves_later_rows_as_they_are(spool: Spool) -> None:
    for epoch in (9, 10, 11):
        spool.begin(epoch, [(NSQD, 1)])
        fill(spool, epoch, 0, [b"%d" % epoch])
    spool.commit(9)
    assert spooled(spool.partition(10, 0)) == [b"10"]
    assert spooled(spool.partition(11, 0)) == [b"11"]


def test_a_commit_of_a_spool_that_is_gone_is_done(spool: Spool) -> None:
    shutil.rmtree(on_disk(spool.path))
    spool.commit(1)
    assert not on_disk(spool.path).exists()


def test_a_commit_that_was_killed_is_made_good(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(path: Path) -> None:
        raise KeyboardInterrupt

    spool.begin(1, [(NSQD, 1)])
    fill(spool, 1, 0, [b"a"])
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(shutil, "rmtree", die)
        spool.commit(1)
    assert spool.epochs() == []
    assert len(names(on_disk(spool.path))) == 3
    spool.commit(1)
    assert names(on_disk(spool.path)) == ["committed-1", "query.json"]


def test_what_cannot_be_deleted_does_not_stop_the_query(
    spool: Spool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    spool.begin(1, [(NSQD, 1)])
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", refuse)
        spool.commit(1)
    assert ".deleted-1" in caplog.text
    assert "Operation not permitted" in caplog.text
    assert spool.epochs() == []


def test_spools_are_listed_with_what_they_hold(spool: Spool, tmp_path: Path) -> None:
    before = datetime.now(UTC)
    spool.begin(1, [(NSQD, 5), (NSQD, 5)])
    fill(spool, 1, 0, [b"a", b"b"], [b"c"])
    fill(spool, 1, 1, [b"d"])
    spool.begin(2, [(NSQD, 5)])
    fill(spool, 2, 0, [b"e"])
    Spool.create(str(tmp_path), OTHER, "views", "spark")
    (tmp_path / "lost+found").mkdir()
    first, second = find_spools(tmp_path)
    assert (first.uuid, first.topic, first.channel) == (QUERY, "clicks", "spark")
    assert (first.path, first.epochs, first.rows) == (spool.path, 2, 5)
    assert first.bytes == sum(path.stat().st_size for path in on_disk(spool.path).rglob("*.arrow"))
    assert first.last_written is not None
    assert abs((first.last_written - before).total_seconds()) < 30
    assert (second.epochs, second.rows, second.bytes, second.last_written) == (0, 0, 0, None)
    assert bodies(chunk.batch for chunk in sound_chunks(first)) == [b"a", b"b", b"c", b"d", b"e"]
    assert bodies(chunk.batch for chunk in sound_chunks(second)) == []


def test_what_a_killed_deletion_left_goes_with_the_next(spool: Spool, tmp_path: Path) -> None:
    left = tmp_path / f".deleted-{uuid.uuid4()}-{uuid.uuid4().hex}"
    (left / "1").mkdir(parents=True)
    (left / "1" / "plan.json").write_text("{}", encoding="utf-8")
    delete(find_spools(tmp_path)[0])
    assert list(tmp_path.iterdir()) == []


def test_a_spool_is_deleted_with_all_it_holds(spool: Spool, tmp_path: Path) -> None:
    spool.begin(1, [(NSQD, 5)])
    fill(spool, 1, 0, [b"a"])
    Spool.create(str(tmp_path), OTHER, "views", "spark")
    (info, _) = find_spools(tmp_path)
    delete(info)
    assert names(tmp_path) == [OTHER]
    with pytest.raises(SpoolError, match="No such file"):
        delete(info)


@pytest.fixture
def unwritable(tmp_path: Path) -> Generator[Path]:
    """A directory where its owner may not write."""
    path = tmp_path / "spool"
    path.mkdir()
    path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    yield path
    path.chmod(stat.S_IRWXU)


def test_a_directory_that_is_not_writable_is_named(unwritable: Path) -> None:
    # The superuser may write anywhere, so it is tried as somebody else.
    program = (
        "import os, sys\n"
        "from nsq_anyio.spark.spool import Spool\n"
        "from nsq_anyio.spark.spool_errors import SpoolError\n"
        "if os.geteuid() == 0:\n"
        "    os.chown(sys.argv[1], 65534, 65534)\n"
        "    for directory in sys.argv[2:]:\n"
        "        os.chmod(directory, 0o755)\n"
        "    os.setegid(65534)\n"
        "    os.seteuid(65534)\n"
        "try:\n"
        "    Spool.create(sys.argv[1], 'query', 'clicks', 'spark')\n"
        "except SpoolError as error:\n"
        "    print(error)\n"
    )
    parents = [str(path) for path in list(unwritable.parents)[:3]]
    result = subprocess.run(
        [sys.executable, "-c", program, str(unwritable), *parents],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert result.stdout == (
        f"spool {unwritable / 'query'}: Permission denied: let the user that runs the driver and the "
        "executors write there\n"
    )


def test_a_file_where_the_directory_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SpoolError, match="Not a directory: spoolDir must be a path") as caught:
        Spool.create(str(tmp_path / "file"), QUERY, "clicks", "spark")
    assert caught.value.path == str(tmp_path / "file" / QUERY)


def test_a_directory_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpoolError) as caught:
        find_spools(tmp_path / "missing")
    assert caught.value.path == str(tmp_path / "missing")
