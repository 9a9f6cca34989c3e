# pyright: reportPossiblyUnboundVariable=false
"""A bounded rate: how many messages start when, and that none waits here past its deadline."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import anyio
import pytest

import nsq_anyio as nsq

from .. import virtual_time
from ..fake_nsqd import LIMIT, FakeConnection, Script, consuming, until

anyio_backend = virtual_time.anyio_backend
pytestmark = pytest.mark.anyio


async def eventually(condition: Callable[[], object]) -> None:
    """`until` for what takes long on the virtual clock, on which each look costs real time."""
    with anyio.fail_after(1000):
        while not condition():  # noqa: ASYNC110 - what is waited for sets no event
            await anyio.sleep(0.1)


def with_timeout(seconds: float) -> Script:
    async def script(peer: FakeConnection) -> None:
        await peer.subscribe({"msg_timeout": round(seconds * 1000)})
        await peer.follow()

    return script


class Starts(list[float]):
    """A handler that notes when each message starts."""

    async def __call__(self, message: nsq.Message) -> None:
        assert message.attempts == 1
        assert message.time_left() > 0
        self.append(anyio.current_time())

    def most_within(self, seconds: float) -> int:
        return max(sum(start <= other < start + seconds for other in self) for start in self)


@pytest.mark.parametrize(
    ("rate", "burst", "count"), [(5, None, 20), (5, 4, 20), (50, None, 100), (0.2, None, 4)]
)
async def test_no_more_start_than_the_rate_allows(rate: float, burst: int | None, count: int) -> None:
    starts = Starts()
    limit = nsq.RateLimit(rate, burst) if burst else rate
    async with consuming(with_timeout(60), max_in_flight=200) as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(consumer.run, starts, concurrency=10, max_per_second=limit))
            await until(lambda: peer.rdy)
            await peer.offer(*[b"x"] * count)
            await eventually(lambda: len(starts) == count)
            consumer.stop()
    assert starts.most_within(1.0) <= (burst or max(1, rate / 10)) + rate
    # No slower than it may be: on the virtual clock, nothing else takes time.
    assert starts[-1] - starts[0] <= count / rate + 1


@pytest.mark.parametrize(
    ("rate", "msg_timeout", "rdy"), [(1, 60, 30), (5, 1, 2), (100, 60, 200), (0.1, 60, 3)]
)
async def test_rdy_follows_and_is_undone(rate: float, msg_timeout: float, rdy: int) -> None:
    async with consuming(with_timeout(msg_timeout), max_in_flight=200) as (consumer, peer):
        await peer.saw(b"RDY 200")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(consumer.run, Starts(), max_per_second=rate))
            await until(lambda: peer.rdy == rdy)
            assert consumer.max_in_flight == 200
            tasks.cancel_scope.cancel()
        await until(lambda: peer.rdy == 200)


async def test_a_lower_max_in_flight_of_the_user_holds() -> None:
    async with consuming(with_timeout(60), max_in_flight=3) as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(consumer.run, Starts(), max_per_second=1))
            await peer.saw(b"RDY 3")
            await anyio.sleep(5)
            assert peer.rdy == 3
            consumer.max_in_flight = 50
            await until(lambda: peer.rdy == 30)
            tasks.cancel_scope.cancel()


@pytest.mark.parametrize(("rate", "msg_timeout"), [(5, 1), (1, 1), (0.2, 1), (0.1, 3)])
async def test_none_waits_past_its_deadline(rate: float, msg_timeout: float) -> None:
    starts = Starts()
    async with consuming(with_timeout(msg_timeout), max_in_flight=200) as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(consumer.run, starts, concurrency=10, max_per_second=rate))
            await until(lambda: peer.rdy not in {0, 200})
            await peer.offer(*[b"x"] * 100)
            await eventually(lambda: len(starts) == 10)
            assert consumer.statistics().timed_out == 0
            consumer.stop()
    assert starts.most_within(1.0) <= 1 + rate
    assert starts[-1] - starts[0] <= 9 / rate + 10  # raised with the next look at the distribution


async def test_what_came_before_run_is_handed_back() -> None:
    starts = Starts()
    async with consuming(with_timeout(1), max_in_flight=200) as (consumer, peer):
        await peer.saw(b"RDY 200")
        await peer.offer(*[b"x"] * 50)
        await until(lambda: consumer.statistics().waiting == 50)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(consumer.run, starts, max_per_second=5))
            await eventually(lambda: len(starts) >= 2)
            consumer.stop()
        statistics = consumer.statistics()
        assert statistics.timed_out == 0
        assert statistics.requeued >= 45


@pytest.mark.parametrize("stop", [True, False])
async def test_stop_and_cancel_do_not_wait_for_a_token(stop: bool) -> None:
    starts = Starts()
    ids: list[bytes] = []
    async with consuming(with_timeout(1000), max_in_flight=5) as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(consumer.run, starts, concurrency=3, max_per_second=0.01))
            await peer.saw(b"RDY 5")
            ids += await peer.messages(b"a", b"b", b"c")
            await until(lambda: len(starts) == 1)
            began = anyio.current_time()
            if stop:
                consumer.stop()
            else:
                tasks.cancel_scope.cancel()
        assert anyio.current_time() - began < 1
        assert len(starts) == 1
    assert peer.lines.count(b"FIN " + ids[0]) == 1
    assert all(peer.lines.count(b"REQ %b 0" % id) == 1 for id in ids[1:])


async def test_a_shared_rate_is_shared_evenly() -> None:
    limit = nsq.RateLimit(20)
    counts: list[Starts] = [Starts(), Starts(), Starts()]
    async with AsyncExitStack() as stack:
        tasks = await stack.enter_async_context(anyio.create_task_group())
        consumers: list[Any] = []
        for place, starts in enumerate(counts):
            consumer, peer = await stack.enter_async_context(consuming(with_timeout(60), max_in_flight=100))
            await peer.offer(*[b"x"] * 500)
            concurrency = 1 if place == 0 else 50
            tasks.start_soon(partial(consumer.run, starts, concurrency=concurrency, max_per_second=limit))
            consumers.append(consumer)
        await anyio.sleep(10)
        for consumer in consumers:
            consumer.stop()
    assert len(counts[0]) == pytest.approx(10 * 20 / 3, rel=0.1)
    assert len(counts[1]) == pytest.approx(10 * 20 / 3, rel=0.1)
    everything = Starts(sorted(counts[0] + counts[1] + counts[2]))
    assert everything.most_within(1.0) <= limit.burst + limit.per_second


def is_lowered(peer: FakeConnection) -> bool:
    return peer.rdy <= 1


@pytest.mark.parametrize(("rate", "msg_timeout"), [(1, 2), (0.5, 1)])
async def test_a_low_rate_is_shared_in_turns_and_idle_ones_pass_theirs_on(
    rate: float, msg_timeout: float
) -> None:
    limit = nsq.RateLimit(rate)
    counts: list[Starts] = [Starts(), Starts(), Starts()]
    async with AsyncExitStack() as stack:
        tasks = await stack.enter_async_context(anyio.create_task_group())
        consumers: list[Any] = []
        for place, starts in enumerate(counts):
            consumer, peer = await stack.enter_async_context(
                consuming(with_timeout(msg_timeout), max_in_flight=100)
            )
            consumers.append(consumer)
            await peer.saw(b"RDY 100")
            tasks.start_soon(partial(consumer.run, starts, max_per_second=limit))
            await until(partial(is_lowered, peer))
            if place:  # the first one has no messages
                await peer.offer(*[b"x"] * 100)
        await anyio.sleep(60)
        assert [consumer.statistics().timed_out for consumer in consumers] == [0, 0, 0]
        for consumer in consumers:
            consumer.stop()
    assert not counts[0]
    assert len(counts[1]) >= 5
    assert abs(len(counts[1]) - len(counts[2])) <= 2


async def test_a_blocking_handler_is_bounded_too() -> None:
    starts: list[float] = []
    async with consuming(with_timeout(60)) as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(
                partial(
                    consumer.run,
                    lambda message: starts.append(message.time_left()),
                    concurrency=4,
                    max_per_second=nsq.RateLimit(20, 1),
                )
            )
            began = anyio.current_time()
            await peer.offer(*[b"x"] * 10)
            await until(lambda: len(starts) == 10, 10 * LIMIT)  # threads work in real time
            assert anyio.current_time() - began >= 9 / 20
            consumer.stop()


@pytest.mark.parametrize("wrong", [0, -1, float("inf"), float("nan"), "5", True])
async def test_a_rate_is_more_than_0(wrong: Any) -> None:
    with pytest.raises(nsq.InvalidOption, match="use more than 0"):
        nsq.RateLimit(wrong)
    async with consuming() as (consumer, _):
        with pytest.raises(nsq.InvalidOption, match="max_per_second="):
            await consumer.run(Starts(), max_per_second=wrong)
    with pytest.raises(nsq.InvalidOption, match="burst="):
        nsq.RateLimit(1, 0)
