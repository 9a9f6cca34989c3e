"""What nsqd refuses for good is raised out of the block; the consumer ends in order all the same."""

import anyio
import pytest

import nsq_anyio as nsq

from ..fake_nsqd import (
    LIMIT,
    FakeConnection,
    client_tasks,
    fake_nsqd,
    hold,
    serve,
)

pytestmark = pytest.mark.anyio


def after_cls(peer: FakeConnection) -> list[bytes]:
    """What the client has sent after CLS."""
    return peer.lines[peer.lines.index(b"CLS") + 1 :]


class Mine(Exception):
    pass


MINE = Mine()


@pytest.mark.parametrize(
    "error", ["E_BAD_TOPIC SUB topic name is not valid", "E_UNAUTHORIZED AUTH failed", "E_AUTH_FIRST"]
)
async def test_a_subscription_refused_for_good_is_raised_out_of_the_block_and_not_retried(error: str) -> None:
    async def refuse(peer: FakeConnection) -> None:
        await peer.identify()
        await peer.expect(b"SUB t c")
        await peer.error(error.encode())

    async with fake_nsqd(refuse) as nsqd:
        options = nsq.ConsumerOptions(reconnect_delay=0.005)
        with anyio.fail_after(LIMIT), pytest.raises(nsq.PermanentRefusal) as refusal:
            async with nsq.consume("t", "c", nsqd=nsqd.address, options=options) as consumer:
                async for _ in consumer:
                    raise AssertionError
        assert refusal.value.code == error.split(maxsplit=1)[0]
        assert client_tasks() == []
        await anyio.sleep(0.03)
        assert len(nsqd.connections) == 1


async def test_options_refused_for_good_end_the_block_and_close_the_other_connections() -> None:
    async def refuse(peer: FakeConnection) -> None:
        await go.wait()
        await peer.introduction()
        await peer.error(b"E_BAD_BODY IDENTIFY msg timeout (900000) is invalid")

    go = anyio.Event()
    id = b""
    async with fake_nsqd(serve) as good, fake_nsqd(refuse) as bad:
        with anyio.fail_after(LIMIT), pytest.raises(nsq.PermanentRefusal, match="msg timeout"):
            async with nsq.consume("t", "c", nsqd=[good.address, bad.address], max_in_flight=2) as consumer:
                await consumer.ready()
                peer = await good.subscribed()
                id = await peer.message()
                await anext(consumer)
                go.set()
                await anyio.sleep_forever()
        assert client_tasks() == []
        assert after_cls(good.connections[0]) == [b"REQ %b 0" % id]


async def test_when_the_consumer_fails_running_handlers_may_still_finish() -> None:
    async def refuse(peer: FakeConnection) -> None:
        await go.wait()
        await peer.introduction()
        await peer.error(b"E_BAD_BODY no")

    async def handler(_message: nsq.Message) -> None:
        go.set()
        await anyio.sleep(0.05)

    go = anyio.Event()
    id = b""
    async with fake_nsqd(serve) as good, fake_nsqd(refuse) as bad:
        with anyio.fail_after(LIMIT), pytest.raises(nsq.PermanentRefusal):
            async with nsq.consume("t", "c", nsqd=[good.address, bad.address], max_in_flight=2) as consumer:
                peer = await good.subscribed()
                id = await peer.message()
                await consumer.run(handler)
        assert b"FIN " + id in good.connections[0].lines


async def test_the_users_own_error_counts_when_the_consumer_fails_too() -> None:
    async def script(peer: FakeConnection) -> None:
        await peer.identify()
        await peer.expect(b"SUB t c")
        await peer.error(b"E_UNAUTHORIZED")
        await hold(peer)

    async with fake_nsqd(script) as nsqd:
        with anyio.fail_after(LIMIT), pytest.raises(Mine) as caught:
            async with nsq.consume("t", "c", nsqd=nsqd.address) as consumer:
                try:
                    await anext(consumer)
                finally:
                    raise MINE
        assert caught.value is MINE
