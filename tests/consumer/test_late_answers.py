"""Answers that come too late, or that nsqd refuses."""

import pytest

import nsq_anyio as nsq
from nsq_anyio.events import MessageTimedOut, ResponseFailed

from ..fake_nsqd import Events, consuming, until
from .late_answers import OFTEN, impatient

pytestmark = pytest.mark.anyio


async def test_an_answer_after_the_deadline_is_dropped_and_counted() -> None:
    events = Events()
    async with consuming(impatient(), options=OFTEN, on_event=events) as (consumer, peer):
        id = await peer.message()
        message = await anext(consumer)
        await until(lambda: events.of(MessageTimedOut))
        assert consumer.in_flight == 0
        message.finish()
        assert message.responded
        await peer.message()  # and what comes next is answered as ever
        (await anext(consumer)).finish()
        await until(lambda: consumer.statistics().finished == 1)
        statistics = consumer.statistics()
        assert (statistics.timed_out, statistics.late) == (1, 1)
    assert [line for line in peer.lines if id in line] == []
    (timed_out,) = events.of(MessageTimedOut)
    assert timed_out.message_id == id.decode()


async def test_an_answer_after_the_connection_is_lost_is_dropped_and_counted() -> None:
    async with consuming(options=nsq.ConsumerOptions(reconnect_delay=10)) as (consumer, peer):
        await peer.messages(b"a", b"b")
        first = await anext(consumer)
        second = await anext(consumer)
        await peer.close()
        await until(lambda: not consumer.connections)
        first.finish()
        second.touch()
        second.requeue()
        statistics = consumer.statistics()
        assert (statistics.received, statistics.finished, statistics.requeued) == (2, 0, 0)
        assert statistics.late == 3


async def test_a_message_that_comes_again_on_its_connection_is_answered_by_its_new_delivery() -> None:
    async with consuming(max_in_flight=2) as (consumer, peer):
        id = await peer.message(b"first delivery")
        old = await anext(consumer)
        await peer.message(b"second delivery", id=id, attempts=2)
        new = await anext(consumer)
        old.finish()
        assert consumer.in_flight == 1
        assert consumer.statistics().late == 1
        new.requeue(1)
        await peer.saw(b"REQ %b 1000" % id)
    assert b"FIN " + id not in peer.lines


async def test_a_message_that_has_expired_is_not_started() -> None:
    async with consuming(impatient(), options=OFTEN, max_in_flight=2) as (consumer, peer):
        await peer.message(b"expires in the queue")
        await until(lambda: consumer.statistics().timed_out == 1)
        await peer.message(b"fresh")
        message = await anext(consumer)
        assert message.body == b"fresh"
        message.finish()


@pytest.mark.parametrize("command", ["FIN", "REQ", "TOUCH"])
async def test_an_answer_that_nsqd_refuses_is_an_event_with_the_message(command: str) -> None:
    events = Events()
    async with consuming(on_event=events) as (consumer, peer):
        id = await peer.message()
        message = await anext(consumer)
        {"FIN": message.finish, "REQ": message.requeue, "TOUCH": message.touch}[command]()
        text = f"E_{command}_FAILED {command} {id.decode()} failed ID not in flight"
        await peer.error(text.encode())
        await until(lambda: events.of(ResponseFailed))
        (failed,) = events.of(ResponseFailed)
        assert (failed.code, failed.message_id) == (f"E_{command}_FAILED", id.decode())
        assert consumer.statistics().refused == 1
        assert consumer.connections  # it stays
