"""Leaving the block hands back hundreds of messages that nobody has started, at once."""

from __future__ import annotations

from typing import Literal

import anyio
import pytest

import nsq_anyio as nsq

from .cluster import Cluster
from .observe import PROMPT, take, until

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])]

BODIES = [b"%d" % number for number in range(500)]


@pytest.mark.parametrize("how", ["success", "cancellation"])
async def test_leaving_with_unstarted_messages(
    cluster: Cluster, how: Literal["success", "cancellation"]
) -> None:
    nsqds = [await cluster.nsqd("real", channels={"t": ["c"]}) for _ in range(2)]
    for place, nsqd in enumerate(nsqds):
        await nsqd.publish("t", *BODIES[place::2])
    addresses = [nsqd.tcp_address for nsqd in nsqds]
    left_at = 0.0
    with anyio.CancelScope() as scope:
        async with nsq.consume("t", "c", nsqd=addresses, max_in_flight=500, connection=PROMPT) as consumer:
            await until(lambda: consumer.statistics().waiting == len(BODIES))
            left_at = anyio.current_time()
            if how == "cancellation":
                scope.cancel()
                await anyio.sleep_forever()
    channels = [await nsqd.channel("t", "c") for nsqd in nsqds]
    elapsed = anyio.current_time() - left_at
    for channel in channels:
        assert (channel.in_flight_count, channel.deferred_count, channel.timeout_count) == (0, 0, 0)
    assert sum(channel.depth for channel in channels) == len(BODIES)
    assert elapsed < 1
    async with nsq.consume("t", "c", nsqd=addresses, max_in_flight=500, connection=PROMPT) as consumer:
        messages = await take(consumer, len(BODIES))
    assert sorted(message.body for message in messages) == sorted(BODIES)
    assert {message.attempts for message in messages} == {2}  # handed out once, and now again
