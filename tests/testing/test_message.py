"""Messages for unit tests record their answers, inside and outside of event loops."""

from __future__ import annotations

import subprocess
import sys
import time

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.testing import Discarded, Finished, RecordedMessage, Requeued, message


def test_it_is_a_message_and_needs_no_event_loop() -> None:
    made = message(b"body", attempts=3, timestamp=5, topic="clicks", channel="archive")
    assert isinstance(made, nsq.Message)
    assert (made.body, made.attempts, made.timestamp, made.topic, made.channel, made.nsqd) == (
        b"body",
        3,
        5,
        "clicks",
        "archive",
        "test:4150",
    )
    assert made.answer is None
    assert not made.responded
    made.finish()
    assert made.responded
    assert made.answer == Finished()
    with pytest.raises(nsq.AlreadyResponded):
        made.finish()
    assert "answered" in repr(made)


def test_each_has_its_own_id_and_time() -> None:
    before = time.time_ns()
    one, other = message(b"x"), message(b"x")
    assert one.id != other.id
    assert len(one.id) == 16
    assert before <= one.timestamp <= time.time_ns()
    assert message(b"x", id="0123456789abcdef").id == "0123456789abcdef"


def test_answers_and_touches_are_recorded() -> None:
    made = message(b"x", msg_timeout=100)
    assert 90 < made.time_left() <= 100
    made.touch()
    made.touch()
    assert made.touches == 2
    made.requeue(5, backoff=False)
    assert made.answer == Requeued(5, backoff=False)
    assert Requeued(1, error=ValueError()) == Requeued(1)


@pytest.mark.parametrize(
    "arguments",
    [
        {"attempts": 0},
        {"attempts": 65536},
        {"id": "short"},
        {"id": "é" * 16},
        {"timestamp": -1},
        {"msg_timeout": -1},
        {"topic": "no topic"},
        {"channel": ""},
    ],
)
def test_what_no_nsqd_sends_is_refused(arguments: dict[str, object]) -> None:
    with pytest.raises((nsq.InvalidOption, nsq.InvalidName)):
        message(b"x", **arguments)  # type: ignore[arg-type]


def test_a_body_is_bytes() -> None:
    with pytest.raises(nsq.InvalidBody, match="use bytes"):
        message("text")  # type: ignore[arg-type]


MSG_TIMEOUT = 1_000_000  # of one that is made when tests are collected
OUTSIDE = message(b"made outside of any event loop", msg_timeout=MSG_TIMEOUT)


@pytest.mark.anyio
async def test_the_deadline_is_on_the_running_loops_clock() -> None:
    for made in (OUTSIDE, message(b"made inside", msg_timeout=MSG_TIMEOUT)):
        assert 0 < made.deadline - anyio.current_time() <= MSG_TIMEOUT + 1e-6  # as floats round
        assert made.time_left() == pytest.approx(made.deadline - anyio.current_time(), abs=10)


@pytest.mark.anyio
async def test_a_block_answers_it() -> None:
    finished, requeued, discarded, failed = (message(b"x") for _ in range(4))
    async with finished:
        pass
    async with requeued:
        raise nsq.Requeue(3)
    async with discarded:
        raise nsq.Discard("bad")
    with pytest.raises(ValueError, match="mine"):
        async with failed:
            raise ValueError("mine")
    answers = [made.answer for made in (finished, requeued, discarded, failed)]
    assert answers == [Finished(), Requeued(3), Discarded("bad"), Requeued()]


@pytest.mark.anyio
async def test_it_is_kept_alive() -> None:
    made: RecordedMessage = message(b"x", msg_timeout=3)
    with anyio.fail_after(20):
        async with made.keep_alive():
            while not made.touches:  # noqa: ASYNC110 - touching sets no event
                await anyio.sleep(0.01)
    assert made.answer is None


def test_it_is_imported_when_it_is_first_used() -> None:
    code = (
        "import sys, nsq_anyio as nsq; "
        "assert 'nsq_anyio.testing' not in sys.modules; "
        "print(nsq.testing.message(b'x').body)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "b'x'\n"
