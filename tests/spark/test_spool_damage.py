"""Whatever happens to a part of a spool: no row is lost or wrong without an error that names the part.

Each test is a column of a table: one kind of damage at one time, tried on every file and directory.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from nsq_anyio.spark.chunks import Partition, decode
from nsq_anyio.spark.spool import Spool
from nsq_anyio.spark.spool_admin import delete, find_spools
from nsq_anyio.spark.spool_errors import SpoolDamaged, SpoolError

from .rows import on_disk, rows_of, spooled
from .spool_lives import BATCH, LIVES, Damage, Life, Query

EVERYTHING = Counter(b"%d" % number for number in range(2 * BATCH))


def remove(path: Path) -> Path | None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    return path


def truncate(path: Path) -> Path | None:
    """Half of a file; a directory loses all that is in it."""
    if path.is_dir():
        for inner in path.iterdir():
            remove(inner)
    else:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return path


def flip(path: Path) -> Path | None:
    """One bit of the middle byte."""
    if path.is_dir() or not path.stat().st_size:
        return None
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    return path


def copy_over_neighbour(path: Path) -> Path | None:
    """The next one of the same kind gets the content of this one."""
    kind = (path.is_dir(), path.suffix)
    family = sorted(found for found in path.parent.iterdir() if (found.is_dir(), found.suffix) == kind)
    neighbour = family[(family.index(path) + 1) % len(family)]
    if neighbour == path:
        return None
    remove(neighbour)
    if path.is_dir():
        shutil.copytree(path, neighbour)
    else:
        shutil.copyfile(path, neighbour)
    return neighbour


def replace_by_file(path: Path) -> Path | None:
    remove(path)
    path.write_bytes(b"nothing of a spool" * 100)
    return path


def replace_by_directory(path: Path) -> Path | None:
    remove(path)
    path.mkdir()
    (path / "foreign").write_bytes(b"nothing of a spool")
    return path


DAMAGES = (remove, truncate, flip, copy_over_neighbour, replace_by_file, replace_by_directory)


def parts(spool: Path) -> list[Path]:
    """The spool itself, and each file and directory in it, by their relative paths."""
    return [Path(), *sorted(path.relative_to(spool) for path in spool.rglob("*"))]


def live(life: Life, damage: Damage, directory: Path) -> tuple[Query, SpoolError | None]:
    directory.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        query = Query(directory, patch)
        try:
            life(query, damage)
        except SpoolError as error:
            return query, error
    return query, None


@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.__name__)
def test_without_damage_each_row_comes_once(life: Life, tmp_path: Path) -> None:
    query, error = live(life, parts, tmp_path / "query")
    assert error is None
    assert (Counter(query.sink), query.waiting) == (EVERYTHING, [])


@pytest.mark.timeout(120)
@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.__name__)
@pytest.mark.parametrize("harm", DAMAGES, ids=lambda harm: harm.__name__)
def test_damage_is_never_silent(life: Life, harm: Callable[[Path], Path | None], tmp_path: Path) -> None:
    found: list[Path] = []
    live(life, lambda spool: found.extend(parts(spool)), tmp_path / "unharmed")
    assert len(found) > 5
    failures: list[str] = []
    for number, part in enumerate(found):
        touched: list[Path] = []

        def damage(spool: Path, number: int = number, touched: list[Path] = touched) -> None:
            # Names of leases and records differ from life to life, their places do not.
            touched.extend(filter(None, [harm(spool / parts(spool)[number])]))

        query, error = live(life, damage, tmp_path / str(number))
        if error is None:
            if query.accounted() != EVERYTHING:
                lost, more = EVERYTHING - query.accounted(), query.accounted() - EVERYTHING
                failures.append(f"{part}: {lost.total()} lost, {more.total()} too many, and no error")
        elif not touched or not _is_named(touched[0], error):
            failures.append(f"{part}: blamed on {error}")
        _clear(tmp_path / str(number))
    assert not failures, "\n".join(failures)


def _is_named(harmed: Path, error: SpoolError) -> bool:
    """Whether an error leads to what was harmed: by its path, by one inside, or by the directory around.

    What is noted of a chunk is a second name of the chunk's file.
    """
    named = Path(error.path)
    if harmed.parent.suffix == ".record":
        harmed = harmed.parent.with_suffix("") / f"{harmed.name[:6]}.arrow"
    return named.is_relative_to(harmed) or harmed.is_relative_to(named) or str(harmed) in str(error)


def _clear(directory: Path) -> None:
    """What is listed as a spool can be deleted, whatever it has suffered."""
    for info in find_spools(directory, check=True):
        delete(info)
    assert not [path for path in directory.iterdir() if path.is_dir() and any(path.iterdir())]


@pytest.fixture
def partition(tmp_path: Path) -> Partition:
    """A partition that has ended after 40 rows."""
    spool = Spool.create(str(tmp_path), "query", "clicks", "spark")
    spool.begin(1, [("127.0.0.1:4150", 40)])
    found = spool.partition(1, 0)
    for number in range(2):
        found.store_chunk(number, rows_of([b"%d" % number] * 20))
    found.end(2)
    return found


@pytest.mark.parametrize("number", [0, 2])
def test_each_byte_of_a_chunk_counts(partition: Partition, number: int) -> None:
    path = on_disk(partition.path) / f"{number:06d}.arrow"
    content = path.read_bytes()
    place = "query/1/0"
    assert decode(content, path, place, number).record.rows == (0 if number else 20)
    for position in range(len(content)):
        for altered in (content[position] ^ 1, content[position] ^ 0xFF, 0):
            if altered != content[position]:
                damaged = content[:position] + bytes([altered]) + content[position + 1 :]
                with pytest.raises(SpoolDamaged):
                    decode(damaged, path, place, number)
        with pytest.raises(SpoolDamaged):
            decode(content[:position], path, place, number)
    with pytest.raises(SpoolDamaged):
        decode(content + b"\0", path, place, number)


@pytest.mark.parametrize("name", ["query.json", "1/plan.json"])
def test_each_byte_of_a_document_counts(partition: Partition, name: str, tmp_path: Path) -> None:
    path = tmp_path / "query" / name
    content = path.read_bytes()

    def look() -> None:
        Spool.open(str(tmp_path), "query", "clicks", "spark").check(1, [("127.0.0.1:4150", 40)])

    look()
    for position in range(len(content)):
        for damaged in (
            content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :],
            content[:position],
        ):
            path.write_bytes(damaged)
            with pytest.raises(SpoolError) as caught:
                look()
            assert caught.value.path == str(path)


def test_a_foreign_chunk_is_named_and_not_the_spool_dir(partition: Partition) -> None:
    """One behind the end, which would be the next number of nobody."""
    (on_disk(partition.path) / "000007.arrow").write_bytes(b"nothing of a spool")
    for look in (partition.stored, lambda: spooled(partition)):
        with pytest.raises(SpoolDamaged, match="is not a chunk of a spool") as caught:
            look()
        assert caught.value.path == str(partition.path / "000007.arrow")


@pytest.mark.parametrize("name", ["notes.txt", "1.arrow", "0000001.arrow", "x.arrow", ".000001.arrow-0f"])
def test_foreign_files_beside_the_chunks_are_nobody_s(partition: Partition, name: str) -> None:
    before = spooled(partition)
    for directory in (partition.path, partition.record):
        (on_disk(directory) / name).write_bytes(b"nothing of a spool")
    assert spooled(partition) == before
    assert partition.stored().ended


def test_a_record_that_tells_of_another_chunk_is_named(partition: Partition) -> None:
    (on_disk(partition.record) / "000001-20-20-00000000").touch()
    with pytest.raises(SpoolDamaged, match="records two chunks with number 1") as caught:
        spooled(partition)
    assert caught.value.path == str(partition.record)


def test_the_last_chunk_and_the_end_are_missed_by_their_records(partition: Partition) -> None:
    for number in (1, 2):
        (on_disk(partition.path) / f"{number:06d}.arrow").unlink()
    for look in (partition.stored, lambda: spooled(partition)):
        with pytest.raises(SpoolDamaged, match=r"/000001-20-20-\w+ records 20 rows") as caught:
            look()
        assert caught.value.path == str(partition.path / "000001.arrow")


def test_a_record_that_a_killed_attempt_left_out_is_added(partition: Partition) -> None:
    records = sorted(on_disk(partition.record).iterdir())
    for path in records:
        path.unlink()
    assert partition.stored().rows == 40
    assert sorted(on_disk(partition.record).iterdir()) == records
