"""What a consumer answers to its messages, as it stands on the wire."""

from typing import Any

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.consumer.message import finish_all
from nsq_anyio.events import HandlerFailed, MessageDiscarded, MessageFinished

from ..fake_nsqd import Events, FakeConnection, consuming, until

pytestmark = pytest.mark.anyio

ONE_SECOND_PER_ATTEMPT = nsq.ConsumerOptions(requeue_delay=1, max_requeue_delay=2.5)


# By the user.


async def test_a_message_is_what_nsqd_sent() -> None:
    async with consuming() as (consumer, peer):
        id = await peer.message(b"hello", attempts=3)
        message = await anext(consumer)
        assert message.id.encode() == id
        assert message.body == b"hello"
        assert message.attempts == 3
        assert message.timestamp == 1_700_000_000_000_000_000
        assert (message.topic, message.channel) == ("t", "c")
        assert message.nsqd == consumer.connections[0]
        assert not message.responded


async def test_finish_sends_fin() -> None:
    async with consuming() as (consumer, peer):
        id = await peer.message()
        message = await anext(consumer)
        assert consumer.in_flight == 1
        message.finish()
        assert message.responded
        assert consumer.in_flight == 0
        await peer.saw(b"FIN " + id)
    assert consumer.statistics().finished == 1


@pytest.mark.parametrize(("delay", "milliseconds"), [(0, 0), (1.5, 1500), (0.0004, 0), (7200, 7_200_000)])
async def test_requeue_sends_req_with_the_delay_in_milliseconds(delay: float, milliseconds: int) -> None:
    async with consuming() as (consumer, peer):
        id = await peer.message()
        (await anext(consumer)).requeue(delay)
        await peer.saw(b"REQ %b %d" % (id, milliseconds))
    assert consumer.statistics().requeued == 1


@pytest.mark.parametrize(("attempts", "milliseconds"), [(1, 1000), (2, 2000), (3, 2500), (4, 2500)])
async def test_requeue_without_a_delay_grows_with_the_attempts_up_to_a_bound(
    attempts: int, milliseconds: int
) -> None:
    async with consuming(options=ONE_SECOND_PER_ATTEMPT) as (consumer, peer):
        id = await peer.message(attempts=attempts)
        (await anext(consumer)).requeue()
        await peer.saw(b"REQ %b %d" % (id, milliseconds))


async def test_the_delay_of_a_requeue_may_double_with_each_attempt() -> None:
    options = nsq.ConsumerOptions(requeue_delay=0.5, requeue_strategy="exponential")
    async with consuming(options=options) as (consumer, peer):
        id = await peer.message(attempts=4)
        (await anext(consumer)).requeue()
        await peer.saw(b"REQ %b 4000" % id)


@pytest.mark.parametrize("delay", [-1, float("inf"), float("nan")])
async def test_a_delay_that_makes_no_sense_is_refused_and_the_message_stays_unanswered(delay: float) -> None:
    async with consuming() as (consumer, peer):
        id = await peer.message()
        message = await anext(consumer)
        with pytest.raises(nsq.InvalidOption, match="delay="):
            message.requeue(delay)
        message.finish()
        await peer.saw(b"FIN " + id)


async def take(consumer: nsq.Consumer, peer: FakeConnection, count: int) -> list[nsq.Message]:
    for number in range(count):
        await peer.message(b"%d" % number)
    return [await anext(consumer) for _ in range(count)]


@pytest.mark.parametrize("hooked", [True, False])
async def test_several_are_finished_in_one_step(hooked: bool) -> None:
    events = Events()
    async with consuming(on_event=events if hooked else None) as (consumer, peer):
        messages = await take(consumer, peer, 3)
        finish_all(messages)
        for message in messages:
            assert message.responded
            await peer.saw(b"FIN " + message.id.encode())
        assert consumer.in_flight == 0
    assert consumer.statistics().finished == 3
    finished = [event.message_id for event in events if isinstance(event, MessageFinished)]
    assert finished == ([message.id for message in messages] if hooked else [])


async def test_one_of_several_that_has_its_answer_is_an_error() -> None:
    async with consuming() as (consumer, peer):
        messages = await take(consumer, peer, 3)
        messages[1].requeue(0)
        with pytest.raises(nsq.AlreadyResponded, match=messages[1].id):
            finish_all(messages)
        assert not messages[0].responded
        finish_all([messages[0], messages[2]])
        await peer.saw(b"FIN " + messages[2].id.encode())


async def test_those_of_several_that_nsqd_has_delivered_again_are_late() -> None:
    async with consuming() as (consumer, peer):
        messages = await take(consumer, peer, 2)
        await peer.message(b"again", id=messages[0].id.encode(), attempts=2)
        again = await anext(consumer)
        finish_all(messages)
        await peer.saw(b"FIN " + messages[1].id.encode())
        assert consumer.in_flight == 1
        again.finish()
    assert consumer.statistics().finished == 2
    assert consumer.statistics().late == 1


async def test_touch_sends_touch_and_moves_the_deadline_up_to_the_hard_one() -> None:
    async def script(peer: FakeConnection) -> None:
        await peer.subscribe({"msg_timeout": 1000, "max_msg_timeout": 1040})
        await peer.follow()

    async with consuming(script) as (consumer, peer):
        id = await peer.message()
        message = await anext(consumer)
        arrived = message.deadline - 1.0
        await anyio.sleep(0.02)
        message.touch()
        await peer.saw(b"TOUCH " + id)
        assert arrived + 1.015 < message.deadline <= arrived + 1.04
        await anyio.sleep(0.03)
        message.touch()
        assert message.deadline == pytest.approx(arrived + 1.04)
        assert not message.responded


async def test_a_message_has_one_answer() -> None:
    async with consuming() as (consumer, peer):
        id = await peer.message()
        message = await anext(consumer)
        message.finish()
        for answer in (message.finish, message.requeue, message.touch):
            with pytest.raises(nsq.AlreadyResponded, match=id.decode()):
                answer()
    assert [line for line in peer.lines if id in line] == [b"FIN " + id]


# By the block.


async def test_a_block_finishes_its_message() -> None:
    async with consuming() as (consumer, peer):
        id = await peer.message()
        async with await anext(consumer):
            assert b"FIN " + id not in peer.lines
        await peer.saw(b"FIN " + id)


async def test_a_block_that_raises_requeues_and_the_exception_goes_on() -> None:
    async with consuming(options=ONE_SECOND_PER_ATTEMPT) as (consumer, peer):
        id = await peer.message()
        with pytest.raises(ValueError, match="mine"):
            async with await anext(consumer):
                raise ValueError("mine")
        await peer.saw(b"REQ %b 1000" % id)


async def test_a_cancelled_block_hands_its_message_back_at_once() -> None:
    async with consuming() as (consumer, peer):
        id = await peer.message()
        with anyio.move_on_after(0.02):
            async with await anext(consumer):
                await anyio.sleep_forever()
        await peer.saw(b"REQ %b 0" % id)


async def test_a_block_respects_the_answer_that_was_given_inside() -> None:
    async with consuming() as (consumer, peer):
        id = await peer.message()
        async with await anext(consumer) as message:
            message.requeue(3)
        await peer.saw(b"REQ %b 3000" % id)
    assert b"FIN " + id not in peer.lines


def grouped(error: Exception) -> Exception:
    return ExceptionGroup("from a task group", [ExceptionGroup("of a task group", [error])])


def plain(error: Exception) -> Exception:
    return error


@pytest.mark.parametrize("wrap", [plain, grouped])
async def test_requeue_raised_in_a_block_ends_there_and_names_the_delay(wrap: Any) -> None:
    async with consuming() as (consumer, peer):
        id = await peer.message()
        async with await anext(consumer):
            raise wrap(nsq.Requeue(delay=2))
        await peer.saw(b"REQ %b 2000" % id)


@pytest.mark.parametrize("wrap", [plain, grouped])
async def test_discard_raised_in_a_block_ends_there_and_finishes(wrap: Any) -> None:
    events = Events()
    async with consuming(on_event=events) as (consumer, peer):
        id = await peer.message()
        async with await anext(consumer):
            raise wrap(nsq.Discard("no use"))
        await peer.saw(b"FIN " + id)
    (discarded,) = events.of(MessageDiscarded)
    assert (discarded.message_id, discarded.reason) == (id.decode(), "no use")


# By a handler.


async def handled(handler: Any, **arguments: Any) -> tuple[bytes, bytes, Events]:
    """What was answered to one message that ``handler`` was given: its id, the answer, and the events."""
    events = Events()
    id = second = b""
    async with consuming(on_event=events, **arguments) as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, handler)
            id = await peer.message()
            await until(lambda: not peer.in_flight)
            # Another one shows that whatever became of the first, messages go on.
            second = await peer.message(b"second")
            await until(lambda: not peer.in_flight)
            consumer.stop()
    assert [line for line in peer.lines if second in line]
    (answer,) = [line for line in peer.lines if id in line]
    return id, answer, events


async def test_a_message_is_finished_when_its_handler_returns() -> None:
    bodies: list[bytes] = []

    async def handler(message: nsq.Message) -> None:
        bodies.append(message.body)

    id, answer, _ = await handled(handler)
    assert answer == b"FIN " + id
    assert bodies == [b"body", b"second"]


def raising(error: Exception) -> Any:
    async def handler(message: nsq.Message) -> None:
        if message.body != b"second":
            raise error

    return handler


async def test_a_failing_handler_is_an_event_and_its_message_is_requeued() -> None:
    error = ValueError("mine")
    id, answer, events = await handled(raising(error), options=ONE_SECOND_PER_ATTEMPT)
    assert answer == b"REQ %b 1000" % id
    (failed,) = events.of(HandlerFailed)
    assert (failed.message_id, failed.attempts, failed.error) == (id.decode(), 1, error)


@pytest.mark.parametrize("wrap", [plain, grouped])
async def test_requeue_raised_by_a_handler_names_the_delay_and_is_no_failure(wrap: Any) -> None:
    id, answer, events = await handled(raising(wrap(nsq.Requeue(delay=0.25))))
    assert answer == b"REQ %b 250" % id
    assert events.of(HandlerFailed) == []


@pytest.mark.parametrize("wrap", [plain, grouped])
async def test_discard_raised_by_a_handler_finishes(wrap: Any) -> None:
    id, answer, events = await handled(raising(wrap(nsq.Discard("no use"))))
    assert answer == b"FIN " + id
    assert [event.reason for event in events.of(MessageDiscarded)] == ["no use"]
    assert events.of(HandlerFailed) == []


async def test_a_group_of_several_failures_is_a_failure() -> None:
    errors = ExceptionGroup("both", [nsq.Requeue(delay=0.25), ValueError("mine")])
    id, answer, events = await handled(raising(errors), options=ONE_SECOND_PER_ATTEMPT)
    assert answer == b"REQ %b 1000" % id
    assert [event.error for event in events.of(HandlerFailed)] == [errors]


async def test_a_handler_may_answer_by_itself() -> None:
    async def handler(message: nsq.Message) -> None:
        message.requeue(5)

    id, answer, events = await handled(handler)
    assert answer == b"REQ %b 5000" % id
    assert events.of(HandlerFailed) == []
