"""The page of delayed messages: what waits, what is overdue and why, and files that cannot be read."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from nsq_anyio.delaying import DelayedMessage, DelayFile, Selection

from .hostile import EVIL
from .stage import Stage, nsqd, survey
from .test_every_page import rows

pytestmark = pytest.mark.anyio


def store(path: Path, messages: Sequence[tuple[str, float]]) -> None:
    with closing(DelayFile(path, writer=True)) as file:
        file.store(
            [
                DelayedMessage(topic=topic, at=at, body=b"0123456789", source=f"nsqd/{number}")
                for number, (topic, at) in enumerate(messages)
            ]
        )


def refuse(path: Path, topic: str, error: str) -> None:
    with closing(DelayFile(path, writer=True)) as file:
        ids = [each.id for each in file.waiting(Selection(topic=topic))]
        file.put_off(ids, time.time() + 3600, error)


def stage(path: Path) -> Stage:
    return Stage(survey(nsqd(1)), delay_file=path)


async def test_topics_have_what_waits_for_them(tmp_path: Path) -> None:
    path = tmp_path / "delays.db"
    now = time.time()
    store(path, [("reminders", now + 90_000), ("reminders", now + 180_000), ("invoices", now + 7_205)])
    page = await stage(path).text("/delays")
    assert rows(page) == ["invoices", "reminders"]  # the one that is due next comes first
    assert rows(await stage(path).text("/delays?sort=-waiting")) == ["reminders", "invoices"]
    assert "in 1 d 1 h" in page
    assert "in 2 h" in page
    assert "<dd>0</dd>" in page
    assert "Overdue</h2>" not in page
    assert 'href="/topics/reminders"' in page
    assert 'aria-current="page">Delays</a>' in page
    assert str(path) in page


async def test_what_is_overdue_says_why(tmp_path: Path) -> None:
    path = tmp_path / "delays.db"
    now = time.time()
    store(path, [("bad", now - 4000), ("behind", now - 120), ("behind", now - 1), ("later", now + 60)])
    refuse(path, "bad", f"E_BAD_MESSAGE {EVIL}")
    page = await stage(path).text("/delays")
    overdue, topics = page.split('id="overdue-title"')[1].split('id="topics-title"')
    assert overdue.count("<li") == 2
    assert "1 h 6 min ago" in overdue
    assert "refused 1 time, and tried again" in overdue
    assert overdue.index("E_BAD_MESSAGE") < overdue.index("It was not tried yet")
    assert EVIL not in page
    assert rows(topics)[0] == "behind"
    assert "<dd>2</dd>" in page


async def test_only_the_first_of_many_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "delays.db"
    store(path, [(f"t{number % 40:02d}", 1000.0 + number) for number in range(400)])
    page = await stage(path).text("/delays")
    assert "the first 50, due more than 10 s ago" in page
    assert "<dd>50+</dd>" in page
    assert "1 to 40 of" not in page


async def test_an_empty_file_says_so(tmp_path: Path) -> None:
    store(tmp_path / "delays.db", [])
    assert "No message waits." in await stage(tmp_path / "delays.db").text("/delays")


async def test_without_a_file_there_is_no_page() -> None:
    plain = Stage(survey(nsqd(1)))
    assert "Delays" not in await plain.text("/")
    reply = await plain.get("/delays")
    assert reply.status == 404
    assert b"--delay-file" in reply.body


async def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    path = tmp_path / "delays.db"
    for text in ("no such file", "not a database"):
        reply = await stage(path).get("/delays")
        assert reply.status == 503
        assert text in reply.body.decode()
        assert 'href="/delays"' in reply.body.decode()  # of the navigation
        path.write_bytes(b"no database" * 1000)


async def test_a_disk_that_hangs_delays_the_page_for_a_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()

    def hang(path: str, *, writer: bool) -> DelayFile:
        released.wait(30)
        return DelayFile(path, writer=writer)

    monkeypatch.setattr("nsq_anyio.admin.delayed.DelayFile", hang)
    monkeypatch.setattr("nsq_anyio.admin.delayed._PATIENCE", 0.05)
    hanging = stage(tmp_path / "delays.db")
    try:
        for _ in range(3):
            reply = await hanging.get("/delays")
            assert reply.status == 503
            assert b"check that its disk answers" in reply.body
    finally:
        released.set()
