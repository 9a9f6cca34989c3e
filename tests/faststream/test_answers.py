"""How messages are answered, by each policy."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import anyio
import pytest
from faststream import AckPolicy
from faststream.exceptions import AckMessage, NackMessage, RejectMessage
from faststream.middlewares import ExceptionMiddleware
from faststream_nsq import NsqBatchMessage, NsqMessage
from pydantic import BaseModel, ValidationError

import nsq_anyio as nsq

from ..interop.cluster import Server
from ..interop.observe import until
from .running import QUICK, broker_of, first_of, running, until_channel, until_empty

pytestmark = pytest.mark.anyio


class Click(BaseModel):
    page: int


def quick(max_attempts: int) -> nsq.ConsumerOptions:
    return dataclasses.replace(QUICK, max_attempts=max_attempts)


async def attempts_of(nsqd: Server, topic: str, **options: Any) -> list[int]:
    """The attempts that a failing handler saw, until nsqd had no more of its only message."""
    broker = broker_of(nsqd, consumer=quick(3))
    attempts: list[int] = []

    @broker.subscriber(topic, "c", **options)
    async def handle(message: NsqMessage) -> None:
        attempts.append(message.raw_message.attempts)
        raise ValueError(message)

    async with running(broker):
        await broker.publish("x", topic)
        await until_empty(nsqd, topic, "c")
    return attempts


async def test_by_default_failures_are_retried_until_a_dead_letter(nsqd: Server, topic: str) -> None:
    broker = broker_of(nsqd, consumer=quick(3))
    attempts: list[int] = []

    @broker.subscriber(topic, "c", options=quick(2))
    async def handle(message: NsqMessage) -> None:
        attempts.append(message.raw_message.attempts)
        raise ValueError("no such page")

    async with running(broker):
        await broker.publish("x", topic)
        letter = await first_of(nsqd, f"{topic}.dead")
    assert attempts == [1, 2]
    assert letter.payload == b"x"
    assert letter.headers["content-type"] == "text/plain"
    assert "no such page" in str(letter.headers)


@pytest.mark.parametrize("policy", [AckPolicy.ACK, AckPolicy.ACK_FIRST, AckPolicy.REJECT_ON_ERROR])
async def test_policies_that_do_not_retry(nsqd: Server, topic: str, policy: AckPolicy) -> None:
    assert await attempts_of(nsqd, topic, ack_policy=policy) == [1]
    topics = {each.topic_name for each in (await nsqd.stats()).topics}
    assert (f"{topic}.dead" in topics) == (policy is AckPolicy.REJECT_ON_ERROR)


async def test_the_reason_of_a_rejection_is_in_the_dead_letter(nsqd: Server, topic: str) -> None:
    broker = broker_of(nsqd, ack_policy=AckPolicy.REJECT_ON_ERROR)

    @broker.subscriber(topic, "c")
    async def handle(message: NsqMessage) -> None:
        raise ValueError("no such page")

    async with running(broker):
        await broker.publish("x", topic)
        letter = await first_of(nsqd, f"{topic}.dead")
    assert "no such page" in str(letter.headers)


async def test_without_dead_letters_a_rejected_message_is_finished(nsqd: Server, topic: str) -> None:
    options = {"ack_policy": AckPolicy.REJECT_ON_ERROR, "dead_letter": None}
    assert await attempts_of(nsqd, topic, **options) == [1]
    assert f"{topic}.dead" not in {each.topic_name for each in (await nsqd.stats()).topics}


async def test_ack_first_finishes_before_the_handler(nsqd: Server, topic: str) -> None:
    broker = broker_of(nsqd)
    go, begun = asyncio.Event(), asyncio.Event()

    @broker.subscriber(topic, "c", ack_policy=AckPolicy.ACK_FIRST)
    async def handle() -> None:
        begun.set()
        await go.wait()

    async with running(broker):
        await broker.publish("x", topic)
        await begun.wait()
        await until_empty(nsqd, topic, "c")
        go.set()


async def test_a_message_is_finished_after_its_handler(nsqd: Server, topic: str) -> None:
    broker = broker_of(nsqd)
    go, begun = asyncio.Event(), asyncio.Event()

    @broker.subscriber(topic, "c")
    async def handle() -> None:
        begun.set()
        await go.wait()

    async with running(broker):
        await broker.publish("x", topic)
        await begun.wait()
        await until_channel(nsqd, topic, "c", lambda each: each.in_flight_count == 1)
        go.set()
        await until_empty(nsqd, topic, "c")


async def test_handlers_answer_by_raising(nsqd: Server, topic: str) -> None:
    broker = broker_of(nsqd)
    seen: list[tuple[str, int]] = []
    answers: dict[str, Exception] = {
        "ack": AckMessage(),
        "nack": NackMessage(delay=0.01, backoff=False),
        "reject": RejectMessage(reason="not wanted"),
    }

    @broker.subscriber(topic, "c")
    async def handle(text: str, message: NsqMessage) -> None:
        seen.append((text, message.raw_message.attempts))
        if message.raw_message.attempts == 1:
            raise answers[text]

    async with running(broker):
        for text in answers:
            await broker.publish(text, topic)
        letter = await first_of(nsqd, f"{topic}.dead")
        await until(lambda: len(seen) == 4)
        await until_empty(nsqd, topic, "c")
    assert sorted(seen) == [("ack", 1), ("nack", 1), ("nack", 2), ("reject", 1)]
    assert letter.payload == b"reject"
    assert "not wanted" in str(letter.headers)


async def test_handlers_answer_by_hand(nsqd: Server, topic: str) -> None:
    broker = broker_of(nsqd, ack_policy=AckPolicy.MANUAL)
    seen: list[int] = []

    @broker.subscriber(topic, "c")
    async def handle(message: NsqMessage) -> None:
        attempts = message.raw_message.attempts
        seen.append(attempts)
        if attempts == 1:
            await message.nack(0)
        elif attempts == 3:
            await message.ack()
            await message.ack()  # once is enough
            await message.nack()
            await message.reject()
        # The second time, it forgets.

    async with running(broker):
        await broker.publish("x", topic)
        channel = await until_empty(nsqd, topic, "c")
    assert seen == [1, 2, 3]
    assert channel.requeue_count == 2


async def test_what_the_types_of_a_handler_refuse_is_retried(nsqd: Server, topic: str) -> None:
    broker = broker_of(nsqd)
    seen: list[Click] = []

    @broker.subscriber(topic, "c", options=quick(2))
    async def handle(click: Click) -> None:
        seen.append(click)

    async with running(broker):
        await broker.publish({"page": "none"}, topic)
        await broker.publish({"page": 1}, topic)
        letter = await first_of(nsqd, f"{topic}.dead")
    assert seen == [Click(page=1)]
    assert letter.payload == b'{"page":"none"}'
    assert "page" in str(letter.headers)


async def test_a_middleware_rejects_what_the_types_refuse(nsqd: Server, topic: str) -> None:
    refused = ExceptionMiddleware()

    @refused.add_handler(ValidationError)
    def reject(error: ValidationError) -> None:
        raise RejectMessage(reason=str(error))

    broker = broker_of(nsqd, middlewares=[refused])

    @broker.subscriber(topic, "c")
    async def handle(click: Click) -> None: ...

    async with running(broker):
        await broker.publish({"page": "none"}, topic)
        await first_of(nsqd, f"{topic}.dead")
        channel = await until_empty(nsqd, topic, "c")
    assert channel.requeue_count == 0


@pytest.mark.parametrize("batch", [False, True])
async def test_an_unreadable_envelope_becomes_a_dead_letter(nsqd: Server, topic: str, batch: bool) -> None:
    broker = broker_of(nsqd)
    seen: list[object] = []

    @broker.subscriber(topic, "c", batch=batch)
    async def handle(body: Any) -> None:
        seen.append(body)

    async with running(broker):
        broken = nsq.envelope.MAGIC + b"\x01\xff"
        await nsqd.publish(topic, broken, b"1")
        assert (await first_of(nsqd, f"{topic}.dead")).payload == broken
        channel = await until_empty(nsqd, topic, "c")
    assert channel.requeue_count == 0
    assert seen == ([[1]] if batch else [1])


async def test_a_batch_is_answered_as_one(nsqd: Server, topic: str) -> None:
    broker = broker_of(nsqd)
    seen: list[tuple[list[int], int]] = []

    @broker.subscriber(topic, "c", batch=True, max_size=4, max_wait=0.2)
    async def handle(numbers: list[int], message: NsqBatchMessage) -> None:
        seen.append((sorted(numbers), message.raw_message[0].attempts))
        if len(seen) == 1:
            raise ValueError(numbers)

    async with running(broker):
        await broker.publish_batch(*range(6), topic=topic)
        await until(lambda: sum(len(numbers) for numbers, _ in seen) == 10)
        channel = await until_empty(nsqd, topic, "c")
    assert max(len(numbers) for numbers, _ in seen) == 4
    assert channel.requeue_count == 4


async def test_a_bad_message_takes_no_good_one_of_its_batch_to_the_dead_letters(
    nsqd: Server, topic: str
) -> None:
    broker = broker_of(nsqd, consumer=quick(3))
    stored: set[int] = set()

    @broker.subscriber(topic, "c", batch=True, max_size=7, max_wait=0.1)
    async def handle(numbers: list[int]) -> None:
        if 13 in numbers:
            raise ValueError(numbers)
        stored.update(numbers)

    async with running(broker):
        await broker.publish_batch(*range(20), topic=topic)
        assert (await first_of(nsqd, f"{topic}.dead")).payload == b"13"
        await until_empty(nsqd, topic, "c")
    assert stored == {*range(20)} - {13}
    (dead,) = [each for each in (await nsqd.stats()).topics if each.topic_name == f"{topic}.dead"]
    assert dead.message_count == 1


async def test_some_messages_of_a_batch_are_answered_by_hand(nsqd: Server, topic: str) -> None:
    broker = broker_of(nsqd)
    rounds: list[int] = []

    @broker.subscriber(topic, "c", batch=True, max_size=3, max_wait=0.2, ack_policy=AckPolicy.MANUAL)
    async def handle(numbers: list[int], message: NsqBatchMessage) -> None:
        rounds.append(len(numbers))
        if len(rounds) == 1:
            message.raw_message[0].finish()
            await message.nack(0)
        elif len(rounds) == 2:
            message.raw_message[0].finish()  # it forgets the other
        else:
            await message.reject("enough")

    async with running(broker):
        await broker.publish_batch(1, 2, 3, topic=topic)
        letter = await first_of(nsqd, f"{topic}.dead")
        await until_empty(nsqd, topic, "c")
    assert rounds == [3, 2, 1]
    assert letter.payload in (b"1", b"2", b"3")


@pytest.mark.parametrize("batch", [False, True])
async def test_a_foreign_cancellation_is_a_failure(nsqd: Server, topic: str, batch: bool) -> None:
    broker = broker_of(nsqd)
    calls: list[int] = []

    @broker.subscriber(topic, "c", batch=batch)
    async def handle() -> None:
        calls.append(1)
        if len(calls) == 1:
            task = asyncio.create_task(asyncio.sleep(60))
            asyncio.get_running_loop().call_soon(task.cancel)
            await task

    async with running(broker):
        await broker.publish("x", topic)
        channel = await until_empty(nsqd, topic, "c")
    assert (len(calls), channel.requeue_count) == (2, 1)


@pytest.mark.parametrize("batch", [False, True])
async def test_messages_are_touched_while_their_handlers_run(nsqd: Server, topic: str, batch: bool) -> None:
    broker = broker_of(nsqd, connection=nsq.ConnectionOptions(msg_timeout=1.0))
    calls: list[int] = []

    @broker.subscriber(topic, "c", batch=batch, max_wait=0.1 if batch else None)
    async def handle() -> None:
        calls.append(1)
        await anyio.sleep(1.5)

    async with running(broker):
        await broker.publish("x", topic)
        channel = await until_empty(nsqd, topic, "c")
    assert (len(calls), channel.timeout_count) == (1, 0)


async def test_without_keep_alive_a_late_handler_is_cancelled(nsqd: Server, topic: str) -> None:
    broker = broker_of(nsqd, connection=nsq.ConnectionOptions(msg_timeout=1.0))
    ends: list[str] = []

    @broker.subscriber(topic, "c", keep_alive=False)
    async def handle(message: NsqMessage) -> None:
        if message.raw_message.attempts == 1:
            try:
                await anyio.sleep(30)
            except asyncio.CancelledError:
                ends.append("cancelled")
                raise
        ends.append("done")

    async with running(broker):
        await broker.publish("x", topic)
        await until(lambda: "done" in ends)
    assert ends == ["cancelled", "done"]


async def test_get_one_and_iteration(nsqd: Server, topic: str) -> None:
    broker = broker_of(nsqd)
    single = broker.subscriber(topic, "c")
    batches = broker.subscriber(topic, "b", batch=True, max_wait=0.1)
    async with running(broker):
        assert await single.get_one(timeout=0.05) is None
        assert await batches.get_one(timeout=0.05) is None
        await nsqd.publish(topic, nsq.envelope.MAGIC, b"1", b"2")
        for number in (1, 2):
            message = await single.get_one()
            assert message is not None
            assert await message.decode() == number
            await message.ack()
        batch = await batches.get_one()
        assert batch is not None
        assert await batch.decode() == [1, 2]
        await batch.ack()
        await nsqd.publish(topic, b"3", b"4")
        got: list[object] = []
        async for message in single:
            got.append(await message.decode())
            await message.ack()
            if len(got) == 2:
                break
        assert got == [3, 4]


async def test_workers_handle_at_once(nsqd: Server, topic: str) -> None:
    broker = broker_of(nsqd)
    together = asyncio.Barrier(4)

    @broker.subscriber(topic, "c", max_workers=4)
    async def handle() -> None:
        await together.wait()

    async with running(broker):
        await broker.publish_batch(*range(8), topic=topic)
        await until_empty(nsqd, topic, "c")
