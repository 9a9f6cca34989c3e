"""Orders and their messages in one transaction: none is published before the commit, and none is lost."""

from __future__ import annotations

import importlib
import re
import signal
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import ModuleType

import pytest
from sqlalchemy.exc import IntegrityError

import nsq_anyio as nsq
from nsq_anyio.testing import Nsqd

from .programs import DIRECTORY, LIMIT, ROOT, running

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "shop.sqlite3"


@pytest.fixture
def outbox(database: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The program as an application imports it, with a database of this test."""
    monkeypatch.setattr(sys, "path", [str(DIRECTORY), *sys.path])
    monkeypatch.setenv("DATABASE", f"sqlite:///{database}")
    module = importlib.reload(importlib.import_module("outbox"))
    module.Base.metadata.create_all(module.engine)
    yield module
    module.engine.dispose()


def waiting(database: Path) -> list[bytes]:
    with closing(sqlite3.connect(database)) as connection:
        return [body for (body,) in connection.execute("SELECT body FROM outgoing ORDER BY id")]


def test_what_was_committed_is_published(outbox: ModuleType, database: Path, nsqd: Nsqd) -> None:
    outbox.place_order(1)
    outbox.place_order(2)
    with pytest.raises(IntegrityError):
        outbox.place_order(2)
    assert waiting(database) == [b"1", b"2"]
    with running(["outbox"], nsqd.tcp_address) as process:
        published = nsqd.sync.messages("orders", count=2, timeout=LIMIT)
        outbox.place_order(3)
        nsqd.sync.assert_published("orders", b"3", timeout=LIMIT)
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT) == 0
    assert sorted(message.payload for message in published) == [b"1", b"2"]
    assert waiting(database) == []


def test_what_cannot_be_published_stays(outbox: ModuleType, database: Path, nsqd: Nsqd) -> None:
    outbox.place_order(1)
    options = nsq.ProducerOptions(connect_timeout=0.1)
    with nsq.sync.produce("127.0.0.1:1", options=options) as producer, pytest.raises(nsq.NotSent):
        outbox.publish_some(producer)
    assert waiting(database) == [b"1"]
    with nsq.sync.produce(nsqd.tcp_address) as producer:
        assert outbox.publish_some(producer) == 1
        assert outbox.publish_some(producer) == 0
    nsqd.sync.assert_published("orders", b"1")


def test_what_is_published_after_the_commit(outbox: ModuleType, nsqd: Nsqd) -> None:
    page = (ROOT / "docs" / "howto.md").read_text("utf-8")
    (block,) = re.findall(r"^```py\n(with Sessions.*?)^```$", page, re.MULTILINE | re.DOTALL)
    with nsq.sync.produce(nsqd.tcp_address) as producer:
        names = {**vars(outbox), "producer": producer, "number": 4}
        exec(block, names)
        with pytest.raises(IntegrityError):
            exec(block, names)
    assert [message.payload for message in nsqd.sync.messages("orders")] == [b"4"]
