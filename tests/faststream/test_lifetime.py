"""How subscribers begin and end, and what becomes of their messages."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from typing import Any

import anyio
import pytest
from faststream import FastStream
from faststream.exceptions import IncorrectState, StopApplication, StopConsume
from faststream_nsq import NsqBroker, NsqMessage, NsqRouter

import nsq_anyio as nsq

from ..interop.cluster import Cluster, Server
from ..interop.observe import LIMIT, until
from .running import QUICK, broker_of, running, until_channel, until_empty

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("batch", [False, True])
async def test_handlers_end_before_the_broker_stops(nsqd: Server, topic: str, batch: bool) -> None:
    broker = broker_of(nsqd)
    begun, done = asyncio.Event(), asyncio.Event()

    @broker.subscriber(topic, "c", batch=batch, max_in_flight=10)
    async def handle() -> None:
        begun.set()
        await anyio.sleep(0.3)
        await broker.publish("result", f"{topic}.out")  # it still can
        done.set()

    async with running(broker):
        await broker.publish_batch(1, 2, 3, topic=topic)
        await begun.wait()
    assert done.is_set()
    channel = await nsqd.channel(topic, "c")
    assert channel.in_flight_count == 0
    assert channel.depth == (0 if batch else 2)


@pytest.mark.parametrize("batch", [False, True])
async def test_handlers_that_take_too_long_are_cancelled(nsqd: Server, topic: str, batch: bool) -> None:
    broker = broker_of(nsqd, graceful_timeout=0.1)
    ends: list[str] = []
    begun = asyncio.Event()

    @broker.subscriber(topic, "c", batch=batch)
    async def handle() -> None:
        begun.set()
        try:
            await anyio.sleep(60)
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    with anyio.fail_after(LIMIT):
        async with running(broker):
            await broker.publish("x", topic)
            await begun.wait()
    assert ends == ["cancelled"]
    channel = await until_channel(nsqd, topic, "c", lambda each: each.depth == 1)
    assert (channel.in_flight_count, channel.requeue_count) == (0, 1)


async def test_a_broker_starts_again(nsqd: Server, topic: str) -> None:
    broker = broker_of(nsqd)
    seen: list[int] = []

    @broker.subscriber(topic, "c")
    async def handle(number: int) -> None:
        seen.append(number)

    for number in range(3):
        async with running(broker):
            await broker.publish(number, topic)
            await until(lambda: len(seen) > number)  # noqa: B023 - it is called in this round alone
    assert seen == [0, 1, 2]


async def test_what_runs_is_not_started_twice(nsqd: Server, topic: str) -> None:
    broker = broker_of(nsqd)

    @broker.subscriber(topic, "c")
    async def handle() -> None: ...

    async with running(broker):
        await broker.start()
        await broker.publish("x", topic)
        assert (await until_empty(nsqd, topic, "c")).client_count == 1
    assert (await nsqd.channel(topic, "c")).client_count == 0


@pytest.mark.parametrize("batch", [False, True])
async def test_a_handler_stops_its_subscriber(nsqd: Server, topic: str, batch: bool) -> None:
    broker = broker_of(nsqd)
    calls: list[int] = []

    @broker.subscriber(topic, "c", batch=batch, max_size=1 if batch else None)
    async def handle() -> None:
        calls.append(1)
        raise StopConsume

    async with running(broker):
        await broker.publish_batch(1, 2, topic=topic)
        await until_channel(nsqd, topic, "c", lambda each: not each.client_count)
        assert await broker.ping()  # that was no failure
        assert calls == [1]
        await broker.start()  # it can begin again
        await until(lambda: len(calls) == 2)
    assert (await nsqd.channel(topic, "c")).in_flight_count == 0


async def test_a_handler_ends_the_application(nsqd: Server, topic: str) -> None:
    broker = broker_of(nsqd)
    app = FastStream(broker, logger=None)

    @broker.subscriber(topic, "c")
    async def handle() -> None:
        raise StopApplication

    @app.after_startup
    async def publish() -> None:
        await broker.publish("x", topic)

    with anyio.fail_after(LIMIT):
        await app.run()


async def test_a_refusal_for_good_ends_the_application(nsqd: Server, topic: str, caplog: Any) -> None:
    logger = logging.getLogger("test-faststream")
    # More than nsqd allows: it refuses IDENTIFY.
    broker = broker_of(nsqd, logger=logger, connection=nsq.ConnectionOptions(msg_timeout=86_400))
    app = FastStream(broker, logger=None)

    @broker.subscriber(topic, "c")
    async def handle() -> None: ...

    with anyio.fail_after(LIMIT), pytest.raises(ExceptionGroup) as failed:
        await app.run()
    refusals: tuple[object, ...] = failed.value.exceptions
    assert [type(each) for each in refusals] == [nsq.PermanentRefusal] * 2  # the producer, the consumer
    assert f"{topic}/c is no longer consumed" in caplog.text
    assert "nothing can be published" in caplog.text


async def test_ping_tells_of_a_subscriber_that_has_failed(cluster: Cluster, topic: str) -> None:
    nsqd = await cluster.nsqd("embedded")
    broker = broker_of(nsqd)

    # Only the subscriber fails: no delay of a backoff is acceptable to it.
    def no_number(_level: int) -> float:
        return "soon"  # type: ignore[return-value] # pyright: ignore[reportReturnType]

    options = nsq.ConsumerOptions(backoff_strategy=no_number, requeue_delay=0)

    @broker.subscriber(topic, "c", options=options)
    async def handle() -> None:
        raise ValueError

    with pytest.raises(ExceptionGroup, match="the broker has failed"):
        async with running(broker):
            await broker.publish("x", topic)
            with anyio.fail_after(LIMIT):
                while await broker.ping():  # noqa: ASYNC110 - the broker is only asked
                    await anyio.sleep(0.01)


@pytest.mark.parametrize("kind", ["embedded", "real"])
async def test_an_nsqd_that_restarts(cluster: Cluster, topic: str, kind: Any, tmp_path: Any) -> None:
    nsqd = await cluster.nsqd("stored" if kind == "embedded" else "real", data_path=tmp_path)
    broker = broker_of(nsqd)
    seen: list[int] = []

    @broker.subscriber(topic, "c")
    async def handle(number: int) -> None:
        seen.append(number)

    async with running(broker):
        await broker.publish(1, topic)
        await until(lambda: seen == [1])
        await nsqd.stop()
        await cluster.nsqd(nsqd.kind, succeeding=nsqd, data_path=tmp_path)
        await broker.publish(2, topic)  # it waits for the connection
        await until(lambda: seen[-1] == 2)
        assert await broker.ping()


async def test_an_nsqd_that_comes_later(cluster: Cluster, topic: str) -> None:
    gone = await cluster.nsqd("embedded")
    await gone.stop()
    broker = broker_of(gone)
    seen: list[int] = []

    @broker.subscriber(topic, "c")
    async def handle(number: int) -> None:
        seen.append(number)

    async with running(broker):
        assert not await broker.ping(timeout=0.05)
        await cluster.nsqd("embedded", succeeding=gone)
        await broker.publish(1, topic)
        await until(lambda: seen == [1])


async def test_nsqds_are_discovered(cluster: Cluster, topic: str) -> None:
    lookupd = await cluster.nsqlookupd("embedded")
    for _ in range(2):
        await cluster.nsqd("embedded", lookupds=[lookupd], channels={topic: ["c"]})
    broker = NsqBroker(
        nsqlookupd=lookupd.http_url,
        consumer=dataclasses.replace(QUICK, lookupd_poll_interval=0.1),
        options=nsq.ProducerOptions(lookupd_poll_interval=0.1),
        logger=None,
    )
    nsqds: set[str] = set()

    @broker.subscriber(topic, "c", max_in_flight=2)  # one for each nsqd
    async def handle(message: NsqMessage) -> None:
        nsqds.add(message.raw_message.nsqd)

    async with running(broker):
        for number in range(4):
            await broker.publish(number, topic)
        await until(lambda: len(nsqds) == 2)


async def test_a_subscriber_with_handlers_gives_no_messages(nsqd: Server, topic: str) -> None:
    broker = broker_of(nsqd)
    subscriber = broker.subscriber(topic, "c")

    @subscriber
    async def handle() -> None: ...

    async with running(broker):
        with pytest.raises(IncorrectState, match="handlers"):
            await subscriber.get_one()
    alone = NsqRouter().subscriber(topic, "c")
    with pytest.raises(IncorrectState, match="connect"):
        await alone.get_one()


async def test_a_prefix_that_nsqd_would_refuse(nsqd: Server, topic: str) -> None:
    router = NsqRouter("no/")

    @router.subscriber(topic, "c")
    async def handle() -> None: ...

    broker = broker_of(nsqd, routers=[router])
    with pytest.raises(nsq.InvalidName):
        await broker.start()
    with pytest.raises(IncorrectState):  # it is closed again
        await broker.publish("x", topic)


async def test_blocking_handlers_run_in_threads(nsqd: Server, topic: str) -> None:
    broker = broker_of(nsqd)
    seen: list[int] = []

    @broker.subscriber(topic, "c")
    def handle(number: int) -> None:
        seen.append(number)

    async with running(broker):
        await broker.publish(1, topic)
        await until_empty(nsqd, topic, "c")
    assert seen == [1]
