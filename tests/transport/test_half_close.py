"""Ending the outgoing side of any stream."""

import anyio
import pytest

from nsq_anyio.transport.layer import half_close

from .tls_streams import transports

pytestmark = pytest.mark.anyio


async def test_the_peer_sees_the_end_and_can_still_answer() -> None:
    async with transports() as (left, right):
        await half_close(left)
        with pytest.raises(anyio.EndOfStream):
            await right.receive()
        await right.send(b"answer")
        assert await left.receive() == b"answer"


async def test_a_stream_that_cannot_do_it_is_broken() -> None:
    async with transports() as (left, _):
        left.can_half_close = False
        with pytest.raises(anyio.BrokenResourceError) as failure:
            await half_close(left)
        assert isinstance(failure.value.__cause__, NotImplementedError)
