"""A bounded rate on a real nsqd: what waits, waits there, and no message times out."""

from __future__ import annotations

from functools import partial

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.events import MessageTimedOut

from .cluster import Cluster
from .observe import PROMPT, Events

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])]

WAITING = 100
WATCHED = 5.0
"""Seconds, five times the message timeout."""


@pytest.mark.parametrize("blocking", [False, True])
@pytest.mark.parametrize("rate", [5, 0.5])
async def test_no_message_times_out(cluster: Cluster, rate: float, blocking: bool) -> None:
    nsqd = await cluster.nsqd("real", channels={"t": ["c"]})
    await nsqd.publish("t", *[b"x"] * WAITING)
    events = Events()
    starts: list[float] = []
    attempts: list[int] = []

    def note(message: nsq.Message) -> None:
        starts.append(message.time_left())
        attempts.append(message.attempts)

    async def note_in_loop(message: nsq.Message) -> None:
        note(message)

    connection = nsq.ConnectionOptions(msg_timeout=1.0, output_buffer_timeout=PROMPT.output_buffer_timeout)
    async with (
        nsq.consume(
            "t", "c", nsqd=nsqd.tcp_address, max_in_flight=200, connection=connection, on_event=events
        ) as consumer,
        anyio.create_task_group() as tasks,
    ):
        await consumer.ready()
        handler = note if blocking else note_in_loop
        tasks.start_soon(partial(consumer.run, handler, concurrency=8, max_per_second=nsq.RateLimit(rate, 1)))
        await anyio.sleep(WATCHED)
        consumer.stop()
    assert not events.of(MessageTimedOut)
    assert all(seconds > 0 for seconds in starts)
    # The first few came before the RDY count followed, and were handed back once.
    assert max(attempts) <= 2
    assert WATCHED * rate * 0.5 <= len(starts) <= WATCHED * rate + 1
    channel = await nsqd.channel("t", "c")
    assert channel.timeout_count == 0
    assert channel.depth + channel.deferred_count == WAITING - len(starts)
