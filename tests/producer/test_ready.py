"""`Producer.ready`: waiting for the first connection."""

from __future__ import annotations

import anyio
import pytest

import nsq_anyio as nsq

from ..fake_nsqd import FakeConnection, fake_nsqd, until
from .test_pool import store

pytestmark = pytest.mark.anyio


async def test_it_waits_until_an_nsqd_is_connected() -> None:
    async with fake_nsqd(store) as nsqd, nsq.produce([nsqd.address, "127.0.0.1:1"]) as producer:
        await producer.ready()
        assert producer.connections == (nsqd.address,)
        await producer.ready()


async def test_a_connection_that_was_lost_does_not_count() -> None:
    async with (
        fake_nsqd(store) as nsqd,
        nsq.produce(nsqd.address, options=nsq.ProducerOptions(reconnect_delay=0.01)) as producer,
    ):
        await producer.ready()
        await nsqd.connections[0].close()
        await until(lambda: not producer.connections)
        await producer.ready()
        assert len(nsqd.connections) == 2


async def test_the_end_of_the_block_is_raised() -> None:
    caught: list[Exception] = []

    async def wait(producer: nsq.Producer) -> None:
        try:
            await producer.ready()
        except nsq.Closed as error:
            caught.append(error)

    async with anyio.create_task_group() as tasks:
        ended: list[nsq.Producer] = []
        async with nsq.produce("127.0.0.1:1") as producer:
            ended.append(producer)
            tasks.start_soon(wait, producer)
            await anyio.sleep(0.01)
        with pytest.raises(nsq.Closed):
            await ended[0].ready()
    assert len(caught) == 1


async def refuse(connection: FakeConnection) -> None:
    await connection.command()
    await connection.error(b"E_BAD_BODY IDENTIFY no")


async def test_a_permanent_refusal_is_raised() -> None:
    caught: list[Exception] = []

    async def wait(producer: nsq.Producer) -> None:
        try:
            await producer.ready()
        except nsq.PermanentRefusal as error:
            caught.append(error)

    async with fake_nsqd(refuse) as nsqd, anyio.create_task_group() as tasks:
        with pytest.raises(nsq.PermanentRefusal):
            async with nsq.produce(nsqd.address) as producer:
                tasks.start_soon(wait, producer)
                await producer.ready()
    assert len(caught) == 1


async def test_it_can_be_cancelled() -> None:
    async with nsq.produce("127.0.0.1:1") as producer:
        with anyio.move_on_after(0.02) as scope:
            await producer.ready()
        assert scope.cancelled_caught
