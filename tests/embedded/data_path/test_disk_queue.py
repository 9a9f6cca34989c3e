"""Queues in files: their format, where they go on, and how damaged files are set aside."""

import errno
import logging
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from nsq_anyio.embedded.data_path.disk_queue import DiskQueue, Floor, QueueLimits

LIMITS = QueueLimits(max_bytes_per_file=200, max_size=26 + 100, sync_every=10)
ALL = 10_000


@dataclass
class Stored:
    body: bytes
    id: bytes = b"0123456789abcdef"
    timestamp: int = 1_500_000_000_000_000_000
    attempts: int = 3


def messages(*bodies: bytes) -> list[Stored]:
    return [Stored(body) for body in bodies]


def numbers(count: int, start: int = 0) -> list[bytes]:
    return [b"%06d" % number for number in range(start, start + count)]


def make(directory: Path, limits: QueueLimits = LIMITS) -> DiskQueue:
    return DiskQueue(directory, "t", limits)


def read(queue: DiskQueue, count: int = ALL) -> list[bytes]:
    return [record.body for record in queue.read(count, 2**30)]


def data(directory: Path) -> list[Path]:
    return sorted(directory.glob("t.diskqueue.0*.dat"))


def metadata(directory: Path) -> str:
    return (directory / "t.diskqueue.meta.dat").read_text()


def written(directory: Path, bodies: Sequence[bytes], limits: QueueLimits = LIMITS) -> None:
    queue = make(directory, limits)
    assert queue.append(messages(*bodies)).error is None
    queue.close()


def test_the_format_is_that_of_nsqd(tmp_path: Path) -> None:
    written(tmp_path, [b"one", b""])
    head = struct.pack(">qH", 1_500_000_000_000_000_000, 3) + b"0123456789abcdef"
    record = struct.pack(">I", 29) + head + b"one" + struct.pack(">I", 26) + head
    assert data(tmp_path) == [tmp_path / "t.diskqueue.000000.dat"]
    assert data(tmp_path)[0].read_bytes() == record
    assert metadata(tmp_path) == f"2\n0,0\n0,{len(record)}\n"
    found = make(tmp_path).read(ALL, ALL)
    assert [(each.timestamp, each.attempts, each.id, each.body) for each in found] == [
        (1_500_000_000_000_000_000, 3, b"0123456789abcdef", b"one"),
        (1_500_000_000_000_000_000, 3, b"0123456789abcdef", b""),
    ]


def test_files_follow_each_other_and_are_removed_once_read(tmp_path: Path) -> None:
    written(tmp_path, numbers(20))  # 36 bytes each: five in a file
    assert [path.stat().st_size for path in data(tmp_path)] == [180] * 4
    queue = make(tmp_path)
    assert read(queue, 7) == numbers(7)
    assert queue.depth == 13
    queue.close()
    assert metadata(tmp_path) == "13\n1,72\n3,180\n"
    assert [path.name[-10:] for path in data(tmp_path)] == ["000001.dat", "000002.dat", "000003.dat"]
    queue = make(tmp_path)
    assert read(queue) == numbers(13, 7)
    assert (queue.depth, read(queue)) == (0, [])
    queue.close()
    assert metadata(tmp_path) == "0\n3,180\n3,180\n"


def test_a_message_larger_than_a_file_has_one_of_its_own(tmp_path: Path) -> None:
    limits = QueueLimits(max_bytes_per_file=50, max_size=10**6)
    bodies = [b"small", b"x" * 500_000, b"small", b"y" * 300_000]
    written(tmp_path, bodies, limits)
    assert len(data(tmp_path)) == 4
    queue = make(tmp_path, limits)
    assert read(queue) == bodies


def test_reading_is_bounded(tmp_path: Path) -> None:
    written(tmp_path, numbers(20), QueueLimits())
    queue = make(tmp_path, QueueLimits())
    assert len(queue.read(ALL, 100)) == 3  # the third one has the hundredth byte
    assert len(queue.read(3, ALL)) == 3
    assert len(queue.read(ALL, 1)) == 1


def test_appended_messages_can_count_as_read(tmp_path: Path) -> None:
    queue = make(tmp_path)
    assert queue.append(messages(b"1", b"2"), take=True).taken
    assert (queue.depth, queue.read_count) == (0, 2)
    assert not queue.append(messages(b"3")).taken
    assert not queue.append(messages(b"4"), take=True).taken  # the third was not read
    assert read(queue) == [b"3", b"4"]
    assert queue.append(messages(b"5"), take=True).taken


def test_what_is_needed_stays(tmp_path: Path) -> None:
    queue = make(tmp_path)
    queue.append(messages(*numbers(12)))
    records = queue.read(ALL, ALL)
    queue.begin(Floor(3, records[3].place))
    queue.persist(sync=False)
    assert metadata(tmp_path) == "9\n0,108\n2,72\n"
    assert len(data(tmp_path)) == 3
    assert read(make(tmp_path)) == numbers(9, 3)  # as after a crash
    queue.begin(Floor(11, records[11].place))
    queue.persist(sync=True)
    assert len(data(tmp_path)) == 1
    queue.close()
    assert metadata(tmp_path) == "0\n2,72\n2,72\n"


def test_sync_every_counts_what_was_written_and_read(tmp_path: Path) -> None:
    queue = make(tmp_path)
    queue.append(messages(*numbers(6)))
    assert not queue.is_sync_due
    read(queue, 4)
    assert queue.is_sync_due
    queue.sync()
    assert not queue.is_sync_due


def test_clearing_removes_everything(tmp_path: Path) -> None:
    queue = make(tmp_path)
    queue.append(messages(*numbers(12)))
    read(queue, 3)
    queue.clear()
    assert (queue.depth, list(tmp_path.iterdir())) == (0, [])
    queue.append(messages(b"after"))
    assert read(make(tmp_path)) == [b"after"]
    queue.close()


def test_a_message_that_is_too_large_is_refused(tmp_path: Path) -> None:
    queue = make(tmp_path)
    places, _, error = queue.append(messages(b"x" * 100, b"x" * 101, b"x"))
    assert (len(places), error is not None and error.errno) == (0, errno.EMSGSIZE)
    assert queue.append(messages(b"x" * 100)).error is None
    assert read(queue) == [b"x" * 100]


def test_a_full_disk_leaves_no_part_of_a_message(tmp_path: Path) -> None:
    queue = make(tmp_path)
    queue.append(messages(*numbers(5)))
    (tmp_path / "t.diskqueue.000001.dat").symlink_to("/dev/full")
    places, _, error = queue.append(messages(*numbers(3, 5)))
    assert (places, error is not None and error.errno) == ([], errno.ENOSPC)
    (tmp_path / "t.diskqueue.000001.dat").unlink()
    assert queue.append(messages(*numbers(3, 8))).error is None
    assert read(queue) == [*numbers(5), *numbers(3, 8)]
    queue.close()


# After a crash.


def test_what_was_written_after_the_metadata_is_read(tmp_path: Path) -> None:
    queue = make(tmp_path)
    queue.append(messages(*numbers(2)))
    queue.persist(sync=False)
    queue.append(messages(*numbers(10, 2)))
    successor = make(tmp_path)
    successor.open()
    assert successor.depth == 12
    successor.append(messages(b"after"))
    assert data(tmp_path)[-1].name == "t.diskqueue.000003.dat"
    assert read(successor) == [*numbers(12), b"after"]
    queue.close()


def test_the_part_of_a_message_at_the_end_is_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written(tmp_path, numbers(3))
    with data(tmp_path)[0].open("ab") as file:
        file.write(struct.pack(">I", 40) + b"torn")
    queue = make(tmp_path)
    queue.append(messages(b"after"))
    caplog.set_level(logging.WARNING)
    assert read(queue) == [*numbers(3), b"after"]
    assert "damaged at 108" in caplog.text
    assert (tmp_path / "t.diskqueue.000000.dat").exists()  # its messages may be in flight
    queue.close()
    assert [path.name for path in tmp_path.glob("*.bad")] == ["t.diskqueue.000000.dat.bad"]
    assert [path.name for path in data(tmp_path)] == ["t.diskqueue.000001.dat"]


# Damaged files.


def test_a_damaged_file_costs_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    written(tmp_path, numbers(15))
    with data(tmp_path)[1].open("r+b") as file:
        file.seek(36)
        file.write(b"\xff\xff\xff\xff")
    queue = make(tmp_path)
    assert read(queue) == [*numbers(6), *numbers(5, 10)]
    assert queue.depth == 0
    assert "damaged at 36" in caplog.text
    queue.close()
    assert [path.name for path in tmp_path.glob("*.bad")] == ["t.diskqueue.000001.dat.bad"]


def test_a_missing_file_costs_no_other(tmp_path: Path) -> None:
    written(tmp_path, numbers(15))
    data(tmp_path)[1].unlink()
    queue = make(tmp_path)
    assert read(queue) == [*numbers(5), *numbers(5, 10)]
    queue.close()


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "12", "5\n0,0\n", "-1\n0,0\n2,180\n", "15\n0,0\n99,0\n", "15\n3,0\n2,180\n"),
        *("15\n1,0\n2,180\n", "15\n0,1\n2,180\n", "15\n0,0\n1,180\n", "15\n0,0\n2,36\n", "15\n0,0\n2,1000\n"),
        *("15\n0,0\n99999999999999999999,0\n", "15\n99,0\n99,0\n", None),
    ],
)
def test_damaged_metadata_cost_no_message(
    tmp_path: Path, text: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    written(tmp_path, numbers(15))
    path = tmp_path / "t.diskqueue.meta.dat"
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    queue = make(tmp_path)
    queue.append(messages(b"after"))
    assert set(read(queue)) == {*numbers(15), b"after"}
    assert queue.depth == 0
    assert caplog.text
    queue.close()
    assert read(make(tmp_path)) == []


def test_metadata_of_one_file_that_count_wrongly(tmp_path: Path) -> None:
    written(tmp_path, numbers(4))
    (tmp_path / "t.diskqueue.meta.dat").write_text("2\n0,36\n0,144\n")
    assert read(make(tmp_path)) == numbers(4)


@pytest.mark.parametrize("depth", [-3, 0, 1, 4, 14])
def test_the_depth_is_a_hint(tmp_path: Path, depth: int) -> None:
    """After a crash of nsqd it stays wrong, through orderly ends, until nsqd has read everything."""
    written(tmp_path, numbers(15))
    (tmp_path / "t.diskqueue.meta.dat").write_text(f"{depth}\n0,0\n2,180\n")
    queue = make(tmp_path)
    queue.open()
    found: list[bytes] = []
    while queue.depth:
        found += read(queue, 1)
        queue.check_depth()
    assert found == numbers(15)
    queue.append(messages(b"after"))
    queue.close()
    assert metadata(tmp_path).startswith("1\n")
    assert read(make(tmp_path)) == [b"after"]


def test_more_messages_than_the_metadata_say_among_held_ones(tmp_path: Path) -> None:
    written(tmp_path, numbers(15))
    (tmp_path / "t.diskqueue.meta.dat").write_text("2\n0,0\n2,180\n")
    queue = make(tmp_path)
    queue.append(messages(b"held", b"held"))
    assert read(queue, 2) == numbers(2)
    queue.check_depth(held=2)
    assert queue.depth == 15


LARGE = QueueLimits(max_bytes_per_file=10_000, max_size=10_000, sync_every=10)


@pytest.mark.parametrize("damage", ["large", "damaged", "plausible"])
@pytest.mark.parametrize("depth", [80, 20])
def test_what_was_read_already_costs_nothing(tmp_path: Path, damage: str, depth: int) -> None:
    """It may be larger than the limit is now, or damaged."""
    queue = make(tmp_path, LARGE)
    queue.append(messages(b"x" * 1000, *numbers(80)))
    queue.read(1, 1)
    queue.close()
    text = metadata(tmp_path)
    assert text == f"80\n0,1030\n0,{1030 + 80 * 36}\n"
    (tmp_path / "t.diskqueue.meta.dat").write_text(text.replace("80\n", f"{depth}\n", 1))
    if damage == "damaged":
        with data(tmp_path)[0].open("r+b") as file:
            file.write(b"\xff\xff\xff\xff")
    if damage == "plausible":
        with data(tmp_path)[0].open("r+b") as file:
            file.write(struct.pack(">I", 1500))
            file.seek(0, os.SEEK_END)
            file.write(struct.pack(">I", 40) + b"torn")
    queue = make(tmp_path, LIMITS if damage == "large" else LARGE)
    queue.append(messages(b"after"))
    assert read(queue) == [*numbers(80), b"after"]
    queue.close()
    assert bool(list(tmp_path.glob("*.bad"))) == (
        damage == "plausible"
    )  # it has a part of a message at its end


@pytest.mark.parametrize("size", [200, 10_000])
def test_damage_costs_no_message_that_is_written_later(tmp_path: Path, size: int) -> None:
    limits = QueueLimits(max_bytes_per_file=size, max_size=126, sync_every=10)
    written(tmp_path, numbers(9), limits)
    with data(tmp_path)[-1].open("r+b") as file:
        file.seek(36)
        file.write(b"\xff\xff\xff\xff")
    queue = make(tmp_path, limits)
    queue.append(messages(b"after"))
    assert read(queue)[-1] == b"after"
    queue.close()


def test_the_files_of_other_queues_are_left_alone(tmp_path: Path) -> None:
    names = ["t", "t.diskqueue.000000.dat", "t:c", "t.diskqueue.meta.dat"]
    for name in names:
        queue = DiskQueue(tmp_path, name, LIMITS)
        queue.append(messages(name.encode()))
        queue.close()
    for name in names:
        (tmp_path / f"{name}.diskqueue.meta.dat").unlink()
        queue = DiskQueue(tmp_path, name, LIMITS)
        assert read(queue) == [name.encode()]
        queue.close()
