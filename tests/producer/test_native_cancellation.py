"""A block that asyncio cancels again while it is ending ends at once, and whoever publishes learns of it."""

import asyncio

import anyio
import pytest

import nsq_anyio as nsq

from ..fake_nsqd import client_tasks, fake_nsqd, identified, until

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module", params=[False, True], ids=["asyncio", "asyncio+uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


@pytest.mark.parametrize("coalesce", [False, True])
async def test_a_second_cancellation_cuts_the_drain_short(coalesce: bool) -> None:
    options = nsq.ProducerOptions(max_outstanding=1, cancelled_drain_timeout=60, coalesce=coalesce)
    publishes: list[asyncio.Task[None]] = []
    async with fake_nsqd(identified()) as nsqd:

        async def block() -> None:
            async with nsq.produce(nsqd.address, options=options) as producer:
                await until(lambda: producer.connections)
                for topic in ("t", "t", "u"):
                    publishes.append(asyncio.create_task(producer.publish(topic, b"body")))
                await until(lambda: producer.statistics().waiting == 2)
                await anyio.sleep_forever()

        ending = asyncio.create_task(block())
        await until(lambda: len(publishes) == 3)
        await anyio.sleep(0.02)
        for _ in range(2):
            ending.cancel()
            await anyio.sleep(0.02)
        with anyio.fail_after(5), pytest.raises(asyncio.CancelledError):
            await ending
        with anyio.fail_after(5):
            outcomes = await asyncio.gather(*publishes, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [nsq.OutcomeUnknown, nsq.NotSent, nsq.NotSent]
    assert client_tasks() == []
