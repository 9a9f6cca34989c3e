"""What else FastStream could run on."""

from __future__ import annotations

import asyncio

import anyio
import pytest
from faststream.exceptions import IncorrectState
from faststream_nsq import NsqBroker

import nsq_anyio as nsq

from ..interop.observe import until


def test_trio_is_refused() -> None:
    broker = NsqBroker("127.0.0.1:1", logger=None)
    with pytest.raises(IncorrectState, match="asyncio"):
        anyio.run(broker.start, backend="trio")


def test_a_broker_whose_event_loop_has_ended_starts_again() -> None:
    with nsq.testing.cluster_in_thread(nsqds=1, nsqlookupds=0) as cluster:
        broker = NsqBroker(cluster.nsqds[0].tcp_address, logger=None)
        seen: list[str] = []

        @broker.subscriber("t", "c")
        async def handle(body: str) -> None:
            seen.append(body)

        async def start_and_publish(body: str) -> None:
            await broker.start()
            await broker.publish(body, "t")
            await until(lambda: body in seen)

        for body in ("one", "two"):
            asyncio.run(start_and_publish(body))
        assert seen == ["one", "two"]
