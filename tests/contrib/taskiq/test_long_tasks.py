"""Tasks that take long are no messages that somebody has forgotten to answer."""

from __future__ import annotations

import logging

import anyio
import pytest
from taskiq import AckableMessage, BrokerMessage

import nsq_anyio as nsq
from nsq_anyio.contrib.taskiq import NsqBroker
from nsq_anyio.embedded import EmbeddedNsqd

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> nsq.testing.Backend:
    return nsq.testing.virtual_time("asyncio")


async def test_no_warning_while_as_many_as_may_run_at_once_take_long(
    nsqd: EmbeddedNsqd, caplog: pytest.LogCaptureFixture
) -> None:
    received: list[AckableMessage] = []
    broker = NsqBroker(nsqd.tcp_address, max_in_flight=1)
    async with broker:
        for body in (b"first", b"second"):
            await broker.kick(BrokerMessage(task_id="id", task_name="name", message=body, labels={}))
        with anyio.move_on_after(30):
            async for message in broker.listen():
                assert isinstance(message, AckableMessage)
                received.append(message)
        (only,) = received
        answer = only.ack()
        assert answer is not None
        await answer
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING] == []
