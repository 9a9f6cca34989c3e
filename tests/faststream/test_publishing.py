"""What is published, and what subscribers get of it."""

from __future__ import annotations

import time
from typing import Annotated, Any

import anyio
import pytest
from faststream import Header
from faststream.exceptions import FeatureNotSupportedException, IncorrectState, SetupError
from faststream_nsq import (
    NsqBroker,
    NsqMessage,
    NsqPublisher,
    NsqResponse,
    NsqRoute,
    NsqRouter,
    RequestsUnsupported,
)
from pydantic import BaseModel

import nsq_anyio as nsq

from ..interop.cluster import Server
from ..interop.observe import until
from .running import broker_of, first_of, running, until_empty

pytestmark = pytest.mark.anyio


class Click(BaseModel):
    page: int


@pytest.mark.parametrize(
    ("body", "payload", "content_type"),
    [
        (b"\x00bytes", b"\x00bytes", None),
        ("text", b"text", "text/plain"),
        ({"page": 1}, b'{"page":1}', "application/json"),
        (Click(page=2), b'{"page":2}', "application/json"),
        (None, b"", None),
    ],
)
async def test_bodies_and_their_content_types(
    nsqd: Server, topic: str, body: Any, payload: bytes, content_type: str | None
) -> None:
    async with broker_of(nsqd) as broker:
        await broker.publish(body, topic, headers={"Tenant": "a"}, correlation_id="c", reply_to="replies")
    message = await first_of(nsqd, topic)
    assert message.payload == payload
    own = {"correlation_id": "c", "reply_to": "replies", "tenant": "a"}
    assert message.headers == own | ({"content-type": content_type} if content_type else {})


async def test_without_an_envelope_only_the_payload_is_published(nsqd: Server, topic: str) -> None:
    async with broker_of(nsqd, envelope=False) as broker:
        await broker.publish({"page": 1}, topic, headers={"tenant": "a"})
        assert (await first_of(nsqd, topic)).body == b'{"page":1}'
        await broker.publish({"page": 1}, topic, envelope=True)
        assert (await first_of(nsqd, topic)).headers
        with pytest.raises(nsq.InvalidBody):
            await broker.publish(None, topic)


async def test_a_subscriber_gets_what_other_programs_publish(nsqd: Server, topic: str) -> None:
    broker = broker_of(nsqd)
    seen: list[object] = []

    @broker.subscriber(topic, "c")
    async def handle(body: Any, message: NsqMessage) -> None:
        seen.append((body, message.content_type, message.raw_message.attempts))

    async with running(broker):
        await nsqd.publish(topic, b'{"page": 1}', b"\xff\xfe", b"text")
        await until_empty(nsqd, topic, "c")
    assert seen == [({"page": 1}, None, 1), (b"\xff\xfe", None, 1), (b"text", None, 1)]


async def test_a_deferred_message_comes_later(nsqd: Server, topic: str) -> None:
    broker = broker_of(nsqd)
    came: list[float] = []

    @broker.subscriber(topic, "c")
    async def handle() -> None:
        came.append(time.monotonic())

    async with running(broker):
        began = time.monotonic()
        await broker.publish("late", topic, defer=0.3)
        await until(lambda: came)
    assert came[0] - began >= 0.3


async def test_a_batch_is_published_at_once(nsqd: Server, topic: str) -> None:
    broker = broker_of(nsqd)
    seen: list[object] = []

    @broker.subscriber(topic, "c")
    async def handle(body: Any, tenant: Annotated[str, Header()]) -> None:
        seen.append((body, tenant))

    async with running(broker):
        await broker.publish_batch(1, "two", Click(page=3), topic=topic, headers={"tenant": "a"})
        await until(lambda: len(seen) == 3)
        with pytest.raises(nsq.InvalidBody):
            await broker.publish_batch(topic=topic)
    assert sorted(seen, key=str) == [("two", "a"), (1, "a"), ({"page": 3}, "a")]


async def test_results_are_published_with_the_correlation_id(nsqd: Server, topic: str) -> None:
    broker = broker_of(nsqd)
    publisher = broker.publisher(f"{topic}.out", headers={"from": "test"}, reply_to="r")

    @publisher
    @broker.subscriber(topic, "c")
    async def handle(number: int) -> Any:
        return NsqResponse(number + 1, headers={"more": "b"}, defer=0.1)

    async with running(broker):
        await broker.publish(1, topic, correlation_id="c")
        message = await first_of(nsqd, f"{topic}.out")
        assert message.payload == b"2"
        assert message.headers == {
            "content-type": "application/json",
            "correlation_id": "c",
            "reply_to": "r",
            "from": "test",
            "more": "b",
        }
        await publisher.publish("x", headers={"from": "me"})
        assert (await first_of(nsqd, f"{topic}.out")).headers["from"] == "me"


async def test_the_items_of_a_result_are_messages(nsqd: Server, topic: str) -> None:
    broker = broker_of(nsqd)
    seen: list[int] = []

    @broker.subscriber(topic, "c")
    @broker.publisher(f"{topic}.out", batch=True)
    async def handle(number: int) -> list[int]:
        return [number, number + 1]

    @broker.subscriber(f"{topic}.out", "c")
    async def out(number: int) -> None:
        seen.append(number)

    async with running(broker):
        await broker.publish(1, topic)
        await until(lambda: sorted(seen) == [1, 2])


async def test_a_result_goes_to_reply_to(nsqd: Server, topic: str) -> None:
    broker = broker_of(nsqd)

    @broker.subscriber(topic, "c")
    async def handle(number: int) -> int:
        return number + 1

    @broker.subscriber(f"{topic}.silent", "c", no_reply=True)
    async def silent(number: int) -> int:
        return number

    async with running(broker):
        await broker.publish(5, f"{topic}.silent", reply_to=f"{topic}.replies")
        await until_empty(nsqd, f"{topic}.silent", "c")
        await broker.publish(1, topic, reply_to=f"{topic}.replies", correlation_id="mine")
        reply = await first_of(nsqd, f"{topic}.replies")
    assert (reply.payload, reply.headers["correlation_id"]) == (b"2", "mine")


async def test_requests_are_refused(nsqd: Server, topic: str) -> None:
    async with broker_of(nsqd) as broker:
        publisher = broker.publisher(topic)
        for request in (broker.request("x", topic, timeout=1), publisher.request("x", timeout=1)):
            with pytest.raises(RequestsUnsupported, match="reply_to") as refused:
                await request
            assert isinstance(refused.value, nsq.NSQError)
            assert isinstance(refused.value, FeatureNotSupportedException)
            assert refused.value.topic == topic


async def test_routers_with_prefixes(nsqd: Server, topic: str) -> None:
    seen: list[str] = []

    async def routed(text: str) -> str:
        seen.append(text)
        return text + "!"

    router = NsqRouter(
        f"{topic}.",
        handlers=[NsqRoute(routed, "in", "c", publishers=[NsqPublisher("out")], max_workers=2)],
    )

    @router.subscriber("out", "c")
    async def out(text: str) -> None:
        seen.append(text)

    broker = broker_of(nsqd)
    broker.include_router(router, prefix="v1.")
    async with running(broker):
        await broker.publish("a", f"v1.{topic}.in")
        await until(lambda: seen == ["a", "a!"])
    with pytest.raises(SetupError, match="NsqRouter"):
        broker.include_router(object())  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


async def test_nothing_is_published_before_and_after(nsqd: Server, topic: str) -> None:
    broker = broker_of(nsqd)
    with pytest.raises(IncorrectState, match="connect"):
        await broker.publish("x", topic)
    assert not await broker.ping()
    async with broker:
        await broker.publish("x", topic)
        assert await broker.ping()
    with pytest.raises(IncorrectState, match="connect"):
        await broker.publish("x", topic)
    async with broker:  # it can be opened again
        await broker.publish("x", topic)


async def test_ping_tells_that_no_nsqd_is_there(topic: str) -> None:
    async with NsqBroker("127.0.0.1:1", logger=None) as broker:
        with anyio.fail_after(5):
            assert not await broker.ping(timeout=0.1)


def test_wrong_options_are_refused() -> None:
    with pytest.raises(nsq.InvalidOption, match="nsqlookupd"):
        NsqBroker()
    with pytest.raises(nsq.InvalidAddress):
        NsqBroker("no port:x")
    with pytest.raises(nsq.InvalidOption, match="graceful_timeout"):
        NsqBroker("a:4150", graceful_timeout=-1)
    for parameter in ("consumer", "options", "connection"):
        with pytest.raises(nsq.InvalidOption, match=f"{parameter} is of type dict: use nsq."):
            NsqBroker("a:4150", **{parameter: {}})  # type: ignore[arg-type]
    broker = NsqBroker("a:4150")
    with pytest.raises(nsq.InvalidName):
        broker.subscriber("no topic", "c")
    with pytest.raises(nsq.InvalidName):
        broker.subscriber("t", "no channel")
    with pytest.raises(nsq.InvalidOption, match="batch=True"):
        broker.subscriber("t", "c", max_size=3)
    with pytest.raises(nsq.InvalidOption, match="max_workers"):
        broker.subscriber("t", "c", max_workers=0)
    with pytest.raises(nsq.InvalidOption, match="max_wait"):
        broker.subscriber("t", "c", batch=True, max_wait=-1)
    with pytest.raises(nsq.InvalidName):
        broker.publisher("no topic")
    with pytest.raises(nsq.InvalidOption, match="defer"):
        broker.publisher("t", defer=1, batch=True)
