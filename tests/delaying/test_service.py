"""The service for delays: messages arrive at their time, whatever happens meanwhile."""

from __future__ import annotations

import shutil
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.delaying import DelayedMessage, DelayFile, Selection
from nsq_anyio.embedded import NsqdOptions
from nsq_anyio.transport import event_loop

from .. import virtual_time

anyio_backend = virtual_time.anyio_backend
pytestmark = pytest.mark.anyio

DAY = 86_400.0


class Clock:
    """The time of day, which passes with the event loop's, and which a test sets."""

    def __init__(self) -> None:
        self._loop = event_loop.clock()
        self.ahead = time.time() - self._loop()

    def __call__(self) -> float:
        return self._loop() + self.ahead


class Arrivals(dict[bytes, float]):
    """When messages arrived: by their payloads, in seconds since the epoch.

    :ivar count: how many have arrived, including those that arrive again
    """

    def __init__(self) -> None:
        self.count = 0
        self._changed = anyio.Event()

    def add(self, body: bytes, now: float) -> None:
        self[body] = now
        self.count += 1
        self._changed.set()
        self._changed = anyio.Event()

    async def reach(self, count: int, limit: float = 30.0) -> None:
        """Wait until so many different messages have arrived."""
        with anyio.fail_after(limit):
            while len(self) < count:
                await self._changed.wait()


@asynccontextmanager
async def arriving(nsqd: str, topic: str = "t", clock: Clock | None = None) -> AsyncGenerator[Arrivals]:
    """Consume a topic for the length of the block."""
    arrivals = Arrivals()
    now = clock or Clock()

    async def arrive(message: nsq.Message) -> None:
        arrivals.add(message.payload, now())

    async with (
        nsq.consume(topic, "c", nsqd=nsqd) as consumer,
        anyio.create_task_group() as tasks,
    ):
        await consumer.ready()
        tasks.start_soon(consumer.run, arrive)
        yield arrivals
        consumer.stop()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "delays"


def fill(path: Path, at: float, bodies: Iterable[bytes], topic: str = "t") -> None:
    """Have messages in the file before the service starts."""
    with closing(DelayFile(path, writer=True)) as file:
        file.store(
            [DelayedMessage(topic, at, body, f"127.0.0.1:1/{number}") for number, body in enumerate(bodies)]
        )


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


async def stored(count: int, *services: nsq.Delays) -> None:
    with anyio.fail_after(60):
        while sum([(await each.statistics()).stored for each in services]) < count:  # noqa: ASYNC110
            await anyio.sleep(0.01)


async def emptied(delays: nsq.Delays, but: int = 0) -> None:
    """Wait until no other messages are in the file. Consumers have them earlier than nsqd confirms them."""
    with anyio.fail_after(60):
        while (await delays.statistics()).waiting > but:  # noqa: ASYNC110 - no event tells
            await anyio.sleep(0.01)


async def test_messages_arrive_at_their_time(path: Path) -> None:
    async with nsq.embedded.nsqd() as nsqd:
        address = nsqd.tcp_address
        now = Clock()
        async with (
            nsq.delays(path, nsqd=address, clock=now) as delays,
            nsq.produce(address, delays="nsq.delays") as producer,
            arriving(address, clock=now) as arrivals,
        ):
            begun = float(int(now()))
            await producer.publish("t", b"days", at=moment(begun + 3 * DAY), headers={"a": "b"})
            await producer.publish("t", b"defer", defer=30 * DAY)
            await producer.publish("t", b"short", defer=0.5, durable=True)
            await stored(3, delays)
            statistics = await delays.statistics()
            assert (statistics.stored, statistics.waiting, statistics.topics[0].topic) == (3, 3, "t")
            listed = await delays.waiting(Selection(after=begun + 2 * DAY))
            assert [round((each.due - begun) / DAY, 2) for each in listed] == [3, 30]
            await arrivals.reach(1)
            now.ahead += 3 * DAY - 5
            await arrivals.reach(2)
            now.ahead += 27 * DAY - 5
            await arrivals.reach(3)
            for body, seconds in ((b"days", 3 * DAY), (b"defer", 30 * DAY), (b"short", 0.5)):
                assert 0 <= arrivals[body] - begun - seconds < 2
        with closing(DelayFile(path, writer=False)) as file:
            assert file.topics() == []


async def test_a_restart_continues_with_the_file(path: Path) -> None:
    async with nsq.embedded.nsqd() as nsqd:
        address = nsqd.tcp_address
        now = Clock()
        async with (
            nsq.produce(address, delays="nsq.delays") as producer,
            arriving(address, clock=now) as arrivals,
        ):
            begun = float(int(now()))
            async with nsq.delays(path, nsqd=address, clock=now) as delays:
                await producer.publish("t", b"on time", at=moment(begun + 2 * DAY))
                await producer.publish("t", b"late", at=moment(begun + DAY / 2))
                await stored(2, delays)
            await producer.publish("t", b"new", at=moment(begun + 2 * DAY))
            now.ahead += DAY
            await anyio.sleep(5)
            assert not arrivals
            async with nsq.delays(path, nsqd=address, clock=now):
                await arrivals.reach(1)
                await anyio.sleep(5)
                now.ahead += DAY - 20
                await arrivals.reach(3)
            assert arrivals.count == 3
            assert 0 <= arrivals[b"on time"] - begun - 2 * DAY < 1
            assert arrivals[b"new"] >= begun + 2 * DAY


async def test_a_clock_that_is_set(path: Path) -> None:
    clock = Clock()
    fill(path, clock() + 60, [b"x"])
    async with (
        nsq.embedded.nsqd() as nsqd,
        arriving(nsqd.tcp_address) as arrivals,
        nsq.delays(path, nsqd=nsqd.tcp_address, clock=clock),
    ):
        clock.ahead -= 300
        await anyio.sleep(350)
        assert not arrivals
        begun = anyio.current_time()
        clock.ahead += 300
        await arrivals.reach(1)
        assert anyio.current_time() - begun < 2


async def test_a_message_of_a_stranger_becomes_a_dead_letter(path: Path) -> None:
    wrong = nsq.envelope.encode(b"wrong", {"nsq-delay-topic": "a b", "nsq-delay-at": "2026-01-01T00:00Z"})
    async with nsq.embedded.nsqd() as nsqd:
        address = nsqd.tcp_address
        now = Clock()
        async with (
            nsq.delays(path, nsqd=address, clock=now) as delays,
            nsq.produce(address, delays="nsq.delays") as producer,
            arriving(address, "nsq.delays.dead") as letters,
            arriving(address) as arrivals,
        ):
            await producer.publish("nsq.delays", b"no envelope")
            await producer.publish("nsq.delays", wrong)
            await producer.publish("t", b"good", defer=1, durable=True)
            await letters.reach(2)
            await arrivals.reach(1)
            assert set(letters) == {b"no envelope", b"wrong"}
            statistics = await delays.statistics()
            assert (statistics.not_delays, statistics.stored) == (2, 1)


async def test_a_refused_message_holds_up_no_other(path: Path) -> None:
    bodies = [b"%04d" % number + b"x" * (900 if number % 50 == 7 else 5) for number in range(300)]
    now = Clock()
    fill(path, now(), bodies)
    async with (
        nsq.embedded.nsqd(options=NsqdOptions(max_msg_size=500)) as nsqd,
        arriving(nsqd.tcp_address) as arrivals,
        nsq.delays(path, nsqd=nsqd.tcp_address, clock=now) as delays,
    ):
        await arrivals.reach(294)
        await anyio.sleep(20)
        assert arrivals.count == 294
        left = await delays.waiting()
        assert [each.size for each in left] == [904] * 6
        assert {each.tries for each in left} == {5}  # after 0, 1, 3, 7 and 15 seconds
        assert all("message too big 904 > 500" in (each.error or "") for each in left)
        statistics = await delays.statistics()
        assert (statistics.failed, statistics.refused, statistics.overdue) == (6, 30, 0)
        assert await delays.cancel(Selection(id=left[0].id)) == 1
    async with (  # another limit
        nsq.embedded.nsqd() as nsqd,
        arriving(nsqd.tcp_address) as arrivals,
        nsq.delays(path, nsqd=nsqd.tcp_address, clock=now) as delays,
    ):
        await arrivals.reach(5, 60)
        await emptied(delays)


async def test_what_nsqd_takes_only_in_parts(path: Path) -> None:
    now = Clock()
    fill(path, now(), [b"%d" % number + b"x" * 100 for number in range(500)])
    async with (
        nsq.embedded.nsqd(options=NsqdOptions(max_body_size=3000)) as nsqd,
        arriving(nsqd.tcp_address) as arrivals,
        nsq.delays(path, nsqd=nsqd.tcp_address, clock=now),
    ):
        await arrivals.reach(500)
        assert arrivals.count == 500


async def test_a_message_above_the_producers_own_limit_is_kept(path: Path) -> None:
    now = Clock()
    fill(path, now(), [b"x" * 200, b"small", b"too"])
    options = nsq.ProducerOptions(max_msg_size=100)
    async with (
        nsq.embedded.nsqd() as nsqd,
        arriving(nsqd.tcp_address) as arrivals,
        nsq.delays(path, nsqd=nsqd.tcp_address, clock=now, publishing=options) as delays,
    ):
        await arrivals.reach(2)
        await emptied(delays, but=1)
        (left,) = await delays.waiting()
        assert "max_msg_size=100" in (left.error or "")


async def test_a_full_disk_takes_no_more_and_publishing_goes_on(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = Clock()
    fill(path, now() + 60, [b"kept"])
    async with nsq.embedded.nsqd() as nsqd:
        address = nsqd.tcp_address
        async with (
            nsq.produce(address, delays="nsq.delays") as producer,
            arriving(address) as arrivals,
            nsq.delays(path, nsqd=address, clock=now) as delays,
        ):
            with monkeypatch.context() as full:
                full.setattr(shutil, "disk_usage", Mock(return_value=SimpleNamespace(free=0)))
                await producer.publish("t", b"requeued", defer=1, durable=True)
                await arrivals.reach(1, 90)
                assert list(arrivals) == [b"kept"]
                with anyio.fail_after(30):
                    await emptied(delays)
                assert (await delays.statistics()).stored == 0
            await arrivals.reach(2, 60)
            assert arrivals.count == 2
    warnings = [each.message for each in caplog.records if each.name == "nsq_anyio.delaying.service"]
    assert 1 <= len(warnings) <= 2  # one a minute
    assert "make room there; until then, messages for later are requeued" in warnings[0]


async def test_what_cannot_be_deleted_is_published_once(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = Clock()
    fill(path, now(), [b"x"])
    delete = DelayFile.delete
    failures = iter(range(30))

    def failing(file: DelayFile, ids: Iterable[int]) -> None:
        if next(failures, None) is not None:
            raise nsq.DelayFileUnusable("path", "full", temporary=True)
        delete(file, ids)

    monkeypatch.setattr(DelayFile, "delete", failing)
    async with (
        nsq.embedded.nsqd() as nsqd,
        arriving(nsqd.tcp_address) as arrivals,
        nsq.delays(path, nsqd=nsqd.tcp_address, clock=now) as delays,
    ):
        await arrivals.reach(1)
        await anyio.sleep(20)
        assert (await delays.statistics()).waiting == 1
        await anyio.sleep(20)
        assert (await delays.statistics()).waiting == 0
        assert arrivals.count == 1
    assert "published messages are still in it" in caplog.text


async def test_a_redelivery_is_stored_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a kill between storing and finishing."""
    store = DelayFile.store
    calls: list[int] = []

    def storing(file: DelayFile, messages: Any) -> int:
        calls.append(store(file, messages))
        if len(calls) == 1:
            raise nsq.DelayFileUnusable("path", "the answer was lost", temporary=True)
        return calls[-1]

    monkeypatch.setattr(DelayFile, "store", storing)
    async with nsq.embedded.nsqd() as nsqd:
        address = nsqd.tcp_address
        now = Clock()
        async with (
            nsq.produce(address, delays="nsq.delays") as producer,
            arriving(address) as arrivals,
            nsq.delays(path, nsqd=address, clock=now) as delays,
        ):
            await producer.publish("t", b"x", defer=600, durable=True)
            await arrivals.reach(1, 700)
            assert (calls, arrivals.count) == ([1, 0], 1)
            assert (await delays.statistics()).repeated == 1


async def test_nsqd_away_for_long(path: Path) -> None:
    now = Clock()
    async with nsq.embedded.nsqd() as nsqd:
        address = nsqd.tcp_address
    port = int(address.rpartition(":")[2])
    fill(path, now() + 100, [b"x"])
    async with nsq.delays(path, nsqd=address, clock=now) as delays:
        await anyio.sleep(400)
        assert (await delays.statistics()).overdue > 290
        async with nsq.embedded.nsqd(tcp_port=port), arriving(address) as arrivals:
            await arrivals.reach(1, 60)
            assert arrivals.count == 1
            await emptied(delays)


async def test_several_services_share_the_work(tmp_path: Path) -> None:
    async with nsq.embedded.nsqd() as nsqd:
        address = nsqd.tcp_address
        now = Clock()
        async with (
            nsq.produce(address, delays="nsq.delays") as producer,
            arriving(address) as arrivals,
            nsq.delays(tmp_path / "a", nsqd=address, clock=now, max_in_flight=1) as first,
            nsq.delays(tmp_path / "b", nsqd=address, clock=now, max_in_flight=1) as second,
        ):
            for number in range(100):
                await producer.publish("t", b"%d" % number, defer=DAY)
            await stored(100, first, second)
            now.ahead += DAY - 5
            await arrivals.reach(100)
            await emptied(first)
            await emptied(second)
            shares = [(await each.statistics()).published for each in (first, second)]
            assert sum(shares) == arrivals.count == 100
            assert min(shares) > 0


async def test_each_service_has_a_file_of_its_own(path: Path) -> None:
    async with nsq.embedded.nsqd() as nsqd, nsq.delays(path, nsqd=nsqd.tcp_address):
        with pytest.raises(nsq.DelayFileUnusable, match="another service uses it"):
            async with nsq.delays(path, nsqd=nsqd.tcp_address):
                pytest.fail("it was entered")


async def test_a_deleted_file_ends_the_block(path: Path) -> None:
    async with nsq.embedded.nsqd() as nsqd:
        address = nsqd.tcp_address
        with pytest.raises(nsq.DelayFileUnusable, match="No such file"):
            async with nsq.delays(path, nsqd=address), nsq.produce(address, delays="nsq.delays") as producer:
                path.unlink()  # noqa: ASYNC240 - it takes no time
                await producer.publish("t", b"x", defer=DAY)
                await anyio.sleep(60)
        async with nsq.consume("nsq.delays", "delays", nsqd=address) as consumer:  # it was handed back
            with anyio.fail_after(60):
                message = await anext(consumer)
            assert message.payload == b"x"
            message.finish()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "neither nsqd nor nsqlookupd is given"),
        ({"nsqd": "127.0.0.1:1", "nsqlookupd": "http://127.0.0.1:1"}, "both of nsqd and nsqlookupd given"),
        ({"nsqd": "127.0.0.1:1", "topic": "a b"}, "topic 'a b' is not valid"),
        ({"nsqd": "127.0.0.1:1", "max_in_flight": 0}, "max_in_flight=0 is not valid"),
        (
            {"nsqd": "127.0.0.1:1", "publishing": nsq.ConsumerOptions()},
            "publishing is of type ConsumerOptions",
        ),
    ],
)
async def test_invalid_arguments(path: Path, arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(nsq.InvalidOption, match=says):
        nsq.delays(path, **arguments)
    assert not path.exists()  # noqa: ASYNC240 - it takes no time


async def test_use_after_the_end(path: Path) -> None:
    async with nsq.embedded.nsqd() as nsqd, nsq.delays(path, nsqd=nsqd.tcp_address) as delays:
        with pytest.raises(nsq.InvalidOption, match="limit=0 is not valid"):
            await delays.waiting(limit=0)
    with pytest.raises(nsq.Closed, match="the block has ended"):
        await delays.statistics()
