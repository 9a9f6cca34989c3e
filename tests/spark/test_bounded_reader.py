"""What a partition takes from its nsqd: never more than planned, and not for longer than there is some."""

from __future__ import annotations

import anyio
import pytest

from nsq_anyio.errors import ConnectionFailed, InvalidOption
from nsq_anyio.spark.bounded_reader import bounded_reader

from .conftest import new_name
from .nsqds import Nsqd, Topic, running_nsqd
from .reading import drained, options_of, returned
from .rows import bodies

pytestmark = pytest.mark.timeout(30)


@pytest.mark.anyio
async def test_all_that_was_planned_is_taken_and_nothing_more(topic: Topic) -> None:
    topic.publish_numbers(500)
    found: list[bytes] = []
    async with bounded_reader(options_of(topic), topic.nsqd.tcp_address, 330) as reader:
        while chunk := await reader.take():
            assert len(chunk) <= 50, "nsqd must be able to send while one is stored"
            found += bodies([chunk.record_batch()])
            reader.finish(chunk)
    assert len(set(found)) == len(found) == 330
    state = topic.state()
    # What had come in excess would have been handed back.
    assert (state.depth, state.in_flight, state.requeued, state.clients) == (170, 0, 0, 0)


@pytest.mark.anyio
async def test_planned_rows_end_it_at_once(topic: Topic) -> None:
    topic.publish_numbers(300)
    options = options_of(topic, maxWait=20)
    with anyio.fail_after(10):
        async with bounded_reader(options, topic.nsqd.tcp_address, 300) as reader:
            while chunk := await reader.take():
                reader.finish(chunk)
    assert topic.state().left == 0


@pytest.mark.anyio
async def test_it_ends_when_nothing_waits_any_more(topic: Topic) -> None:
    topic.publish_numbers(30)
    started_at = anyio.current_time()
    found = 0
    async with bounded_reader(options_of(topic), topic.nsqd.tcp_address, 1_000) as reader:
        while chunk := await reader.take():
            found += len(chunk)
            reader.finish(chunk)
        assert not await reader.take()
    assert found == 30
    assert anyio.current_time() - started_at < 5
    assert topic.state().left == 0


@pytest.mark.anyio
async def test_in_flight_is_never_more_than_is_left_of_the_plan(topic: Topic) -> None:
    topic.publish_numbers(500)
    taken = 0
    async with bounded_reader(options_of(topic, maxInFlight=200), topic.nsqd.tcp_address, 120) as reader:
        while chunk := await reader.take():
            taken += len(chunk)
            state = await anyio.to_thread.run_sync(topic.state)
            assert state.in_flight <= 120
            assert state.left + taken - len(chunk) == 500
            reader.finish(chunk)
    assert topic.state().requeued == 0
    assert topic.state().left == 380


@pytest.mark.anyio
@pytest.mark.parametrize(("max_bytes", "expected"), [(1, 1), (1_000, 1), (2_500, 2), (100_000, 9)])
async def test_bytes_are_bounded_but_for_one_message(topic: Topic, max_bytes: int, expected: int) -> None:
    topic.publish([b"x" * 1_000] * 9)
    found = 0
    async with bounded_reader(options_of(topic), topic.nsqd.tcp_address, 9, max_bytes=max_bytes) as reader:
        while chunk := await reader.take():
            found += len(chunk)
            reader.finish(chunk)
    # The message that crosses the bound may come by itself.
    assert expected <= found <= min(expected + 1, 9)
    await returned(topic, 9 - found)


@pytest.mark.anyio
async def test_trickle_does_not_keep_a_batch_open(topic: Topic) -> None:
    """A message every 0.05 s, before maxWait is over: with a msgTimeout of 1 s, 0.25 s of that are enough."""
    options = options_of(topic, msgTimeout=1, maxWait=2)

    async def publish() -> None:
        while True:
            await anyio.to_thread.run_sync(topic.nsqd.publish, topic.name, [b"drop"])
            await anyio.sleep(0.05)

    found = 0
    with anyio.fail_after(8):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(publish)
            async with bounded_reader(options, topic.nsqd.tcp_address, 10_000) as reader:
                while chunk := await reader.take():
                    found += len(chunk)
                    reader.finish(chunk)
            tasks.cancel_scope.cancel()
    assert found >= 1


@pytest.mark.anyio
async def test_failure_in_the_block_hands_back_what_is_unanswered(topic: Topic) -> None:
    topic.publish_numbers(60)
    with pytest.raises(ZeroDivisionError):
        async with bounded_reader(options_of(topic, maxInFlight=20), topic.nsqd.tcp_address, 60) as reader:
            reader.finish(await reader.take())
            raise ZeroDivisionError
    await returned(topic, 50)
    assert topic.state().clients == 0


@pytest.mark.anyio
async def test_cancellation_hands_back_what_is_unanswered(topic: Topic) -> None:
    topic.publish_numbers(60)
    with anyio.CancelScope() as scope:
        async with bounded_reader(options_of(topic), topic.nsqd.tcp_address, 60) as reader:
            assert await reader.take()
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    await returned(topic, 60)


@pytest.mark.anyio
async def test_unreachable_nsqd_is_named(real_topic: Topic, unreachable: str) -> None:
    started_at = anyio.current_time()
    with pytest.raises(ConnectionFailed, match=unreachable):
        async with bounded_reader(options_of(real_topic, connectTimeout=0.5), unreachable, 10):
            pytest.fail("there is nothing to read")
    assert anyio.current_time() - started_at < 5


@pytest.mark.anyio
async def test_refusal_is_raised_with_the_name_of_the_option(real_nsqd: Nsqd, real_topic: Topic) -> None:
    # The real nsqd refuses a msg_timeout above its --max-msg-timeout.
    expected = r"msgTimeout=86400\.0 is not valid: nsqd .* allows no more than its --max-msg-timeout"
    with pytest.raises(InvalidOption, match=expected):
        async with bounded_reader(options_of(real_topic, msgTimeout=86_400), real_nsqd.tcp_address, 10):
            pytest.fail("there is nothing to read")


@pytest.mark.anyio
async def test_missing_file_of_the_options_is_named(real_topic: Topic) -> None:
    options = options_of(real_topic, authSecretFile="/nowhere/secret")
    with pytest.raises(InvalidOption, match="authSecretFile='/nowhere/secret' cannot be read"):
        async with bounded_reader(options, real_topic.nsqd.tcp_address, 10):
            pytest.fail("there is nothing to read")


@pytest.mark.anyio
async def test_an_nsqd_that_refuses_the_default_buffering_is_read() -> None:
    with running_nsqd("real", ["--min-output-buffer-timeout=100ms"]) as nsqd:
        topic = nsqd.topic(new_name())
        topic.publish_numbers(30)
        async with bounded_reader(options_of(topic), nsqd.tcp_address, 30) as reader:
            assert len(await drained(reader)) == 30
