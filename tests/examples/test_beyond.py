"""The programs of docs/beyond.md do what the page says of them, also when they are ended at any step."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import sqlite3
import time
from collections.abc import Generator, Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import httpx
import pytest

import nsq_anyio as nsq
from nsq_anyio.embedded import NsqdOptions
from nsq_anyio.testing import Cluster, Nsqd, cluster_in_thread

from ..real_servers import DIRECTORY as REAL
from .killed import MAIN, NEVER, Forks, Step, forks, steps
from .programs import LIMIT, ROOT

pytestmark = pytest.mark.timeout(180)

PROGRAMS = ROOT / "examples" / "beyond"
EVERY_CASE = bool(os.environ.get("NSQ_ANYIO_EVERY_CASE"))

on_each_loop = pytest.mark.parametrize("backend", ["asyncio", "trio"])
ended_in_each_way = pytest.mark.parametrize(
    ("backend", "number"),
    [
        pytest.param(backend, number, id=f"{backend}-{number.name}")
        for backend, number in (
            ("asyncio", signal.SIGKILL),
            ("trio", signal.SIGINT),
            *([("asyncio", signal.SIGINT), ("trio", signal.SIGKILL)] if EVERY_CASE else []),
        )
    ],
)


@pytest.fixture
def cluster() -> Generator[Cluster]:
    """Two real nsqds, which soon deliver again what a program held that was killed."""
    options = NsqdOptions(msg_timeout=3.0)
    with cluster_in_thread(nsqds=2, nsqlookupds=0, nsqd_options=options, real=REAL) as running:
        yield running


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "database.sqlite3"


def rows(database: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute(query).fetchall()


def end(fork: Forks, step: Step, number: signal.Signals, call: str = MAIN) -> None:
    """Run it until it has ended at the step; it fails if it never gets there."""
    with fork(step, number, call) as process:
        assert process.wait() == (-number if number == signal.SIGKILL else 0), step


# Order


@ended_in_each_way
def test_bookings_are_in_the_order_of_their_account(
    backend: str, number: signal.Signals, cluster: Cluster, database: Path
) -> None:
    program = PROGRAMS / "in_order.py"
    env = {"NSQD": ",".join(cluster.tcp_addresses), "DATABASE": str(database)}
    functions = ("connect", "create_tables", "main", "handle", "book")
    waking, waiting, leaving = "following.set()", "await turn.wait()", "raise nsq.Requeue"
    rest = steps(program, *functions, without=r"following\.set|turn\.wait|raise nsq")
    with (
        forks(program, env, backend, PATIENCE=0.5, PAUSE=0.1) as fork,
        forks(program, env, backend, PATIENCE=0.5, PAUSE=0.1) as other,
        nsq.sync.produce(cluster.tcp_addresses) as producer,  # each nsqd gets every other message
    ):

        def publish(account: str, numbers: Sequence[int]) -> None:
            for each in numbers:
                producer.publish("bookings", str(each), headers={"account": account, "number": str(each)})

        accounts = [f"{place:02}" for place in range(len(rest) + 1)]
        for account, step in zip(accounts, [at(program, waking), *rest], strict=True):
            publish(account, [3, 1, 2])
            end(fork, step, number)
        publish("late", [4, 3, 3, 2])
        end(fork, at(program, waiting), number)
        end(fork, at(program, leaving), number)
        publish("late", [1])
        with fork(NEVER, number) as one, other(NEVER, number) as two:
            cluster.sync.wait_until_empty("bookings", "book", timeout=LIMIT)
            assert (one.end(signal.SIGTERM), two.end(signal.SIGTERM)) == (0, 0)
    booked = rows(database, "SELECT account, number FROM bookings ORDER BY account, rowid")
    expected = [(account, number) for account in accounts for number in (1, 2, 3)]
    assert booked == expected + [("late", number) for number in (1, 2, 3, 4)]


def test_what_breaks_the_order(cluster: Cluster) -> None:
    one, other = cluster.nsqds
    with nsq.sync.produce(one.tcp_address) as producer:
        for topic in ("kept", "requeued", "shared", "spread"):
            producer.publish_many(topic, [b"1", b"2", b"3"])
    httpx.post(f"{other.http_url}/topic/create?topic=spread")
    httpx.post(f"{other.http_url}/channel/create?topic=spread&channel=c")
    httpx.post(f"{other.http_url}/channel/pause?topic=spread&channel=c")
    other.sync.publish("spread", b"0")

    with nsq.sync.consume("kept", "c", nsqd=one.tcp_address) as consumer:
        assert [taken(consumer) for _ in range(3)] == [b"1", b"2", b"3"]
    with nsq.sync.consume("requeued", "c", nsqd=one.tcp_address) as consumer:
        next(consumer).requeue(0, backoff=False)
        assert [taken(consumer) for _ in range(3)] == [b"2", b"3", b"1"]
    with (
        nsq.sync.consume("shared", "c", nsqd=one.tcp_address) as consumer,
        nsq.sync.consume("shared", "c", nsqd=one.tcp_address) as second,
    ):
        first = next(consumer)
        assert [taken(second), taken(second), first.payload] != [b"1", b"2", b"3"]
        first.finish()
    with nsq.sync.consume("spread", "c", nsqd=cluster.tcp_addresses, max_in_flight=2) as consumer:
        assert [taken(consumer) for _ in range(3)] == [b"1", b"2", b"3"]
        httpx.post(f"{other.http_url}/channel/unpause?topic=spread&channel=c")
        assert taken(consumer) == b"0"


def test_an_overflow_to_disk_breaks_the_order() -> None:
    options = NsqdOptions(mem_queue_size=10)
    numbers = [b"%d" % each for each in range(60)]
    with cluster_in_thread(nsqds=1, nsqlookupds=0, nsqd_options=options, real=REAL) as cluster:
        cluster.sync.tap("t")
        for each in numbers:
            cluster.sync.publish("t", each)
        published = [message.payload for message in cluster.sync.messages("t", count=60, timeout=LIMIT)]
    assert sorted(published) == sorted(numbers)
    assert published != numbers


def taken(consumer: nsq.sync.Consumer) -> bytes:
    message = consumer.take(timeout=LIMIT)
    assert message is not None
    message.finish()
    return message.payload


def test_numbers_are_counted_without_a_gap() -> None:
    page = (ROOT / "docs" / "beyond.md").read_text("utf-8")
    (statement,) = re.findall(r"^```sql\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE numbers (account TEXT PRIMARY KEY, last INTEGER)")
        assert [connection.execute(statement).fetchone() for _ in range(3)] == [(1,), (2,), (3,)]


# Replay


@ended_in_each_way
def test_the_archive_has_each_message_once_and_replays_it(
    backend: str, number: signal.Signals, cluster: Cluster, database: Path
) -> None:
    nsqd, program = cluster.nsqds[0], PROGRAMS / "archive.py"
    keep = "anyio.run(keep, backend=backend)"
    replay = "anyio.run(replay, 'again', datetime(2000, 1, 1), datetime(2100, 1, 1), backend=backend)"
    clicks = 0
    with (
        forks(program, {"NSQD": nsqd.tcp_address, "ARCHIVE": str(database)}, backend) as fork,
        nsq.sync.produce(nsqd.tcp_address) as producer,
    ):
        with fork(NEVER, number, "connect().executescript(TABLES)") as process:
            assert process.wait() == 0
        for step in steps(program, "keep", "store", "connect"):
            producer.publish_many("clicks", [b"%d\n" % each for each in range(clicks, clicks + 10)])
            clicks += 10
            end(fork, step, number, keep)
        with fork(NEVER, number, keep) as process:
            nsqd.sync.wait_until_empty("clicks", "archive", timeout=LIMIT)
            assert process.end(signal.SIGTERM) == 0
        kept = [body for (body,) in rows(database, "SELECT body FROM messages ORDER BY place")]
        assert sorted(kept) == sorted(b"%d\n" % each for each in range(clicks))
        assert clicks > 100  # so that there is more than one batch

        for place, step in enumerate(steps(program, "replay", twice="while|publish|REPLACE")):
            topic = f"again.{place}"
            nsqd.sync.tap(topic)
            call = replay.replace("again", topic)
            end(fork, step, number, call)
            with fork(NEVER, number, call) as process:
                assert process.wait() == 0
            published = [each.body for each in nsqd.sync.messages(topic, timeout=LIMIT)]
            assert clicks <= len(published) <= clicks + 100  # a batch may come twice
            assert set(published) == set(kept)


# Exactly once into a database


@ended_in_each_way
def test_the_outbox_publishes_what_was_committed(
    backend: str, number: signal.Signals, cluster: Cluster, database: Path, tmp_path: Path
) -> None:
    nsqd, program, bills = cluster.nsqds[0], PROGRAMS / "plain_outbox.py", tmp_path / "bills.sqlite3"
    orders = count(1)
    with forks(program, {"NSQD": nsqd.tcp_address, "DATABASE": str(database)}, backend) as fork:
        for step in steps(program, "create_tables"):
            end(fork, step, number)
        with fork(NEVER, number, "create_tables()") as process:
            assert process.wait() == 0
        for step in steps(program, "place_order", "connect"):
            end(fork, step, number, f"place_order({next(orders)})")
        for step in steps(
            program, "main", "waiting", "delete", twice="publish|append", without="except|print"
        ):
            call = f"place_order({next(orders)}), place_order({next(orders)})"
            with fork(NEVER, number, call) as process:
                assert process.wait() == 0
            end(fork, step, number)
        with fork(NEVER, number) as process:
            until_empty(database, "outgoing")
            process.end(signal.SIGINT)
    placed = rows(database, "SELECT number FROM orders ORDER BY number")
    assert 0 < next(orders) - 1 - len(placed) < 20  # some were rolled back
    with forks(PROGRAMS / "inbox.py", {"NSQD": nsqd.tcp_address, "DATABASE": str(bills)}, backend) as fork:
        with fork(NEVER, number) as process:
            nsqd.sync.wait_until_empty("orders", "billing", timeout=LIMIT)
            assert process.end(signal.SIGTERM) == 0
    assert rows(bills, "SELECT number FROM bills ORDER BY number") == placed


@on_each_loop
def test_the_outbox_keeps_what_nsqd_refuses(backend: str, database: Path) -> None:
    program = PROGRAMS / "plain_outbox.py"
    step = at(program, "print(")
    options = NsqdOptions(max_msg_size=10)
    with (
        cluster_in_thread(nsqds=1, nsqlookupds=0, nsqd_options=options, real=REAL) as cluster,
        forks(program, {"NSQD": cluster.tcp_addresses[0], "DATABASE": str(database)}, backend) as fork,
    ):
        with fork(NEVER, signal.SIGKILL, "create_tables(), place_order(1)") as process:
            assert process.wait() == 0
        end(fork, step, signal.SIGKILL)
        end(fork, step._replace(visit=2), signal.SIGKILL)
    assert rows(database, "SELECT topic, body FROM outgoing") == [("orders", b"1")]


@ended_in_each_way
def test_the_inbox_bills_each_order_once(
    backend: str, number: signal.Signals, cluster: Cluster, database: Path
) -> None:
    nsqd, program = cluster.nsqds[0], PROGRAMS / "inbox.py"
    orders = 0
    with (
        forks(program, {"NSQD": nsqd.tcp_address, "DATABASE": str(database)}, backend) as fork,
        nsq.sync.produce(nsqd.tcp_address) as producer,
    ):
        for step in steps(program, "connect", "create_tables", "main", "bill", twice="inbox VALUES|closing"):
            for _ in range(2):
                for _ in range(2):  # as an outbox does that is killed before it deletes its row
                    producer.publish("orders", str(orders), headers={"id": f"id {orders}"})
                orders += 1
            end(fork, step, number)
        with fork(NEVER, number) as process:
            nsqd.sync.wait_until_empty("orders", "billing", timeout=LIMIT)
            assert process.end(signal.SIGTERM) == 0
    assert rows(database, "SELECT number FROM bills ORDER BY number") == [(each,) for each in range(orders)]


# Request and response


@ended_in_each_way
def test_nothing_of_a_program_that_asks_is_left(
    backend: str, number: signal.Signals, cluster: Cluster
) -> None:
    nsqd, program = cluster.nsqds[0], PROGRAMS / "questions.py"
    with forks(program, {"NSQD": nsqd.tcp_address}, backend) as fork:
        for step in steps(program, "main", "ask", "take_replies", "answer", "square"):
            end(fork, step, number)
        for _ in range(20):  # one of them leaves after the last late reply
            with fork(NEVER, number) as process:
                assert process.wait() == 0
            if {name for name, _ in topics(nsqd)} == {"squares"}:
                break
    assert topics(nsqd) == [("squares", ["answer"])]


@on_each_loop
def test_a_question_is_answered(
    backend: str, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NSQD", cluster.tcp_addresses[0])
    anyio.run(imported("questions").main, backend=backend)
    assert capsys.readouterr().out == "144\n"


@on_each_loop
def test_a_question_waits_no_longer_than_it_is_told(backend: str, cluster: Cluster) -> None:
    questions = imported("questions")

    async def main() -> None:
        async with nsq.produce(cluster.tcp_addresses[0]) as producer:
            asking = questions.Questions(producer)
            with pytest.raises(TimeoutError):
                await asking.ask(b"12", seconds=0.05)
            assert asking.waiting == {}

    anyio.run(main, backend=backend)


def imported(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, PROGRAMS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def topics(nsqd: Nsqd) -> list[tuple[str, list[str]]]:
    """The topics and channels that nsqd has."""
    stats = httpx.get(f"{nsqd.http_url}/stats?format=json").json()
    return [
        (topic["topic_name"], [channel["channel_name"] for channel in topic["channels"]])
        for topic in stats["topics"]
    ]


def at(program: Path, text: str) -> Step:
    """The first visit of the only line that has the text."""
    lines = program.read_text("utf-8").splitlines()
    (found,) = (number for number, line in enumerate(lines, 1) if text in line)
    return Step(found, "line", 1)


def until_empty(database: Path, table: str) -> None:
    """Wait until a table has no rows; other processes change it."""
    deadline = time.monotonic() + LIMIT
    while rows(database, f"SELECT 1 FROM {table} LIMIT 1"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
