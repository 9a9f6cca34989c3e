"""Copies on real nsqds: one that is frozen, and disks that are lost."""

from __future__ import annotations

import signal

import anyio
import pytest

import nsq_anyio as nsq

from ..deduplication import ledger
from ..real_servers import real_nsqd, suspend

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    backend: str = request.param
    return backend


async def test_a_frozen_nsqd_delays_a_publish_up_to_its_timeout() -> None:
    options = nsq.ProducerOptions(publish_timeout=1, drain_timeout=0.2)
    async with real_nsqd() as well, real_nsqd() as frozen:
        nsqds = [well.tcp_address, frozen.tcp_address]
        async with nsq.produce(nsqds, copies=2, options=options) as producer:
            await producer.publish("t", b"before")
            suspend(frozen.process)
            try:
                with anyio.fail_after(10), pytest.raises(nsq.FewerCopies, match="no answer within") as raised:
                    await producer.publish("t", b"meanwhile")
            finally:
                frozen.process.send_signal(signal.SIGCONT)
            assert raised.value.stored_by == (well.tcp_address,)
            await producer.publish("t", b"after")
        handled: list[bytes] = []
        deduplicate = nsq.Deduplicate(nsq.deduplication.MemoryStore())
        async with nsq.consume("t", "c", nsqd=nsqds, deduplicate=deduplicate) as consumer:
            with anyio.fail_after(10):
                async for message in consumer:
                    async with message:
                        handled.append(message.payload)
                    if len(handled) == 3:
                        break
        assert sorted(handled) == [b"after", b"before", b"meanwhile"]


@pytest.mark.timeout(200)  # the processes start slowly on a busy machine
@pytest.mark.parametrize("store", ["redis", "sqlite"])
def test_a_lost_disk_loses_no_message(store: str) -> None:
    """A short ledger; run `python -m tests.deduplication.ledger` for a long one."""
    figures = ledger.run(store, rounds=3, messages=900, seed=1)
    assert (figures.published, figures.lost, figures.handled_twice) == (900, 0, 0)
