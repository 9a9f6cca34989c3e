"""Spools in object stores and HDFS: what is lost is told by name, and late attempts change nothing."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError
from pyspark.sql.streaming.datasource import ReadMaxRows

from nsq_anyio.spark import lease, stream_reader
from nsq_anyio.spark.chunks import Partition
from nsq_anyio.spark.lease import Lease, holder, time_of
from nsq_anyio.spark.spool import Spool
from nsq_anyio.spark.spool_admin import delete, find_spools
from nsq_anyio.spark.spool_errors import AttemptSuperseded, NumberTaken, SpoolDamaged, SpoolError
from nsq_anyio.storage.interface import MARKER
from nsq_anyio.storage.objects import ObjectStorage
from nsq_anyio.storage.place import Place, storage_of
from nsq_anyio.storage.remote import RemotePlace, RemoteStorage

from .nsqds import ROOT, wait_until
from .processes import running
from .raw_objects import Objects, Raw, raw
from .reading import sound_chunks
from .rows import bodies, rows_of, spooled
from .spool_lives import BATCH, LIVES, Damage, Life, Query, after_a_kill_before_the_read
from .storages import EVERY_CASE

pytestmark = pytest.mark.timeout(180)  # HDFS takes its time to start

EVERYTHING = Counter(b"%d" % number for number in range(2 * BATCH))
QUERY = "1f0c0000-0000-4000-8000-000000000001"
OTHER = "2b1d0000-0000-4000-8000-000000000002"
NSQD = "127.0.0.1:4150"

OBJECT_STORES = ("s3", "gcs", "azure")
remote = pytest.mark.parametrize("store", [*OBJECT_STORES, "hierarchical", "hdfs"], indirect=True)
on_each = pytest.mark.parametrize("store", ["posix", "s3", "azure", "hdfs"], indirect=True)
on_objects = pytest.mark.parametrize("store", OBJECT_STORES, indirect=True)

DAMAGED = [
    pytest.param(store, life, id=f"{store}-{life.__name__}")
    for store, sample in (
        ("s3", LIVES[3:5]),
        ("gcs", LIVES[3:4]),
        ("azure", LIVES[4:5]),
        ("hdfs", ()),
    )
    for life in (LIVES if EVERY_CASE else sample)
]
"""In which storage and life each object or file is damaged; in HDFS, a life takes minutes."""


def live(life: Life, damage: Damage, directory: Place) -> tuple[Query, SpoolError | None]:
    storage_of(directory).make(directory)
    with pytest.MonkeyPatch.context() as patch:
        query = Query(directory, patch)
        try:
            life(query, damage)
        except SpoolError as error:
            return query, error
    return query, None


def nothing(_spool: Place) -> None:
    """Harm nothing."""


@remote
@pytest.mark.parametrize("life", LIVES if EVERY_CASE else LIVES[1:3], ids=lambda life: life.__name__)
def test_without_damage_each_row_comes_once(life: Life, store: Place) -> None:
    query, error = live(life, nothing, store)
    assert error is None
    assert (Counter(query.sink), query.waiting) == (EVERYTHING, [])


@on_objects
def test_a_query_whose_puts_meet_other_requests_goes_on(
    store: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a busy bucket: each marker and chunk is refused once, for a reason other than its name."""
    put = obstore.put
    refused: set[str] = set()

    def refuse_once(client: Any, key: str, *content: Any, **options: Any) -> object:
        if key.endswith((MARKER, ".arrow")) and key not in refused:
            refused.add(key)
            raise AlreadyExistsError("status code: 409 Conflict: <Code>ConditionalRequestConflict</Code>")
        return put(client, key, *content, **options)

    monkeypatch.setattr(obstore, "put", refuse_once)
    query, error = live(after_a_kill_before_the_read, nothing, store)
    assert error is None
    assert (Counter(query.sink), query.waiting) == (EVERYTHING, [])
    assert any(key.endswith(MARKER) for key in refused)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("store", "life"), DAMAGED, indirect=["store"])
def test_damage_of_any_object_is_never_silent(life: Life, store: Place) -> None:
    sizes: dict[str, int] = {}
    live(life, lambda spool: sizes.update(raw(spool).sizes()), store / "unharmed")
    if isinstance(storage_of(store), ObjectStorage):
        assert sum(key.endswith(MARKER) for key in sizes) >= 6, (
            "the spool's, the epoch's, and two a partition"
        )
    else:
        # Before the first read there are the plan, the description and the lease.
        assert len(sizes) >= (3 if life is after_a_kill_before_the_read else 6)
    failures: list[str] = []
    for number, (key, size) in enumerate(sizes.items()):
        for harm in (Raw.remove, Raw.truncate, Raw.flip) if size else (Raw.remove,):
            failure = harmed(life, store / f"{number}-{harm.__name__}", harm, number)
            if failure:
                failures.append(f"{harm.__name__} {key}: {failure}")
    assert not failures, "\n".join(failures)


def harmed(life: Life, directory: Place, harm: Callable[[Raw, str], None], number: int) -> str | None:
    """Live with the damage of one object; return what was silent, or blamed on another one."""
    touched: list[str] = []

    def damage(spool: Place) -> None:
        # Names of leases and records differ from life to life, their places do not.
        parts = raw(spool)
        key = parts.names()[number]
        harm(parts, key)
        touched.append(f"{spool}/{key}")

    query, error = live(life, damage, directory)
    if error is None:
        lost, more = EVERYTHING - query.accounted(), query.accounted() - EVERYTHING
        return f"{lost.total()} lost, {more.total()} too many, and no error" if lost or more else None
    place, _, name = touched[0].rpartition("/")
    # What is noted of a chunk says which chunk it is.
    chunk = f"{place.removesuffix('.record')}/{name[:6]}.arrow" if place.endswith(".record") else touched[0]
    return None if error.path in {touched[0], chunk} or touched[0] in str(error) else f"blamed on {error}"


@pytest.mark.parametrize("store", ["hdfs"], indirect=True)
def test_files_and_directories_that_vanish_from_hdfs_are_named(store: Place) -> None:
    spool = Spool.create(str(store), QUERY, "clicks", "spark")
    plan = [(NSQD, 20)]
    storage = storage_of(spool.path)
    for epoch, lost in enumerate(["", "plan.json", "0", "0.record", "0/000001.arrow"], 1):
        spool.begin(epoch, plan)
        partition = spool.partition(epoch, 0)
        for number in range(2):
            partition.store_chunk(number, rows_of([b"a"]))
        partition.end(2)
        place = spool.path / str(epoch) / lost if lost else spool.path / str(epoch)
        storage.delete(place)
        with pytest.raises(SpoolError) as caught:
            spool.check(epoch, plan)
            spooled(partition)
        assert caught.value.path == str(place)


@remote
def test_a_late_attempt_at_a_committed_batch_is_superseded(store: Place) -> None:
    spool = Spool.create(str(store), QUERY, "clicks", "spark")
    spool.begin(1, [(NSQD, 20)])
    partition = spool.partition(1, 0)
    partition.store_chunk(0, rows_of([b"a"]))
    partition.end(1)
    with pytest.raises(NumberTaken):
        partition.store_chunk(1, rows_of([b"late"]))
    spool.commit(1)
    for attempt in (
        lambda: partition.store_chunk(1, rows_of([b"late"])),
        partition.stored,
        lambda: spooled(partition),
    ):
        with pytest.raises(AttemptSuperseded, match="Spark has committed this batch"):
            attempt()
    assert spool.epochs() == []


@on_objects
@pytest.mark.parametrize("is_mark_lost", [False, True])
def test_a_late_attempt_that_puts_its_chunk_after_the_deletion_is_told(
    store: Place, monkeypatch: pytest.MonkeyPatch, is_mark_lost: bool
) -> None:
    """It had looked before, and its number is free again: its messages must not be finished."""
    spool = Spool.create(str(store), QUERY, "clicks", "spark")
    spool.begin(1, [(NSQD, 20)])
    partition = spool.partition(1, 0)
    partition.store_chunk(0, rows_of([b"a"]))
    partition.end(1)
    create = ObjectStorage.create
    pending = [True]

    def commit_and_create(self: ObjectStorage, target: RemotePlace, content: bytes) -> bool:
        if pending and target.name.endswith(".arrow"):
            pending.clear()
            spool.commit(1)
            if is_mark_lost:
                storage_of(store).remove(
                    *(file for file in storage_of(store).files(store) if "committed" in file.name)
                )
        return create(self, target, content)

    monkeypatch.setattr(ObjectStorage, "create", commit_and_create)
    expected = SpoolDamaged if is_mark_lost else AttemptSuperseded
    with pytest.raises(expected):
        partition.store_chunk(0, rows_of([b"late"]))
    if not is_mark_lost:
        # What it leaves counts as nothing, and goes with the next commit.
        (info,) = find_spools(store, check=True)
        assert (info.state, info.rows, info.epochs) == ("sound", 0, 0)
        assert sound_chunks(info) == []
        spool.begin(2, [(NSQD, 20)])
        spool.commit(2)
        assert [key for key in Objects(spool.path).names() if key[0].isdigit()] == []


@on_objects
def test_a_killed_commit_is_made_good(store: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool.create(str(store), QUERY, "clicks", "spark")
    remove = ObjectStorage.remove
    for kills in range(1, 6):
        spool.begin(kills, [(NSQD, 20)])
        partition = spool.partition(kills, 0)
        partition.store_chunk(0, rows_of([b"a"]))
        partition.end(1)
        left = [kills]

        def die(self: ObjectStorage, *files: RemotePlace, left: list[int] = left) -> None:
            left[0] -= 1
            if not left[0]:
                remove(self, *files[: len(files) // 2])
                raise KeyboardInterrupt
            remove(self, *files)

        with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
            patch.setattr(ObjectStorage, "remove", die)
            spool.commit(kills)
        (info,) = find_spools(store, check=True)
        assert (info.state, info.rows) == ("sound", 0)
        spool.commit(kills)
        assert Objects(spool.path).names() == sorted([MARKER, f"committed-{kills}", "query.json"])


@on_objects
@pytest.mark.parametrize("kills", range(1, 12))
def test_an_epoch_that_was_half_made_is_made(
    store: Place, monkeypatch: pytest.MonkeyPatch, kills: int
) -> None:
    spool = Spool.create(str(store), QUERY, "clicks", "spark")
    create = ObjectStorage.create
    left = [kills]

    def die(self: ObjectStorage, target: RemotePlace, content: bytes) -> bool:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        return create(self, target, content)

    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(ObjectStorage, "create", die)
        spool.begin(1, [(NSQD, 10), (NSQD, 10)])
    spool.begin(1, [(NSQD, 9)])
    spool.check(1, [(NSQD, 9)])
    assert spool.plan(1) == [(NSQD, 9)]
    assert [key for key in Objects(spool.path).names() if key.startswith("1/1")] == []


@remote
def test_a_lease_is_renewed_and_released(store: Place) -> None:
    storage = storage_of(store)
    assert holder(store, time_of(store)) is None
    held = Lease(renew_every=0.2)
    held.hold(store)
    (entry,) = storage.entries(store)
    written = storage.status(store / entry.name).modified
    assert "seen " in str(holder(store, time_of(store)))
    wait_until(lambda: storage.status(store / entry.name).modified > written, "the lease to be renewed")
    held.release()
    assert holder(store, time_of(store)) is None


@on_each
def test_the_leases_of_queries_that_were_killed_are_deleted(
    store: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "VALID", 0.0)
    monkeypatch.setattr(lease, "AT_ONCE", 2)
    storage = storage_of(store)
    for number in range(5):
        storage.replace(store / f"lease-{number}", b"{}")
    held = Lease(renew_every=0.1)
    held.hold(store)
    wait_until(lambda: len(storage.entries(store)) == 1, "the others to be deleted")
    assert not storage.exists(store / "lease-0")
    held.release()
    assert storage.entries(store) == []


@on_each
def test_a_process_that_is_ended_by_spark_gives_up_its_lease(store: Place, tmp_path: Path) -> None:
    """It gets a SIGTERM while it waits for Spark to call a method of its reader, and cannot call `stop`."""
    program = (
        "import signal, sys\n"
        "from nsq_anyio.spark.lease import Lease\n"
        "from nsq_anyio.storage.place import place_of\n"
        "held = Lease()\n"
        "held.hold(place_of(sys.argv[1]))\n"
        "print('held', flush=True)\n"
        "signal.pause()\n"
    )
    spool = Spool.create(str(store), QUERY, "clicks", "spark")
    command = [sys.executable, "-c", program, str(spool.path)]
    with running(command, log_path=tmp_path / "log", env=os.environ, cwd=ROOT) as process:
        wait_until(lambda: process.log == "held\n", "the lease")
        assert holder(spool.path, time_of(store)) is not None
        process.process.send_signal(signal.SIGTERM)
        assert process.wait(20) == -signal.SIGTERM
    assert process.log == "held\n"
    assert holder(spool.path, time_of(store)) is None


@pytest.fixture
def lively(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let leases be renewed, and looked at, often."""
    monkeypatch.setattr(stream_reader, "Lease", partial(Lease, renew_every=0.1))
    monkeypatch.setattr(RemoteStorage, "poll_interval", 0.2)


@on_each
@pytest.mark.usefixtures("lively")
def test_a_second_driver_does_not_replace_a_plan(store: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubernetes has begun another pod, and the first one lives on: Spark may log the plan of either."""
    query = Query(store, monkeypatch)
    first, second = query.reader(), query.reader()
    start = first.initialOffset()
    planned = query.plan(first, start)
    refusal = "is in use by a query.*, too: only one driver may run a query from a checkpoint"
    with pytest.raises(SpoolError, match=refusal):
        second.latestOffset(start, ReadMaxRows(10))
    second.stop()
    query.sink += query.read(first, start, planned)
    # Now the second one has read the log, and the first one is late: it is not told to begin anew.
    first.stop()
    second = query.reader()
    following = query.plan(second, planned)
    late = query.reader()
    query.sink += query.read(second, planned, following)
    query.waiting.append(b"later")
    for is_committed in (False, True):
        if is_committed:
            second.commit(following)
        with pytest.raises(SpoolError, match=refusal):
            late.latestOffset(planned, ReadMaxRows(10))
    late.stop()
    second.stop()
    assert (Counter(query.sink), query.waiting) == (EVERYTHING, [b"later"])


@on_each
@pytest.mark.usefixtures("lively")
def test_the_plan_of_a_driver_that_was_killed_is_replaced(
    store: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease is not renewed, so that it expires."""
    query = Query(store, monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(stream_reader, "Lease", partial(Lease, renew_every=3600))
        killed = query.reader()
    start = killed.initialOffset()
    query.plan(killed, start)
    monkeypatch.setattr(lease, "VALID", 2.0)
    restarted = query.reader()
    planned = query.plan(restarted, start)
    query.sink += query.read(restarted, start, planned)
    restarted.stop()
    killed.stop()
    assert len(query.sink) == BATCH


@remote
def test_spools_are_listed_and_deleted(store: Place) -> None:
    spool = Spool.create(str(store), QUERY, "clicks", "spark")
    spool.begin(1, [(NSQD, 5), (NSQD, 5)])
    for number in range(2):
        partition = spool.partition(1, number)
        partition.store_chunk(0, rows_of([b"a", b"b"]))
        partition.end(1)
    Spool.create(str(store), OTHER, "views", "spark")
    storage_of(store).make(store / "lost+found")
    first, second = find_spools(str(store))
    assert (first.uuid, first.topic, first.state, first.rows, first.epochs) == (
        QUERY,
        "clicks",
        "unchecked",
        4,
        1,
    )
    assert first.bytes > 0
    assert bodies(chunk.batch for chunk in sound_chunks(first)) == [b"a", b"b"] * 2
    assert (second.topic, second.rows) == ("views", 0)
    delete(first)
    assert [info.topic for info in find_spools(store)] == ["views"]
    assert not storage_of(store).exists(spool.path)
    with pytest.raises(SpoolError):
        delete(first)
    with pytest.raises(SpoolError):
        find_spools(store / "missing")


def test_the_place_of_a_partition_is_the_same_in_each_storage() -> None:
    assert Partition(RemotePlace("s3://bucket", ("spools", "query", "1", "0"))).record.name == "0.record"
