"""The history in a file: what a restart brings back, and files that cannot be used."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from nsq_anyio.monitoring import History, HistoryFile, HistoryFileUnusable, history_kept

from .test_history import BEGIN, topic, view


def filled(*, minutes: int = 30, interval: float = 5.0) -> History:
    history = History(interval=interval)
    for second in range(0, minutes * 60, 15):
        history.record(view(BEGIN + second, topic("t", depth=second), topic("u")))
    return history


def restarted(path: Path, history: History) -> History:
    with closing(HistoryFile.open(path)) as file:
        file.load(history)
    return history


def test_a_restart_brings_back_every_series(tmp_path: Path) -> None:
    before = filled()
    with closing(HistoryFile.open(tmp_path / "history")) as file:
        file.save(before)
    after = restarted(tmp_path / "history", History())
    assert len(after) == len(before) == 5
    for key in (("", ""), ("t", ""), ("t", "c"), ("u", "")):
        assert repr(after.series(*key)) == repr(before.series(*key))
    for history in (before, after):  # and it goes on as if nothing had been
        history.record(view(BEGIN + 3600, topic("t", depth=7)))
    assert repr(after.series("t")) == repr(before.series("t"))


def connected(monkeypatch: pytest.MonkeyPatch, prepare: Callable[[sqlite3.Connection], object]) -> None:
    """Have each connection to SQLite prepared."""
    connect = sqlite3.connect

    def connect_prepared(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **kwargs)
        prepare(connection)
        return connection

    monkeypatch.setattr(sqlite3, "connect", connect_prepared)


def test_only_what_has_changed_is_written_and_what_is_gone_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = filled()
    path = tmp_path / "history"
    statements: list[str] = []
    connected(monkeypatch, lambda connection: connection.set_trace_callback(statements.append))
    with closing(HistoryFile.open(path)) as file:
        file.save(history)
        size = path.stat().st_size
        assert [each for each in statements if each.startswith("REPLACE")]
        statements.clear()
        file.save(history)
        assert not [each for each in statements if each.startswith(("REPLACE", "DELETE"))]
        history.record(view(BEGIN + 2 * 86400, topic("t")))
        file.save(history)
        assert [each for each in statements if each.startswith("DELETE")]
        assert path.stat().st_size <= size
    assert restarted(path, History()).series("u").times == []


def test_what_was_kept_in_other_steps_is_left_out(tmp_path: Path) -> None:
    with closing(HistoryFile.open(tmp_path / "history")) as file:
        file.save(filled(interval=60.0))
    assert len(restarted(tmp_path / "history", History())) == 0


def test_no_more_series_are_loaded_than_are_kept(tmp_path: Path) -> None:
    with closing(HistoryFile.open(tmp_path / "history")) as file:
        file.save(filled())
    after = restarted(tmp_path / "history", History(most_series=2))
    assert len(after) == 3  # the whole cluster is always kept


def something_else(path: Path) -> None:
    path.write_bytes(b"something else " * 100)


def directory(path: Path) -> None:
    path.mkdir()


def other_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE of_others (id)")


def later_version(path: Path) -> None:
    HistoryFile.open(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 2")


def damaged(path: Path) -> None:
    with closing(HistoryFile.open(path)) as file:
        file.save(filled())
    content = bytearray(path.read_bytes())
    content[5000:9000] = bytes(4000)
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (something_else, "not a database of SQLite"),
        (directory, "unable to open"),
        (other_database, "another program"),
        (later_version, "version 2, not 1"),
        (damaged, "damaged"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(
    tmp_path: Path, make: Callable[[Path], None], reason: str
) -> None:
    path = tmp_path / "history"
    make(path)
    with pytest.raises(HistoryFileUnusable, match=reason) as caught:
        HistoryFile.open(path).close()
    assert str(path) in str(caught.value)


def test_a_file_belongs_to_one_process(tmp_path: Path) -> None:
    with closing(HistoryFile.open(tmp_path / "history")):
        with pytest.raises(HistoryFileUnusable, match="another process uses it"):
            HistoryFile.open(tmp_path / "history")
    HistoryFile.open(tmp_path / "history").close()


@pytest.mark.anyio
async def test_the_end_of_the_block_saves_even_when_cancelled(tmp_path: Path) -> None:
    with anyio.CancelScope() as scope:
        async with history_kept(filled(), tmp_path / "history"):
            scope.cancel()
            await anyio.sleep_forever()
    after = History()
    async with history_kept(after, tmp_path / "history"):
        assert after.series("t").times


@pytest.mark.anyio
async def test_a_full_disk_is_logged_once_and_history_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # SQLite's own way to a disk that is full.
    connected(monkeypatch, lambda connection: connection.execute("PRAGMA max_page_count = 3"))
    history = filled()
    with caplog.at_level(logging.INFO), anyio.fail_after(20):
        async with history_kept(history, tmp_path / "history", every=0.02):
            while "disk is full" not in caplog.text:  # noqa: ASYNC110 - the log is only looked at
                await anyio.sleep(0.01)
            await anyio.sleep(0.1)
    assert caplog.text.count("disk is full") == 1
    assert history.series("t").times
