# pyright: reportUnknownLambdaType=false
"""Middleware around what a consumer does with its messages: order, outcomes, context, failures."""

import functools
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import nsq_anyio as nsq
from nsq_anyio.events import BackoffStarted, GaveUp, HandlerFailed, MessageDiscarded

from ..fake_nsqd import LIMIT, Events, FakeConnection, consuming, until
from ..middleware.noting import Notes

pytestmark = pytest.mark.anyio

NO_DELAY = nsq.ConsumerOptions(requeue_delay=0, max_backoff_duration=0)


class Own(Exception):
    """The handler's own error."""


def raising(error: BaseException) -> Callable[[nsq.Message], None]:
    def handle(_: nsq.Message) -> None:
        raise error

    return handle


def nothing(_: nsq.Message) -> None: ...


def requeue(message: nsq.Message) -> None:
    message.requeue(2)


async def in_run(consumer: nsq.Consumer, handle: Callable[[nsq.Message], None]) -> None:
    async def handler(message: nsq.Message) -> None:
        await anyio.lowlevel.checkpoint()
        handle(message)

    def answered() -> bool:
        statistics = consumer.statistics()
        return statistics.finished + statistics.requeued > 0

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(consumer.run, handler)
        await until(answered)
        consumer.stop()


async def in_a_block(consumer: nsq.Consumer, handle: Callable[[nsq.Message], None]) -> None:
    message = await anext(consumer)
    with suppress(Own):
        async with message:
            handle(message)


async def in_a_batch(consumer: nsq.Consumer, handle: Callable[[nsq.Message], None]) -> None:
    batch = await anext(consumer.batches(1, 0))
    with suppress(Own):
        async with batch:
            for message in batch:
                handle(message)


WAYS = pytest.mark.parametrize("way", [in_run, in_a_block, in_a_batch])


async def answer_of(peer: FakeConnection, id: bytes) -> bytes:
    await until(lambda: any(id in line for line in peer.lines))
    return next(line for line in peer.lines if id in line).replace(id, b"id")


@WAYS
async def test_the_first_middleware_is_the_outermost_and_the_answer_comes_last(way: Any) -> None:
    notes = Notes()

    def handle(message: nsq.Message) -> None:
        notes.append(f"handle {message.body.decode()}")
        assert notes.subjects[0].outcome is None

    middleware = [notes.middleware("a"), notes.middleware("b", cleanup=0.01)]
    async with consuming(middleware=middleware) as (consumer, peer):
        id = await peer.message(b"x", attempts=2)
        await way(consumer, handle)
        assert await answer_of(peer, id) == b"FIN id"
        assert notes == ["+a", "+b", "handle x", "-b finished", "b is clean", "-a finished"]
        handling = notes.subjects[0]
        assert handling is notes.subjects[1]
        assert [message.id for message in handling.messages] == [id.decode()]
        assert (handling.topic, handling.channel, handling.attempts) == ("t", "c", 2)
        assert handling.nsqd == handling.messages[0].nsqd


@WAYS
@pytest.mark.parametrize(
    ("handle", "answer", "outcome", "error"),
    [
        (nothing, b"FIN id", "finished", None),
        (nsq.Message.finish, b"FIN id", "finished", None),
        (requeue, b"REQ id 2000", "requeued", None),
        (raising(nsq.Requeue(1)), b"REQ id 1000", "requeued", nsq.Requeue),
        (raising(nsq.Discard("bad")), b"FIN id", "discarded", nsq.Discard),
        (raising(Own("bad")), b"REQ id 0", "requeued", Own),
        (raising(ExceptionGroup("several", [nsq.Discard("bad")])), b"FIN id", "discarded", ExceptionGroup),
    ],
)
async def test_outcomes(way: Any, handle: Any, answer: bytes, outcome: str, error: Any) -> None:
    notes, events = Notes(), Events()
    middleware = [notes.middleware("a"), notes.middleware("b")]
    async with consuming(middleware=middleware, options=NO_DELAY, on_event=events) as (consumer, peer):
        id = await peer.message()
        await way(consumer, handle)
        assert await answer_of(peer, id) == answer
        statistics = consumer.statistics()
    assert notes == ["+a", "+b", f"-b {outcome}", f"-a {outcome}"]
    raised = notes.subjects[0].error
    assert (raised is None) if error is None else isinstance(raised, error)
    assert statistics.failed == (error is Own)
    assert statistics.discarded == len(events.of(MessageDiscarded)) == (outcome == "discarded")
    assert len(events.of(HandlerFailed)) == (error is Own and way is in_run)


@WAYS
@pytest.mark.parametrize("moment", ["enter", "leave"])
async def test_a_failing_middleware_is_a_failing_handler(way: Any, moment: str) -> None:
    notes, events = Notes(), Events()
    failing: dict[str, Any] = {moment: Own("middleware")}
    middleware = [notes.middleware("a"), notes.middleware("b", **failing), notes.middleware("c")]
    options = nsq.ConsumerOptions(requeue_delay=0)
    async with consuming(middleware=middleware, options=options, on_event=events) as (consumer, peer):
        id = await peer.message()
        await way(consumer, lambda _: notes.append("handled"))
        assert await answer_of(peer, id) == b"REQ id 0"
        assert consumer.statistics().failed == 1
    if moment == "enter":
        assert notes == ["+a", "+b", "-a requeued"]
    else:
        assert notes == ["+a", "+b", "+c", "handled", "-c finished", "-b finished", "-a requeued"]
    assert isinstance(notes.subjects[0].error, Own)
    assert len(events.of(HandlerFailed)) == (way is in_run)
    assert len(events.of(BackoffStarted)) == 1


@WAYS
async def test_a_middleware_that_suppresses_the_error_makes_it_a_success(way: Any) -> None:
    notes, events = Notes(), Events()
    middleware = [notes.middleware("a"), notes.middleware("b", suppress=True), notes.middleware("c")]
    async with consuming(middleware=middleware, on_event=events) as (consumer, peer):
        id = await peer.message()
        await way(consumer, raising(Own()))
        assert await answer_of(peer, id) == b"FIN id"
        assert consumer.statistics().failed == 0
    assert notes == ["+a", "+b", "+c", "-c requeued", "-b requeued", "-a finished"]
    assert events.of(HandlerFailed) == []


@WAYS
async def test_a_handler_that_did_not_run_is_no_success(way: Any) -> None:
    notes = Notes()
    middleware = [notes.middleware("a", suppress=True), notes.middleware("b", enter=Own("b"))]
    async with consuming(middleware=middleware, options=NO_DELAY) as (consumer, peer):
        id = await peer.message()
        await way(consumer, lambda _: notes.append("handled"))
        assert await answer_of(peer, id) == b"REQ id 0"
    assert notes == ["+a", "+b", "-a requeued"]


@WAYS
async def test_a_middleware_may_choose_the_answer(way: Any) -> None:
    notes = Notes()
    async with consuming(middleware=[notes.middleware("a", leave=nsq.Discard("no"))]) as (consumer, peer):
        id = await peer.message()
        await way(consumer, raising(Own()))
        assert await answer_of(peer, id) == b"FIN id"
        assert consumer.statistics().discarded == 1


request: ContextVar[str] = ContextVar("request", default="none")


@asynccontextmanager
async def with_request(handling: nsq.Handling) -> AsyncGenerator[None]:
    assert request.get() == "none"
    request.set(handling.messages[0].body.decode())
    yield
    assert request.get() == handling.messages[0].body.decode()


async def test_what_a_middleware_sets_the_handler_sees_and_the_next_message_does_not() -> None:
    seen: list[tuple[str, str]] = []

    async def handler(message: nsq.Message) -> None:
        await anyio.sleep(0.001)
        seen.append((message.body.decode(), request.get()))
        if len(seen) == 3:
            consumer.stop()

    async with consuming(middleware=[with_request], max_in_flight=3) as (consumer, peer):
        await peer.messages(b"a", b"b", b"c")
        with anyio.fail_after(LIMIT):
            await consumer.run(handler)
        assert consumer.statistics().finished == 3
    assert seen == [("a", "a"), ("b", "b"), ("c", "c")]


async def test_a_block_sees_what_a_middleware_sets_and_a_give_up_leaves_nothing_behind() -> None:
    gave_up: list[str] = []

    def give_up(_: nsq.Message) -> None:
        gave_up.append(request.get())

    @asynccontextmanager
    async def resetting(handling: nsq.Handling) -> AsyncGenerator[None]:
        token = request.set(handling.messages[0].body.decode())
        yield
        if handling.outcome != "gave_up":
            request.reset(token)

    async with consuming(middleware=[resetting], max_in_flight=3, on_give_up=give_up) as (consumer, peer):
        await peer.messages(b"old", attempts=101)
        await peer.messages(b"a", b"b")
        for body in ("a", "b"):
            message = await anext(consumer)
            assert request.get() == "none"
            async with message:
                assert request.get() == body
    assert gave_up == ["old"]


async def test_a_block_inside_of_a_handler_or_a_batch_is_not_wrapped_again() -> None:
    notes = Notes()

    async def handler(message: nsq.Message) -> None:
        async with message:
            notes.append("inside")
            consumer.stop()
            raise nsq.Discard("no")

    async with consuming(middleware=[notes.middleware("a")], max_in_flight=4) as (consumer, peer):
        await peer.messages(b"a", b"b")
        async with await anext(consumer.batches(2)) as batch:
            first = batch[0]
            async with first:
                notes.append(f"{len(batch)} messages")
            assert [message.responded for message in batch] == [True, False]
        assert isinstance(batch, nsq.Batch)
        assert [len(handling.messages) for handling in notes.subjects] == [2]
        await peer.message()
        await consumer.run(handler)
    assert notes == ["+a", "2 messages", "-a finished", "+a", "inside", "-a discarded"]


async def test_a_batch_answers_what_it_leaves_unanswered_without_middleware_too() -> None:
    async with consuming(max_in_flight=6, options=NO_DELAY) as (consumer, peer):
        ids = await peer.messages(b"a", b"b", b"c")
        async with await anext(consumer.batches(3)) as batch:
            batch[1].requeue(3, backoff=False)
        await peer.saw(b"FIN " + ids[0], b"REQ %b 3000" % ids[1], b"FIN " + ids[2])
        ids = await peer.messages(b"a", b"b")
        async with await anext(consumer.batches(2)) as batch:
            raise nsq.Requeue(1, backoff=False)
        await peer.saw(*(b"REQ %b 1000" % id for id in ids))
        ids = await peer.messages(b"a", b"b")
        with pytest.raises(Own):
            async with await anext(consumer.batches(2)) as batch:
                raise Own
        await peer.saw(*(b"REQ %b 0" % id for id in ids))
        statistics = consumer.statistics()
        assert (statistics.finished, statistics.requeued, statistics.failed) == (2, 5, 2)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_give_up_is_wrapped_with_and_without_a_callback(fails: bool) -> None:
    notes, events = Notes(), Events()
    leave = Own("middleware") if fails else None
    async with consuming(
        middleware=[notes.middleware("a"), notes.middleware("b", leave=leave)],
        on_event=events,
        max_in_flight=2,
        options=NO_DELAY,
    ) as (consumer, peer):
        id = await peer.message(attempts=101)
        await peer.message()
        (await anext(consumer)).finish()
        assert await answer_of(peer, id) == (b"REQ id 0" if fails else b"FIN id")
        statistics = consumer.statistics()
    assert notes == ["+a", "+b", "-b gave_up", "-a requeued" if fails else "-a gave_up"]
    assert statistics.gave_up == len(events.of(GaveUp)) == (not fails)
    assert statistics.failed == len(events.of(HandlerFailed)) == fails


async def test_a_plain_iteration_is_not_wrapped() -> None:
    notes = Notes()
    async with consuming(middleware=[notes.middleware("a")]) as (consumer, peer):
        await peer.message()
        (await anext(consumer)).finish()
    assert notes == []


def no_sequence(_: Any) -> AbstractAsyncContextManager[object]:
    raise AssertionError


async def no_manager(_: Any) -> None: ...


@pytest.mark.parametrize(
    ("middleware", "text"),
    [
        (no_sequence, "use a sequence"),
        ("abc", "use a sequence"),
        (None, "use a sequence"),
        ([no_sequence, 5], r"middleware\[1\]=5 is not valid, it cannot be called"),
        ([no_manager], r"middleware\[0\]=.*no_manager.* is not valid, it returns no context manager"),
    ],
)
def test_what_is_no_middleware_is_refused_by_name(middleware: Any, text: str) -> None:
    with pytest.raises(nsq.InvalidOption, match=text):
        nsq.consume("t", "c", nsqd="127.0.0.1:4150", middleware=middleware)
    with pytest.raises(nsq.InvalidOption, match=text):
        nsq.produce("127.0.0.1:4150", middleware=middleware)


async def not_called() -> None:
    raise AssertionError


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_handler_that_returns_the_wrong_thing_is_told_with_middleware_too(is_async: bool) -> None:
    notes, calls = Notes(), [0]

    def handler(message: nsq.Message) -> Any:
        calls[0] += 1
        return message.attempts if is_async else not_called()

    if is_async:
        functools.update_wrapper(handler, not_called)
    async with consuming(middleware=[notes.middleware("a")]) as (consumer, peer):
        id = await peer.message()
        with pytest.raises(nsq.InvalidOption, match="returned int" if is_async else "returned an awaitable"):
            await consumer.run(handler)
        assert await answer_of(peer, id) == b"REQ id 0"
    assert calls == [1]


class Unequal:
    """A value that cannot be compared, like an array."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("ambiguous")

    __hash__ = object.__hash__


@pytest.mark.parametrize("awaits", [False, True])
@pytest.mark.parametrize("value", ["mine", Unequal(), "none"])
async def test_no_message_sees_what_the_handler_of_another_has_set(value: Any, awaits: bool) -> None:
    seen: list[object] = []
    own: ContextVar[list[bytes]] = ContextVar("own")

    async def handler(message: nsq.Message) -> None:
        seen.append((request.get(), own.get(None)))
        request.set(value)
        own.set([message.body])
        if awaits:
            await anyio.sleep(0.001)
            await anyio.lowlevel.checkpoint()
        assert (request.get(), own.get()) == (value, [message.body]) or isinstance(value, Unequal)
        if message.body == b"fails":
            raise nsq.Requeue(0, backoff=False)
        if message.body == b"last":
            consumer.stop()

    async with consuming(max_in_flight=4) as (consumer, peer):
        await peer.messages(b"a", b"b", b"fails", b"last")
        await consumer.run(handler)
    assert seen == [("none", None)] * 4
    assert request.get() == "none"


async def test_a_handler_sees_the_variables_of_the_caller_of_run() -> None:
    seen: list[str] = []

    async def handler(_: nsq.Message) -> None:
        seen.append(request.get())
        request.set("changed")
        if len(seen) == 2:
            consumer.stop()

    async with consuming(max_in_flight=2) as (consumer, peer):
        await peer.messages(b"a", b"b")
        token = request.set("caller's")
        await consumer.run(handler)
        request.reset(token)
    assert seen == ["caller's"] * 2


async def test_no_message_sees_what_on_give_up_has_set() -> None:
    def give_up(_: nsq.Message) -> None:
        request.set("given up")

    async def handler(_: nsq.Message) -> None:
        seen.append(request.get())
        consumer.stop()

    seen: list[str] = []
    async with consuming(on_give_up=give_up, max_in_flight=2) as (consumer, peer):
        await peer.messages(b"old", attempts=101)
        await peer.messages(b"a")
        await consumer.run(handler)
    assert seen == ["none"]
