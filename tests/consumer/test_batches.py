# pyright: reportPossiblyUnboundVariable=false
"""`Consumer.batches`: lists of messages that end when they are full, late, or starved."""

import math
from typing import Any

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.consumer.batches import Batches

from .. import virtual_time
from ..fake_nsqd import LIMIT, consuming, until
from .flow import consuming_from, settled
from .late_answers import OFTEN, impatient

anyio_backend = virtual_time.anyio_backend
pytestmark = pytest.mark.anyio

LONG = 60.0


def bodies(batch: list[nsq.Message]) -> list[bytes]:
    return [message.body for message in batch]


def finish(batch: list[nsq.Message]) -> None:
    for message in batch:
        message.finish()


async def test_batches_are_full_while_messages_abound() -> None:
    async with consuming() as (consumer, peer):
        got: list[list[bytes]] = []
        batches = consumer.batches(max_size=4, max_wait=LONG)
        await peer.saw(b"RDY 4")
        await peer.offer(*[b"%d" % n for n in range(12)])
        async for batch in batches:
            got.append(bodies(batch))
            finish(batch)
            if len(got) == 3:
                break
        assert got == [[b"0", b"1", b"2", b"3"], [b"4", b"5", b"6", b"7"], [b"8", b"9", b"10", b"11"]]


async def test_a_batch_ends_max_wait_after_its_first_message() -> None:
    async with consuming() as (consumer, peer):
        batches = consumer.batches(max_size=50, max_wait=0.05)
        await anyio.sleep(0.03)  # does not count: there is no message yet
        await peer.messages(b"a", b"b")
        began = anyio.current_time()
        assert bodies(await anext(batches)) == [b"a", b"b"]
        assert 0.045 <= anyio.current_time() - began < 2


async def test_no_wait_gives_what_is_there() -> None:
    async with consuming(max_in_flight=50) as (consumer, peer):
        await peer.messages(b"a", b"b", b"c")
        await until(lambda: consumer.statistics().waiting == 3)
        with anyio.fail_after(LIMIT):
            assert bodies(await anext(consumer.batches(50, max_wait=0))) == [b"a", b"b", b"c"]


async def test_it_waits_for_a_first_message_as_long_as_it_takes() -> None:
    async with consuming() as (consumer, peer):
        batches = consumer.batches(5, max_wait=0)
        with anyio.move_on_after(0.03) as scope:
            await anext(batches)
        assert scope.cancelled_caught
        await peer.message(b"a")
        assert bodies(await anext(batches)) == [b"a"]


async def test_a_batch_is_cut_short_when_no_more_can_come() -> None:
    """nsqd sends nothing more before these are answered: waiting would be in vain."""
    async with consuming(max_in_flight=4) as (consumer, peer):
        await peer.saw(b"RDY 4")
        await peer.offer(*[b"x"] * 10)
        batches = consumer.batches(max_size=10, max_wait=LONG)
        with anyio.fail_after(LIMIT):
            for count in (4, 4, 2):
                if count == 2:
                    consumer.max_in_flight = 2
                batch = await anext(batches)
                assert len(batch) == count
                finish(batch)


async def test_messages_of_several_connections_make_one_batch() -> None:
    async with consuming_from(3, max_in_flight=9) as (consumer, peers):
        await settled(peers, 3, 3, 3)
        for peer in peers:
            await peer.offer(b"x", b"y")
        with anyio.fail_after(LIMIT):
            batch = await anext(consumer.batches(max_size=6, max_wait=LONG))
        assert len({message.nsqd for message in batch}) == 3
        finish(batch)


async def test_one_starved_connection_of_several_is_enough_to_end_it() -> None:
    async with consuming_from(2, max_in_flight=6) as (consumer, peers):
        await settled(peers, 3, 3)
        await peers[0].offer(*[b"x"] * 5)
        with anyio.fail_after(LIMIT):
            assert len(await anext(consumer.batches(max_size=6, max_wait=LONG))) == 3


async def test_max_in_flight_follows_the_size() -> None:
    async with consuming() as (consumer, peer):
        consumer.batches(20)
        await peer.saw(b"RDY 20")
        assert consumer.max_in_flight == 20
        consumer.batches(5)
        assert consumer.max_in_flight == 20


async def test_max_in_flight_that_was_given_does_not_follow_it() -> None:
    async with consuming(max_in_flight=3) as (consumer, _):
        consumer.batches(20)
        assert consumer.max_in_flight == 3


# The end.


async def test_stop_gives_the_last_batch_and_then_the_iteration_ends() -> None:
    async with consuming() as (consumer, peer):
        got: list[list[bytes]] = []

        async def take() -> None:
            async for batch in consumer.batches(max_size=10, max_wait=LONG):
                got.append(bodies(batch))
                finish(batch)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take)
            await peer.saw(b"RDY 10")
            ids = await peer.messages(b"a", b"b", b"c")
            await until(lambda: consumer.in_flight == 3 and not consumer.statistics().waiting)
            assert got == []
            consumer.stop()
        assert got == [[b"a", b"b", b"c"]]
        await peer.saw(*(b"FIN " + id for id in ids))
        with pytest.raises(StopAsyncIteration):
            await anext(consumer.batches(10))


async def test_a_batch_that_is_cancelled_in_the_middle_loses_nothing() -> None:
    async with consuming() as (consumer, peer):
        batches = consumer.batches(max_size=10, max_wait=LONG)
        await peer.saw(b"RDY 10")
        await peer.messages(b"a", b"b", b"c")
        with anyio.move_on_after(0.03) as scope:
            await anext(batches)
        assert scope.cancelled_caught
        assert consumer.statistics().waiting == 3
        await peer.messages(b"d", b"e", b"f", b"g", b"h", b"i")
        with anyio.fail_after(LIMIT):
            assert b"".join(bodies(await anext(batches))) == b"abcdefghi"


async def test_what_a_cancelled_batch_puts_back_wakes_another_taker() -> None:
    async with consuming(max_in_flight=10) as (consumer, peer):
        batches = consumer.batches(max_size=10, max_wait=LONG)
        got: list[bytes] = []

        async def take() -> None:
            for _ in range(2):
                got.append((await anext(consumer)).body)

        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as inner:
                    inner.start_soon(batches.__anext__)
                    await peer.messages(b"a", b"b")
                    await until(lambda: consumer.in_flight == 2 and not consumer.statistics().waiting)
                    tasks.start_soon(take)
                    await anyio.wait_all_tasks_blocked()
                    scope.cancel()
            await until(lambda: len(got) == 2)
        assert got == [b"a", b"b"]


async def test_what_is_put_back_after_stop_goes_back_to_nsqd() -> None:
    async with consuming() as (consumer, peer):
        batches = consumer.batches(max_size=10, max_wait=LONG)
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(batches.__anext__)
                ids = await peer.messages(b"a", b"b")
                await until(lambda: consumer.in_flight == 2 and not consumer.statistics().waiting)
                scope.cancel()
                consumer.stop()
        await peer.saw(*(b"REQ %b 0" % id for id in ids))


async def test_several_tasks_take_batches_and_each_message_comes_once() -> None:
    taken: list[bytes] = []
    takers: set[int] = set()

    async with consuming(max_in_flight=12) as (consumer, peer):

        async def take(number: int) -> None:
            async for batch in consumer.batches(max_size=4, max_wait=0.01):
                takers.add(number)
                taken.extend(bodies(batch))
                await anyio.sleep(0.001)
                finish(batch)

        async with anyio.create_task_group() as tasks:
            for number in range(3):
                tasks.start_soon(take, number)
            await peer.saw(b"RDY 12")
            await peer.offer(*[b"%d" % n for n in range(60)])
            await until(lambda: consumer.statistics().finished == 60)
            consumer.stop()
    assert sorted(map(int, taken)) == list(range(60))
    assert takers == {0, 1, 2}


# What is not in a batch.


async def test_a_message_that_times_out_while_more_are_awaited_is_left_out() -> None:
    async with consuming(impatient(40), options=OFTEN) as (consumer, peer):
        batches = consumer.batches(max_size=10, max_wait=0.1)
        await peer.message(b"expires")
        with anyio.fail_after(LIMIT):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(later, 0.08, peer.message, b"fresh")
                assert bodies(await anext(batches)) == [b"fresh"]
        assert consumer.statistics().timed_out == 1


async def test_messages_of_a_connection_that_is_lost_while_more_are_awaited_are_left_out() -> None:
    async with consuming_from(2, max_in_flight=20) as (consumer, (one, other)):
        await settled([one, other], 10, 10)
        await one.message(b"lost")
        await other.message(b"held")
        await until(lambda: consumer.statistics().waiting == 2)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(later, 0.02, one.close)
            assert bodies(await anext(consumer.batches(max_size=10, max_wait=0.1))) == [b"held"]


async def later(seconds: float, call: Any, *arguments: Any) -> None:
    await anyio.sleep(seconds)
    await call(*arguments)


async def test_messages_that_came_too_often_are_given_up_and_not_in_a_batch() -> None:
    async with consuming(max_in_flight=10) as (consumer, peer):
        id = await peer.message(b"too often", attempts=101)
        await peer.message(b"fine")
        assert bodies(await anext(consumer.batches(10, max_wait=0.03))) == [b"fine"]
        await peer.saw(b"FIN " + id)


# Arguments.


@pytest.mark.parametrize("max_size", [0, -1, 1.5, True, None, "10"])
async def test_a_size_that_is_no_positive_count(max_size: Any) -> None:
    async with consuming() as (consumer, _):
        with pytest.raises(nsq.InvalidOption, match=r"^max_size=.* is not valid: use 1 or more"):
            consumer.batches(max_size)
        assert consumer.max_in_flight == 1


@pytest.mark.parametrize("max_wait", [-0.1, math.nan, math.inf, True, None, "1"])
async def test_a_wait_that_is_no_time(max_wait: Any) -> None:
    async with consuming() as (consumer, _):
        with pytest.raises(nsq.InvalidOption, match=r"^max_wait=.* is not valid: use 0 or more"):
            consumer.batches(10, max_wait)
        assert consumer.max_in_flight == 1


async def test_there_are_no_batches_outside_the_block() -> None:
    async with consuming() as (consumer, _):
        pass
    with pytest.raises(nsq.Closed):
        consumer.batches(10)


async def test_max_wait_does_not_cut_a_give_up_short() -> None:
    given_up: list[bytes] = []

    async def on_give_up(message: nsq.Message) -> None:
        await anyio.sleep(5)  # such as a publish to where dead letters go
        given_up.append(message.body)

    async with consuming(on_give_up=on_give_up, max_in_flight=5) as (consumer, peer):
        batches = consumer.batches(5, max_wait=1)
        await peer.messages(b"a", b"b")
        (hopeless,) = await peer.messages(b"hopeless", attempts=101)
        await peer.messages(b"c")
        began = anyio.current_time()
        batch = await anext(batches)
        assert bodies(batch) == [b"a", b"b"]
        assert anyio.current_time() - began < 0.5  # nor do the others wait for it
        finish(batch)
        batch = await anext(batches)
        assert bodies(batch) == [b"c"]
        finish(batch)
        await peer.saw(b"FIN " + hopeless)
    assert given_up == [b"hopeless"]
    assert not any(line.startswith(b"REQ") for line in peer.lines)


async def test_a_message_to_give_up_that_comes_while_a_batch_is_collected() -> None:
    given_up: list[bytes] = []

    async def on_give_up(message: nsq.Message) -> None:
        await anyio.sleep(5)
        given_up.append(message.body)

    async with consuming(on_give_up=on_give_up, max_in_flight=5) as (consumer, peer):
        batches = consumer.batches(5, max_wait=1)
        async with anyio.create_task_group() as tasks:
            await peer.messages(b"a")
            tasks.start_soon(take_one, batches)
            await anyio.sleep(0.5)
            await peer.messages(b"hopeless", attempts=101)
        await peer.messages(b"b")
        assert bodies(await anext(batches)) == [b"b"]
    assert given_up == [b"hopeless"]


async def take_one(batches: Batches) -> None:
    batch = await anext(batches)
    assert bodies(batch) == [b"a"]
    finish(batch)


async def test_a_message_on_its_last_attempt_comes_alone() -> None:
    options = nsq.ConsumerOptions(max_attempts=3)
    async with consuming(max_in_flight=50, options=options) as (consumer, peer):
        batches = consumer.batches(max_size=50, max_wait=0.05)
        await peer.messages(b"a", b"b", attempts=2)
        await peer.messages(b"c", b"d", attempts=3)
        await peer.messages(b"e", b"f")
        got: list[list[bytes]] = []
        for _ in range(4):
            batch = await anext(batches)
            got.append(bodies(batch))
            finish(batch)
        assert got == [[b"a", b"b"], [b"c"], [b"d"], [b"e", b"f"]]


@pytest.mark.parametrize("max_attempts", [0, 1])
async def test_batches_are_shared_where_no_later_attempt_is_the_last(max_attempts: int) -> None:
    options = nsq.ConsumerOptions(max_attempts=max_attempts)
    async with consuming(max_in_flight=50, options=options) as (consumer, peer):
        await peer.messages(b"a", b"b", attempts=1 if max_attempts else 9)
        batch = await anext(consumer.batches(max_size=2, max_wait=LONG))
        assert bodies(batch) == [b"a", b"b"]
        finish(batch)
