"""A consumer that starts before its nsqlookupd and its topic has its first message within two seconds."""

from __future__ import annotations

import anyio
import pytest

import nsq_anyio as nsq

from .cluster import Cluster
from .observe import PROMPT, Events, take

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])]

LIMIT = 2.0


async def test_a_consumer_that_starts_a_second_before_its_nsqlookupd(cluster: Cluster) -> None:
    lookupd = await cluster.nsqlookupd("real")
    await lookupd.stop()  # its ports are known, and nobody listens there
    events = Events()
    started = anyio.current_time()
    async with nsq.consume(
        "t", "c", nsqlookupd=lookupd.http_url, connection=PROMPT, on_event=events
    ) as consumer:
        await anyio.sleep(1)
        lookupd = await cluster.nsqlookupd("real", succeeding=lookupd)
        nsqd = await cluster.nsqd("real", lookupds=[lookupd])
        await nsqd.publish("t", b"first")
        there = anyio.current_time()
        (message,) = await take(consumer, 1)
        waited = anyio.current_time() - there
    assert message.body == b"first"
    # The delays double: on a machine so busy that the servers take seconds to start, they have grown as well.
    assert waited < max(LIMIT, 1.5 * (there - started)), waited
    assert events.of(nsq.events.LookupFailed)


async def test_a_consumer_that_starts_before_its_topic(cluster: Cluster) -> None:
    lookupd = await cluster.nsqlookupd("real")
    nsqd = await cluster.nsqd("real", lookupds=[lookupd])
    events = Events()
    async with nsq.consume(
        "t", "c", nsqlookupd=lookupd.http_url, connection=PROMPT, on_event=events
    ) as consumer:
        await anyio.sleep(1)
        await nsqd.publish("t", b"first")
        there = anyio.current_time()
        (message,) = await take(consumer, 1)
        waited = anyio.current_time() - there
    assert message.body == b"first"
    assert waited < LIMIT, waited
    assert not events.of(nsq.events.LookupFailed)
    assert not events.of(nsq.events.TopicUnknown)  # that would be a warning, after 5 seconds
