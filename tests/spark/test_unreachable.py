"""An nsqd of a batch leaves, moves or is down: the query goes on, and the messages wait where they are."""

from __future__ import annotations

import socket
import time
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import anyio.to_thread
import pytest
from anyio.from_thread import start_blocking_portal
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from nsq_anyio.errors import ConnectionFailed
from nsq_anyio.spark.bounded_reader import BoundedReader
from nsq_anyio.spark.options import read_options
from nsq_anyio.spark.portion import MessageChunk
from nsq_anyio.spark.stream_reader import NsqStreamReader

from ..real_servers import real_nsqlookupd
from .conftest import new_name
from .nsqds import Kind, Nsqd, Topic, registered, running_nsqd, wait_until
from .reading import Offset, before_chunk, logged, read

pytestmark = pytest.mark.timeout(60)

KINDS: tuple[Kind, ...] = ("real", "embedded")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


@pytest.fixture
def running() -> Iterator[ExitStack]:
    """What a test has started, and may stop."""
    with ExitStack() as stack:
        yield stack


@contextmanager
def reading(directory: Path, *nsqds: Nsqd, **options: str) -> Generator[NsqStreamReader]:
    given = {
        "topic": "moving",
        "channel": "spark",
        "spoolDir": str(directory),
        "connectTimeout": "4",
        "maxWait": "0.2",
        "maxInFlight": "100",
        "pollInterval": "0.01",
        **options,
    }
    if nsqds:
        given["nsqd"] = ",".join(nsqd.tcp_address for nsqd in nsqds)
        given["nsqdHttp"] = ",".join(nsqd.http_url for nsqd in nsqds)
    reader = NsqStreamReader(read_options(given))
    try:
        yield reader
    finally:
        reader.stop()


def published(nsqd: Nsqd, count: int, first: int = 0, name: str = "moving") -> Topic:
    topic = nsqd.topic(name)
    topic.publish_numbers(count, first)
    return topic


def left_for_good(stopping: ExitStack, running: ExitStack, *nsqds: Nsqd) -> None:
    """Stop nsqds, and keep their ports: another test's nsqd must not listen there."""
    stopping.close()
    for nsqd in nsqds:
        host, _, port = nsqd.tcp_address.rpartition(":")
        kept = running.enter_context(socket.socket())
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind((host, int(port)))


def reported(reader: NsqStreamReader, offset: Offset) -> object:
    """What the query's progress says once the next batch is planned."""
    reader.latestOffset(offset, ReadAllAvailable())
    told = reader.reportLatestOffset()
    assert told is not None
    return told.get("unreachable")


def test_nsqd_that_has_left_does_not_stop_the_others(
    kind: Kind, running: ExitStack, real_nsqd: Nsqd, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stopping = running.enter_context(ExitStack())
    leaving = stopping.enter_context(running_nsqd(kind))
    published(real_nsqd, 30)
    published(leaving, 20, first=30)
    with reading(tmp_path, leaving, real_nsqd) as reader:
        start = logged(reader.initialOffset())
        end = logged(reader.latestOffset(start, ReadAllAvailable()))
        assert len(end["plan"]) == 2
    left_for_good(stopping, running, leaving)
    with reading(tmp_path, leaving, real_nsqd) as reader:  # as a query that is started again
        found = read(reader, reader.partitions(start, end))
        assert sorted(map(int, found)) == list(range(30))
        assert leaving.tcp_address in caplog.text
        assert reported(reader, end) == {leaving.tcp_address: 1}
        # Spark runs the batch once more: it has ended, whatever comes back.
        assert sorted(map(int, read(reader, reader.partitions(start, end)))) == list(range(30))


def test_only_nsqd_of_a_batch_has_moved(
    kind: Kind, running: ExitStack, tmp_path: Path, unreachable: str
) -> None:
    new = running.enter_context(running_nsqd(kind))
    published(new, 20)
    with reading(tmp_path, new) as reader:
        start = logged(reader.initialOffset())
        end = logged(reader.latestOffset(start, ReadAllAvailable()))
    with reading(tmp_path, new) as reader:
        (partition,) = reader.partitions(start, end)
        partition.nsqd = unreachable  # type: ignore[attr-defined]
        assert read(reader, [partition]) == []
        last = logged(reader.latestOffset(end, ReadAllAvailable()))
        assert last["plan"] == [[new.tcp_address, 20]]
        assert sorted(map(int, read(reader, reader.partitions(end, last)))) == list(range(20))


def test_nsqlookupd_tells_where_an_nsqd_has_gone(kind: Kind, running: ExitStack, tmp_path: Path) -> None:
    portal = running.enter_context(start_blocking_portal())
    lookupd = running.enter_context(portal.wrap_async_context_manager(real_nsqlookupd()))
    flags = [f"--lookupd-tcp-address={lookupd.tcp_address}", "--broadcast-address=127.0.0.1"]
    stopping = running.enter_context(ExitStack())
    old = stopping.enter_context(running_nsqd(kind, flags))
    published(old, 20)
    wait_until(lambda: registered(lookupd.http_url, "moving") == 1, "nsqd to register")
    with reading(tmp_path, nsqlookupd=lookupd.http_url) as reader:
        start = logged(reader.initialOffset())
        end = logged(reader.latestOffset(start, ReadAllAvailable()))
    left_for_good(stopping, running, old)
    new = running.enter_context(running_nsqd(kind, flags))
    published(new, 20)
    wait_until(lambda: registered(lookupd.http_url, "moving") == 1, "the new address to be known alone")
    with reading(tmp_path, nsqlookupd=lookupd.http_url) as reader:
        assert read(reader, reader.partitions(start, end)) == []
        last = logged(reader.latestOffset(end, ReadAllAvailable()))
        told = reader.reportLatestOffset() or {}
        assert told["depth"] == {new.tcp_address: 20}
        assert told["unreachable"] == {old.tcp_address: 1}
        assert sorted(map(int, read(reader, reader.partitions(end, last)))) == list(range(20))


def two_with_messages(kind: Kind, running: ExitStack) -> list[Nsqd]:
    """Start two nsqds with ten messages each."""
    nsqds = [running.enter_context(running_nsqd(kind)) for _ in range(2)]
    for nsqd in nsqds:
        published(nsqd, 10)
    return nsqds


def test_nsqd_is_lost_in_mid_read(
    kind: Kind, running: ExitStack, real_nsqd: Nsqd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping = running.enter_context(ExitStack())
    leaving = stopping.enter_context(running_nsqd(kind))
    published(leaving, 300)
    real_nsqd.topic("moving")
    with reading(tmp_path, leaving, real_nsqd) as reader:
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        before_chunk(monkeypatch, 1, partial(left_for_good, stopping, running, leaving))
        found = read(reader, reader.partitions(start, end))
        assert 50 <= len(set(found)) < 300
        assert reported(reader, end) == {leaving.tcp_address: 1}


def test_nobody_can_be_reached_and_nothing_is_stored(kind: Kind, running: ExitStack, tmp_path: Path) -> None:
    stopping = running.enter_context(ExitStack())
    nsqds = two_with_messages(kind, stopping)
    with reading(tmp_path, *nsqds) as reader:
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        left_for_good(stopping, running, *nsqds)
        for partition in reader.partitions(start, end):
            with pytest.raises(ConnectionFailed, match=partition.nsqd):  # type: ignore[attr-defined]
                read(reader, [partition])


def test_nobody_can_be_reached_but_something_is_stored(
    kind: Kind, running: ExitStack, tmp_path: Path
) -> None:
    stopping = running.enter_context(ExitStack())
    nsqds = two_with_messages(kind, stopping)
    with reading(tmp_path, *nsqds) as reader:
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        first, second = reader.partitions(start, end)
        assert len(read(reader, [first])) == 10
        left_for_good(stopping, running, *nsqds)
        assert read(reader, [second]) == []
        assert len(read(reader, [first])) == 10


def test_available_now_ends_without_an_nsqd_that_takes_no_connection(
    real_nsqd: Nsqd, embedded_nsqd: Nsqd, tmp_path: Path, unreachable: str
) -> None:
    """Its HTTP side goes on to tell of messages that nobody can have."""
    name = new_name()
    published(real_nsqd, 10, name=name)
    topic = published(embedded_nsqd, 25, name=name)
    addresses = f"{unreachable},{embedded_nsqd.tcp_address}"
    urls = f"{real_nsqd.http_url},{embedded_nsqd.http_url}"
    with reading(tmp_path, topic=name, nsqd=addresses, nsqdHttp=urls) as reader:
        reader.prepareForTriggerAvailableNow()
        start = reader.initialOffset()
        found: list[bytes] = []
        for _ in range(5):
            end = reader.latestOffset(start, ReadMaxRows(20))
            if end == start:
                break
            found += read(reader, reader.partitions(start, end))
            start = end
        else:
            pytest.fail("the query goes on")
    assert len(found) == 25
    assert topic.state().left == 0


def test_the_only_nsqd_is_started_again_while_it_is_read(
    kind: Kind, running: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is away for longer than maxWait, when nothing is stored yet."""
    stopping = running.enter_context(ExitStack())
    old = stopping.enter_context(running_nsqd(kind))
    published(old, 20)
    started: list[Nsqd] = []

    def start_again() -> None:
        time.sleep(2)
        flags = [f"--tcp-address={old.tcp_address}", f"--http-address={old.http_address}"]
        started.append(running.enter_context(running_nsqd(kind, flags)))
        published(started[0], 20)

    with reading(tmp_path, old) as reader:
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        (partition,) = reader.partitions(start, end)
        take = BoundedReader.take

        async def lose_it(self: BoundedReader) -> MessageChunk:
            monkeypatch.setattr(BoundedReader, "take", take)
            await anyio.to_thread.run_sync(stopping.close)
            tasks.submit(start_again)
            return await take(self)

        monkeypatch.setattr(BoundedReader, "take", lose_it)
        with ThreadPoolExecutor(1) as tasks:
            assert sorted(map(int, read(reader, [partition]))) == list(range(20))
