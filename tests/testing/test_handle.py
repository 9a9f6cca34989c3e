"""`handle` treats a message as `run` does."""

from __future__ import annotations

from threading import Event, get_ident
from typing import Any

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.testing import Discarded, Finished, Requeued, TimedOut, handle, message

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(30)]


async def decide(message: nsq.Message) -> None:
    match message.body:
        case b"requeue":
            raise nsq.Requeue(2, backoff=False, reason="later")
        case b"discard":
            raise nsq.Discard("bad")
        case b"fail":
            raise ValueError("mine")
        case b"itself":
            message.touch()
            message.requeue(7)
        case b"hang":
            await anyio.sleep_forever()
        case _:
            pass


def decide_in_thread(message: nsq.Message) -> None:
    match message.body:
        case b"requeue":
            raise nsq.Requeue(2, backoff=False, reason="later")
        case b"discard":
            raise nsq.Discard("bad")
        case b"fail":
            raise ValueError("mine")
        case b"itself":
            assert 0 < message.time_left() <= 60
            message.touch()
            message.requeue(7)
        case _:
            pass


@pytest.mark.parametrize("handler", [decide, decide_in_thread])
async def test_each_answer(handler: object) -> None:
    answers = {
        b"": Finished(),
        b"requeue": Requeued(2, backoff=False, reason="later"),
        b"discard": Discarded("bad"),
        b"fail": Requeued(),
        b"itself": Requeued(7),
    }
    for body, answer in answers.items():
        made = message(body)
        assert await handle(handler, made) == answer  # type: ignore[arg-type]
        assert made.answer == answer
        assert made.touches == (body == b"itself")
        if body == b"fail":
            assert isinstance(made.answer, Requeued)
            assert repr(made.answer.error) == "ValueError('mine')"


async def test_a_plain_handler_runs_in_a_thread() -> None:
    threads: list[int] = []
    assert await handle(lambda _: threads.append(get_ident()), message(b"x")) == Finished()
    assert threads != [get_ident()]


async def test_a_handler_past_the_deadline_is_cancelled() -> None:
    made = message(b"hang", msg_timeout=0.05)
    assert await handle(decide, made) == TimedOut()
    assert made.answer == TimedOut()


async def test_a_thread_past_the_deadline_answers_too_late() -> None:
    made = message(b"x", msg_timeout=3)  # time for a thread to start on a busy machine
    ended = Event()

    def slow(message: nsq.Message) -> None:
        while message.time_left():
            Event().wait(0.01)
        Event().wait(0.2)
        message.finish()
        ended.set()

    assert await handle(slow, made) == TimedOut()
    assert ended.is_set()


async def test_what_run_refuses_is_refused() -> None:
    async def generator(message: nsq.Message) -> object:
        yield message

    def returns_a_coroutine(message: nsq.Message) -> object:
        return decide(message)

    wrongs: tuple[Any, ...] = (generator, None, returns_a_coroutine)
    for wrong in wrongs:
        with pytest.raises(nsq.InvalidOption, match="write `async def"):
            await handle(wrong, message(b"x"))


async def test_a_cancelled_handler_hands_its_message_back() -> None:
    made = message(b"hang")
    with anyio.move_on_after(0.05):
        await handle(decide, made)
    assert made.answer == Requeued(0, backoff=False)
