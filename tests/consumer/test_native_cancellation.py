"""A task that is cancelled by asyncio's own means, as `asyncio.timeout` and Ctrl-C do, ends in order too."""

import asyncio

import anyio
import pytest

import nsq_anyio as nsq

from ..fake_nsqd import LIMIT, client_tasks, consuming, fake_nsqd, serve, until

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module", params=[False, True], ids=["asyncio", "asyncio+uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


async def test_a_cancelled_block_hands_its_messages_back_and_leaves_nothing() -> None:
    taken = anyio.Event()

    async with fake_nsqd(serve) as nsqd:

        async def block() -> None:
            async with nsq.consume("t", "c", nsqd=nsqd.address) as consumer:
                await consumer.ready()
                await nsqd.connections[0].message()
                await anext(consumer)
                taken.set()
                await anyio.sleep_forever()

        task = asyncio.create_task(block())
        with anyio.fail_after(LIMIT):
            await taken.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            peer = nsqd.connections[0]
            await peer.ended.wait()
        assert peer.in_flight == set()
        assert client_tasks() == []


async def test_a_timeout_ends_a_block_in_order() -> None:
    async with fake_nsqd(serve) as nsqd:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05), nsq.consume("t", "c", nsqd=nsqd.address) as consumer:
                await anext(consumer)
        assert nsqd.connections[0].lines[-1:] == [b"CLS"]
        assert client_tasks() == []


async def test_a_cancelled_run_lets_its_handlers_end() -> None:
    started: list[bytes] = []

    async def handler(message: nsq.Message) -> None:
        started.append(message.body)
        await anyio.sleep(0.03)

    async with consuming(max_in_flight=2) as (consumer, peer):
        id, _ = await peer.messages(b"a", b"b")
        task = asyncio.create_task(consumer.run(handler))
        await until(lambda: started)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert started == [b"a"]
        await peer.saw(b"FIN " + id)


async def test_a_cancelled_run_cancels_late_handlers_and_requeues_their_messages() -> None:
    async def handler(_message: nsq.Message) -> None:
        await anyio.sleep_forever()

    options = nsq.ConsumerOptions(cancelled_drain_timeout=0.05)
    async with consuming(options=options) as (consumer, peer):
        task = asyncio.create_task(consumer.run(handler))
        id = await peer.message()
        await until(lambda: consumer.in_flight == 1 and not consumer.statistics().waiting)
        task.cancel()
        with anyio.fail_after(LIMIT), pytest.raises(asyncio.CancelledError):
            await task
        await peer.saw(b"REQ %b 0" % id)
