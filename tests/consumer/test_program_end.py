"""What happens to a message when the program ends while it is processed, inside a task group."""

import pytest

import nsq_anyio as nsq

from ..fake_nsqd import consuming

pytestmark = pytest.mark.anyio


def ended() -> BaseException:
    return BaseExceptionGroup("of a task group", [SystemExit(3)])


def assert_handed_back_after_cls(lines: list[bytes], id: bytes) -> None:
    assert lines.index(b"CLS") < lines.index(b"REQ %b 0" % id)


async def test_in_a_handler() -> None:
    async def handler(message: nsq.Message) -> None:
        raise ended()

    async with consuming() as (consumer, peer):
        id = await peer.message()
        with pytest.raises(SystemExit):
            await consumer.run(handler)
    assert_handed_back_after_cls(peer.lines, id)


async def test_in_the_block_of_a_message() -> None:
    async with consuming() as (consumer, peer):
        id = await peer.message()
        with pytest.raises(BaseExceptionGroup):
            async with await anext(consumer):
                raise ended()
    assert_handed_back_after_cls(peer.lines, id)
