"""`TestNsqBroker`, which needs no nsqd."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from faststream import AckPolicy, FastStream, TestApp
from faststream_nsq import (
    NsqBatchMessage,
    NsqBroker,
    NsqMessage,
    NsqRouter,
    RequestsUnsupported,
    TestNsqBroker,
)
from pydantic import BaseModel, ValidationError

import nsq_anyio as nsq

from ..interop.cluster import Server

pytestmark = pytest.mark.anyio


class Click(BaseModel):
    page: int


def broker_of_nobody() -> NsqBroker:
    return NsqBroker("127.0.0.1:1", logger=None)


async def test_handlers_and_publishers_record_what_they_get() -> None:
    broker = broker_of_nobody()
    publisher = broker.publisher("out")

    @publisher
    @broker.subscriber("clicks", "c")
    async def handle(click: Click) -> int:
        return click.page + 1

    async with TestNsqBroker(broker) as test:
        assert test is broker
        assert await test.ping()
        await test.publish({"page": 1}, "clicks")
        handle.mock.assert_called_once_with({"page": 1})
        publisher.mock.assert_called_once_with(2)


async def test_each_channel_gets_a_message_once() -> None:
    broker = broker_of_nobody()
    seen: list[str] = []

    @broker.subscriber("t", "one")
    async def first(message: NsqMessage) -> None:
        seen.append(f"first {message.raw_message.channel}")

    @broker.subscriber("t", "one")
    async def same(message: NsqMessage) -> None:
        seen.append("same")

    @broker.subscriber("t", "two")
    async def other(message: NsqMessage) -> None:
        seen.append(f"other {message.raw_message.channel}")
        assert isinstance(message.raw_message, nsq.testing.RecordedMessage)

    @broker.subscriber("other", "two")
    async def elsewhere() -> None:
        seen.append("elsewhere")

    async with TestNsqBroker(broker) as test:
        await test.publish("x", "t")
    assert sorted(each for each in seen if "other" in each) == ["other two"]
    assert len(seen) == 2


async def test_batches() -> None:
    broker = broker_of_nobody()
    seen: list[Any] = []

    @broker.subscriber("t", "c", batch=True)
    async def handle(numbers: list[int], message: NsqBatchMessage) -> None:
        seen.append((numbers, [each["tenant"] for each in message.batch_headers]))

    @broker.subscriber("t", "d")
    async def single(number: int) -> None:
        seen.append(number)

    async with TestNsqBroker(broker) as test:
        await test.publish_batch(1, 2, topic="t", headers={"tenant": "a"})
        await test.publish(3, "t", headers={"tenant": "b"}, defer=60)
    assert sorted(seen, key=str) == [([1, 2], ["a", "a"]), ([3], ["b"]), 1, 2, 3]


@pytest.mark.parametrize(
    ("policy", "answer"),
    [
        (AckPolicy.NACK_ON_ERROR, nsq.testing.Requeued),
        (AckPolicy.REJECT_ON_ERROR, nsq.testing.Discarded),
        (AckPolicy.ACK, nsq.testing.Finished),
        (AckPolicy.ACK_FIRST, nsq.testing.Finished),
        (AckPolicy.MANUAL, nsq.testing.Requeued),
    ],
)
async def test_messages_record_their_answers(policy: AckPolicy, answer: type) -> None:
    broker = broker_of_nobody()
    messages: list[Any] = []

    @broker.subscriber("t", "c", ack_policy=policy)
    async def handle(message: NsqMessage) -> None:
        messages.append(message.raw_message)
        raise KeyError("no such page")

    async with TestNsqBroker(broker) as test:
        with pytest.raises(KeyError):
            await test.publish("x", "t")
    assert isinstance(messages[0].answer, answer)


async def test_what_the_types_refuse_is_raised() -> None:
    broker = broker_of_nobody()

    @broker.subscriber("t", "c")
    async def handle(click: Click) -> None: ...

    async with TestNsqBroker(broker) as test:
        with pytest.raises(ValidationError):
            await test.publish({"page": "none"}, "t")


async def test_requests_are_refused() -> None:
    async with TestNsqBroker(broker_of_nobody()) as test:
        with pytest.raises(RequestsUnsupported):
            await test.request("x", "t")


async def test_replies() -> None:
    broker = broker_of_nobody()

    @broker.subscriber("t", "c")
    async def handle(number: int) -> int:
        return number + 1

    @broker.subscriber("replies", "c")
    async def replies(number: int) -> None: ...

    async with TestNsqBroker(broker) as test:
        await test.publish(1, "t", reply_to="replies")
        replies.mock.assert_called_once_with(2)


async def test_an_application_with_its_lifespan() -> None:
    router = NsqRouter("v1.")

    @router.subscriber("t", "c")
    async def handle(text: str) -> None: ...

    broker = broker_of_nobody()
    broker.include_router(router)
    app = FastStream(broker, logger=None)
    started: list[str] = []

    @app.after_startup
    async def greet() -> None:
        started.append("app")
        await broker.publish("hello", "v1.t")

    async with TestNsqBroker(broker), TestApp(app):
        handle.mock.assert_called_once_with("hello")
    assert started == ["app"]


async def test_several_brokers_exchange_messages() -> None:
    here, there = broker_of_nobody(), broker_of_nobody()

    @there.subscriber("t", "c")
    async def handle(text: str) -> None: ...

    async with TestNsqBroker(here, there) as brokers:
        assert [*brokers] == [here, there]
        await here.publish("x", "t")
        handle.mock.assert_called_once_with("x")


async def test_with_an_nsqd(nsqd: Server, topic: str) -> None:
    broker = NsqBroker(nsqd.tcp_address, logger=None)
    publisher = broker.publisher(f"{topic}.out")

    @publisher
    @broker.subscriber(topic, "c")
    async def handle(number: int) -> int:
        return number + 1

    async with TestNsqBroker(broker, with_real=True) as test:
        await test.publish(1, topic)
        await handle.wait_call(10)
        handle.mock.assert_called_once_with(1)
        with anyio.fail_after(10):
            while not publisher.mock.called:  # noqa: ASYNC110
                await anyio.sleep(0.01)
        publisher.mock.assert_called_once_with(2)
