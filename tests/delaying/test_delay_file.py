"""The file of delayed messages: what it keeps, in which order, and when it cannot be used."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from nsq_anyio.delaying.delay_file import DelayedMessage, DelayFile, Selection, TopicDelays, WaitingMessage
from nsq_anyio.errors import DelayFileUnusable, InvalidOption

NOW = 1_800_000_000.0
FIRST = WaitingMessage(1, "t", NOW, 5, 0, None, NOW)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "delays"


@pytest.fixture
def file(path: Path) -> Iterator[DelayFile]:
    with closing(DelayFile(path, writer=True)) as file:
        yield file


def message(number: int, at: float = NOW, topic: str = "t", body: bytes = b"") -> DelayedMessage:
    return DelayedMessage(topic, at, body or f"body{number}".encode(), f"127.0.0.1:4150/{number:016x}")


def listed(file: DelayFile, selection: Selection | None = None, limit: int | None = None) -> list[int]:
    return [each.id for each in file.waiting(selection or Selection(), limit)]


def test_what_is_stored_is_due_at_its_time(file: DelayFile) -> None:
    assert file.store([message(1)]) == 1
    assert file.due(NOW - 0.000001, limit=10, max_bytes=100) == []
    assert file.due(NOW, limit=10, max_bytes=100) == [(FIRST, b"body1")]
    assert file.next_at() == NOW
    assert file.body(1) == b"body1"


def test_a_restart_keeps_everything(path: Path) -> None:
    with closing(DelayFile(path, writer=True)) as file:
        file.store([message(1)])
    with closing(DelayFile(path, writer=True)) as file:
        assert list(file.waiting(Selection())) == [FIRST]
        assert file.topics() == [TopicDelays("t", 1, 5, NOW, 0)]


def test_a_redelivery_is_stored_once(file: DelayFile) -> None:
    assert file.store([message(1), message(2)]) == 2
    assert file.store([message(2), message(3), message(3)]) == 1
    assert file.topics() == [TopicDelays("t", 3, 15, NOW, 0)]


def test_a_deleted_message_is_gone_and_its_number_is_not_used_again(file: DelayFile) -> None:
    file.store([message(1), message(2, NOW + 1)])
    file.delete([1, 2, 7])
    assert (file.topics(), file.next_at(), file.body(1)) == ([], None, None)
    file.store([message(3)])
    assert listed(file) == [3]


def test_the_earliest_topic_comes_first(file: DelayFile) -> None:
    file.store([message(1, NOW - 1, "late"), message(2, NOW - 5, "early"), message(3, NOW - 2, "early")])
    found = [(waiting.topic, waiting.id) for waiting, _ in file.due(NOW, limit=10, max_bytes=100)]
    assert found == [("early", 2), ("early", 3), ("late", 1)]
    assert [waiting.id for waiting, _ in file.due(NOW, limit=2, max_bytes=100)] == [2, 3]
    assert [waiting.id for waiting, _ in file.due(NOW, limit=9, max_bytes=9, without={"early"})] == [1]
    assert file.next_at(without={"early"}) == NOW - 1
    assert file.next_at(without={"early", "late"}) is None


def test_one_message_is_due_however_large_it_is(file: DelayFile) -> None:
    file.store([message(1, body=b"x" * 100), message(2)])
    assert [waiting.id for waiting, _ in file.due(NOW, limit=10, max_bytes=10)] == [1]
    assert [waiting.id for waiting, _ in file.due(NOW, limit=10, max_bytes=105)] == [1, 2]


def test_a_refused_message_waits_for_its_next_try(file: DelayFile) -> None:
    file.store([message(1), message(2)])
    file.put_off([1, 9], NOW + 60, "E_BAD_TOPIC" + "x" * 1000)
    assert [waiting.id for waiting, _ in file.due(NOW, limit=10, max_bytes=100)] == [2]
    ((waiting, _),) = file.due(NOW + 60, limit=10, max_bytes=100, without=())[1:]
    assert (waiting.id, waiting.at, waiting.due, waiting.tries) == (1, NOW, NOW + 60, 1)
    assert waiting.error is not None
    assert len(waiting.error) == 500
    file.put_off([1], NOW + 90, "again")
    assert file.topics() == [TopicDelays("t", 2, 10, NOW, 1)]
    file.delete([1])
    assert file.topics() == [TopicDelays("t", 1, 5, NOW, 0)]


def test_messages_are_listed_in_the_order_of_their_times(file: DelayFile) -> None:
    chance = random.Random(1)
    times = [NOW + chance.randrange(300) for _ in range(2000)]
    file.store([message(number, at, f"t{number % 3}") for number, at in enumerate(times)])
    expected = sorted(range(1, 2001), key=lambda id: (times[id - 1], id))
    assert listed(file) == expected
    assert listed(file, limit=7) == expected[:7]
    of_topic = [id for id in expected if (id - 1) % 3 == 1]
    assert listed(file, Selection(topic="t1")) == of_topic
    within = [id for id in of_topic if NOW + 10 <= times[id - 1] < NOW + 50]
    assert listed(file, Selection("t1", after=NOW + 10, before=NOW + 50)) == within


def test_one_message_is_selected_by_its_number(file: DelayFile) -> None:
    file.store([message(1), message(2, topic="u")])
    assert listed(file, Selection(id=2)) == [2]
    assert listed(file, Selection("u", id=2)) == [2]
    assert listed(file, Selection("t", id=2)) == []
    assert listed(file, Selection(id=2, before=NOW)) == []
    assert listed(file, Selection(id=3)) == []


@pytest.mark.parametrize("at", [0.1, 1.005, NOW + 0.1, NOW + 0.123457, 1e11 / 3, 253402300799.0])
def test_no_message_is_early_and_no_time_drifts(file: DelayFile, at: float) -> None:
    file.store([message(1, at)])
    (waiting,) = file.waiting(Selection())
    assert at <= waiting.at < at + 0.0001
    assert [each.id for each, _ in file.due(waiting.at, limit=1, max_bytes=9)] == [1]
    file.put_off([1], waiting.at, "")
    (again,) = file.waiting(Selection())
    assert again.due == waiting.at


@pytest.mark.parametrize("at", [-5.0, float("inf"), 1e300])
def test_a_time_out_of_the_range_of_the_file(file: DelayFile, at: float) -> None:
    file.store([message(1, at)])
    assert [each.id for each, _ in file.due(NOW, limit=1, max_bytes=9)] == ([1] if at < 0 else [])


def test_a_selection_with_invalid_values() -> None:
    with pytest.raises(InvalidOption, match="id=-1 is not valid"):
        Selection(id=-1)
    with pytest.raises(InvalidOption, match="before=nan is not valid"):
        Selection(before=float("nan"))


def test_cancelling_leaves_what_is_due(file: DelayFile) -> None:
    file.store([message(1), message(2, NOW + 1), message(3, NOW + 2, "u"), message(4, NOW + 3)])
    assert file.cancel(Selection(id=1), lambda: NOW) == 0
    assert file.cancel(Selection(id=2), lambda: NOW) == 1
    assert file.cancel(Selection(before=NOW + 3), lambda: NOW) == 1
    assert listed(file) == [1, 4]
    assert file.cancel(Selection("t", after=NOW), lambda: NOW) == 1
    assert listed(file) == [1]


def test_cancelling_many_asks_the_clock_again(file: DelayFile) -> None:
    file.store([message(number, NOW + number) for number in range(1, 1201)])
    times = iter([NOW, NOW + 700, NOW + 1150])  # as when the transactions take long
    assert file.cancel(Selection(), lambda: next(times)) == 500 + 500 + 0
    assert len(listed(file)) == 200


def test_another_process_may_look_and_cancel(file: DelayFile, path: Path) -> None:
    file.store([message(1), message(2, NOW + 9)])
    with closing(DelayFile(path, writer=False)) as other:
        assert other.cancel(Selection(), lambda: NOW) == 1
        assert other.topics() == file.topics() == [TopicDelays("t", 1, 5, NOW, 0)]
        file.store([message(3, topic="u")])
        assert [each.topic for each in other.waiting(Selection())] == ["t", "u"]


# Files that cannot be used


def unusable(path: Path, *, writer: bool = True) -> DelayFileUnusable:
    with pytest.raises(DelayFileUnusable) as caught:
        DelayFile(path, writer=writer)
    assert str(path) in str(caught.value)
    return caught.value


def test_one_service_writes_a_file(file: DelayFile, path: Path) -> None:
    other_name = path.with_name("link")
    other_name.symlink_to(path)
    for name in (path, other_name):
        assert "another service uses it; each service needs" in unusable(name).reason
    file.close()
    DelayFile(path, writer=True).close()


def test_only_a_service_creates_a_file(path: Path) -> None:
    assert "there is no such file" in unusable(path, writer=False).reason
    path.touch()
    assert "no service has stored anything in it" in unusable(path, writer=False).reason
    assert path.read_bytes() == b""


def test_a_missing_directory(tmp_path: Path) -> None:
    error = unusable(tmp_path / "missing" / "file")
    assert "No such file or directory" in error.reason


def test_a_newer_version_is_left_as_it_is(path: Path) -> None:
    DelayFile(path, writer=True).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 2")
    before = path.read_bytes()
    for writer in (True, False):
        assert "it has version 2, and this release knows version 1; update nsq-anyio" in str(
            unusable(path, writer=writer)
        )
    assert path.read_bytes() == before


def test_a_database_of_another_program(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE mine (value)")
    before = path.read_bytes()
    assert "it is a database of another program" in unusable(path).reason
    assert path.read_bytes() == before


@pytest.mark.parametrize("size", [1, 511, 6000])
def test_no_database(path: Path, size: int) -> None:
    path.write_bytes(b"x" * size)
    error = unusable(path)
    assert "it is no database of SQLite; name another file" in error.reason
    assert not error.temporary
    assert path.read_bytes() == b"x" * size


def test_a_damaged_file(path: Path) -> None:
    with closing(DelayFile(path, writer=True)) as file:
        file.store([message(number, NOW, body=b"x" * 3000) for number in range(200)])
    with path.open("r+b") as damaged:
        damaged.seek(4096)
        damaged.write(os.urandom(path.stat().st_size - 4096))
    with closing(DelayFile(path, writer=True)) as file, pytest.raises(DelayFileUnusable) as caught:
        file.due(NOW, limit=500, max_bytes=2**30)
    assert "it is damaged; move it away" in caught.value.reason
    assert not caught.value.temporary


def test_a_damaged_row(file: DelayFile) -> None:
    file.store([message(1)])
    file._connection.execute("UPDATE message SET at = x'00', tries = 'x'")
    for use in (
        lambda: file.due(NOW, limit=1, max_bytes=1),
        lambda: file.delete([1]),
        lambda: list(file.waiting(Selection())),
    ):
        with pytest.raises(DelayFileUnusable, match="it is damaged; move it away"):
            use()


def test_a_deleted_file_takes_no_more(file: DelayFile, path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    with pytest.raises(DelayFileUnusable):
        file.store([message(1)])
    path.touch()
    with pytest.raises(DelayFileUnusable, match="it was deleted or replaced while in use") as caught:
        file.store([message(1)])
    assert not caught.value.temporary


def test_a_closed_file(file: DelayFile) -> None:
    file.close()
    with pytest.raises(DelayFileUnusable, match="closed"):
        file.topics()


def test_a_full_disk_takes_no_more_but_gives_back(file: DelayFile) -> None:
    file.store([message(number, body=b"x" * 2000) for number in range(100)])
    (pages,) = file._connection.execute("PRAGMA page_count").fetchone()
    file._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(DelayFileUnusable, match="make room on the disk") as caught:
        file.store([message(number, body=b"x" * 2000) for number in range(100, 200)])
    assert caught.value.temporary
    assert [(topic.waiting, topic.bytes) for topic in file.topics()] == [(100, 200_000)]
    file.delete(range(1, 51))
    assert file.store([message(number, body=b"x" * 2000) for number in range(100, 120)]) == 20


def test_some_room_stays_free_for_deletions(file: DelayFile, monkeypatch: pytest.MonkeyPatch) -> None:
    file.store([message(1), message(2)])
    monkeypatch.setattr(shutil, "disk_usage", Mock(return_value=SimpleNamespace(free=1000)))
    with pytest.raises(
        DelayFileUnusable, match="1000 bytes of its disk are free, and 33554432 must"
    ) as caught:
        file.store([message(3)])
    assert caught.value.temporary
    file.delete([1])
    file.put_off([2], NOW + 1, "refused")
    assert listed(file) == [2]


# Crashes


@pytest.mark.parametrize("moment", [0, 3])
def test_kill_9_loses_nothing_that_was_stored(path: Path, moment: int) -> None:
    code = """
        import sys
        from nsq_anyio.delaying.delay_file import DelayedMessage, DelayFile

        file = DelayFile(sys.argv[1], writer=True)
        number = 0
        while True:
            messages = [DelayedMessage("t", n, b"body", str(n)) for n in range(number, number + 20)]
            file.store(messages)
            print(number, flush=True)
            file.delete([number + 1])
            number += 20
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(1 + moment)]
    process.send_signal(signal.SIGKILL)
    lines += process.stdout.readlines()
    process.wait()
    process.stdout.close()
    stored = int(lines[-1]) + 20
    with closing(DelayFile(path, writer=True)) as file:
        waiting = listed(file)
        (topic,) = file.topics()
    assert topic.waiting == len(waiting)
    missing = set(range(1, stored + 1)) - set(waiting)
    assert missing <= set(range(1, stored + 1, 20))
    assert waiting[-1] in {stored, stored + 20}
