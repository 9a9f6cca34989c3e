"""What the tests share: brokers that run, and waiting for what nsqd has."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from faststream_nsq import NsqBroker

import nsq_anyio as nsq
from nsq_anyio.http.stats import ChannelStats

from ..interop.cluster import Server
from ..interop.observe import LIMIT, until_told

QUICK = nsq.ConsumerOptions(requeue_delay=0.01, max_backoff_duration=0, reconnect_delay=0.05)


def broker_of(nsqd: Server, **options: Any) -> NsqBroker:
    """A broker that retries soon, and logs nothing."""
    chosen: dict[str, Any] = {"consumer": QUICK, "logger": None, **options}
    return NsqBroker(nsqd.tcp_address, **chosen)


@asynccontextmanager
async def running(broker: NsqBroker) -> AsyncGenerator[NsqBroker]:
    """Start a broker, and stop it at the end of the block."""
    async with broker:
        await broker.start()
        yield broker


async def until_channel(
    nsqd: Server, topic: str, channel: str, condition: Callable[[ChannelStats], bool]
) -> ChannelStats:
    """Wait until a channel is there, and as it should be."""

    async def ask() -> ChannelStats | None:
        stats = await nsqd.stats()
        found = [each for of in stats.topics if of.topic_name == topic for each in of.channels]
        fitting = [each for each in found if each.channel_name == channel and condition(each)]
        return fitting[0] if fitting else None

    found = await until_told(ask)
    assert found is not None
    return found


async def until_empty(nsqd: Server, topic: str, channel: str) -> ChannelStats:
    """Wait until nsqd has no message of a channel, and waits for no answer."""
    return await until_channel(
        nsqd,
        topic,
        channel,
        lambda each: bool(each.message_count) and not each.depth + each.in_flight_count + each.deferred_count,
    )


async def first_of(nsqd: Server, topic: str) -> nsq.Message:
    """The first message of a topic."""
    async with nsq.consume(topic, "look", nsqd=nsqd.tcp_address) as consumer:
        with anyio.fail_after(LIMIT):
            async for message in consumer:
                message.finish()
                return message
    raise AssertionError
