"""Nsqds whose messages time out within milliseconds."""

from typing import Any

import nsq_anyio as nsq

from ..fake_nsqd import FakeConnection

OFTEN = nsq.ConsumerOptions(rdy_redistribute_interval=0.005)


def impatient(msg_timeout: int = 30) -> Any:
    """The script of an nsqd with this ``msg_timeout`` in milliseconds."""

    async def script(peer: FakeConnection) -> None:
        await peer.subscribe({"msg_timeout": msg_timeout})
        await peer.follow()

    return script
