"""The consumer for plain functions: taking and answering. No test here has an event loop of its own."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable

import pytest

import nsq_anyio as nsq

from .conftest import LIMIT, Backend, no_threads_left, nothing_left, publish, until


def test_iteration_and_a_block_per_message(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    publish(nsqd, b"a", b"b")
    got: list[bytes] = []
    with nsq.sync.consume("t", "c", nsqd=nsqd.tcp_address, backend=backend) as consumer:
        for message in consumer:
            with message:
                assert (message.topic, message.channel, message.nsqd) == ("t", "c", nsqd.tcp_address)
                assert (message.attempts, len(message.id), message.responded) == (1, 16, False)
                assert message.timestamp <= time.time_ns()
                assert 50 < message.time_left() <= 60
                got.append(message.body)
            assert message.responded
            if len(got) == 2:
                break
        until(lambda: consumer.statistics().finished == 2)
        assert consumer.max_in_flight == 1
        assert consumer.connections == (nsqd.tcp_address,)
    assert got == [b"a", b"b"]
    assert nothing_left(nsqd)
    assert no_threads_left()


def test_a_thread_that_waits_while_all_of_max_in_flight_is_unanswered_is_warned(
    nsqd: nsq.embedded.EmbeddedNsqd, caplog: pytest.LogCaptureFixture
) -> None:
    publish(nsqd, b"a", b"b")
    with nsq.sync.consume("t", "c", nsqd=nsqd.tcp_address) as consumer:
        assert consumer.take(LIMIT) is not None
        assert consumer.take(7.5) is None
    (record,) = [each for each in caplog.records if each.levelname == "WARNING"]
    assert record.getMessage().startswith("t/c: a task waits for a message, but 1 message is unanswered")


def test_the_block_of_a_message_answers_for_its_error(
    nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend
) -> None:
    publish(nsqd, b"x")
    options = nsq.ConsumerOptions(requeue_delay=0, max_backoff_duration=0)
    with nsq.sync.consume("t", "c", nsqd=nsqd.tcp_address, backend=backend, options=options) as consumer:
        with pytest.raises(LookupError), next(consumer):
            raise LookupError
        with next(consumer) as message:
            assert message.attempts == 2
            raise nsq.Requeue(0)
        with next(consumer) as message:
            assert message.attempts == 3
            raise nsq.Discard("no good")
        until(lambda: consumer.statistics().finished == 1)
        assert consumer.statistics().requeued == 2
    assert nothing_left(nsqd)


def test_dead_letters(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    publish(nsqd, b"discarded", b"failed")
    options = nsq.ConsumerOptions(max_attempts=1)
    with nsq.sync.consume(
        "t", "c", nsqd=nsqd.tcp_address, backend=backend, dead_letter="{topic}.dead", options=options
    ) as consumer:
        with next(consumer):
            raise nsq.Discard("no")
        next(consumer).requeue()  # so that it is given up at the end of the block
    assert nothing_left(nsqd)
    with nsq.sync.consume("t.dead", "look", nsqd=nsqd.tcp_address) as consumer:
        for payload, reason in ((b"discarded", "discarded"), (b"failed", "gave-up")):
            with next(consumer) as letter:
                assert (letter.payload, letter.headers["nsq-dead-reason"]) == (payload, reason)


def test_a_message_is_answered_once_and_in_any_thread(
    nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend
) -> None:
    publish(nsqd, *(b"%d" % number for number in range(50)))
    with nsq.sync.consume("t", "c", nsqd=nsqd.tcp_address, max_in_flight=50, backend=backend) as consumer:
        messages = list(itertools.islice(consumer, 50))
        threads = [threading.Thread(target=message.finish) for message in messages]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        until(lambda: consumer.statistics().finished == 50)
        with pytest.raises(nsq.AlreadyResponded):
            messages[0].finish()
        with pytest.raises(nsq.AlreadyResponded):
            messages[0].requeue()
        with pytest.raises(nsq.AlreadyResponded):
            messages[0].touch()
        with pytest.raises(nsq.InvalidOption, match="delay=-1"):
            messages[0].requeue(-1)
        assert consumer.in_flight == 0
    assert nothing_left(nsqd)


def test_touch_gives_more_time(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    publish(nsqd, b"x")
    touched = threading.Event()

    def on_event(event: nsq.events.Event) -> None:
        if isinstance(event, nsq.events.MessageTouched):
            touched.set()

    with nsq.sync.consume("t", "c", nsqd=nsqd.tcp_address, backend=backend, on_event=on_event) as consumer:
        message = next(consumer)
        until(lambda: message.time_left() < 59.9)
        touched_at = time.monotonic()
        message.touch()
        assert touched.wait(LIMIT)
        # Of the 60 s no more is gone than since then, however long that was.
        assert message.time_left() > 59.95 - (time.monotonic() - touched_at)
        message.finish()


def test_take_waits_for_so_long(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    with nsq.sync.consume("t", "c", nsqd=nsqd.tcp_address, backend=backend) as consumer:
        consumer.ready(LIMIT)
        assert consumer.take(timeout=0) is None
        started = time.monotonic()
        assert consumer.take(timeout=0.1) is None
        assert time.monotonic() - started >= 0.1
        publish(nsqd, b"x")
        message = consumer.take(timeout=LIMIT)
        assert message is not None
        message.finish()
        consumer.stop()
        assert consumer.stopped
        with pytest.raises(nsq.Closed, match="stopped"):
            consumer.take()
        assert list(consumer) == []
        with pytest.raises(nsq.InvalidOption, match="timeout=-1"):
            consumer.take(timeout=-1)
    with pytest.raises(nsq.Closed, match=r"inside `with nsq\.sync\.consume"):
        consumer.take()
    with pytest.raises(nsq.Closed):
        iter(consumer)


def test_batches(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    publish(nsqd, *(b"%d" % number for number in range(25)))
    sizes: list[int] = []
    with nsq.sync.consume("t", "c", nsqd=nsqd.tcp_address, max_in_flight=100, backend=backend) as consumer:
        full = consumer.batches(10, max_wait=LIMIT)
        for batch in itertools.chain((next(full), next(full)), consumer.batches(10, max_wait=0.2)):
            sizes.append(len(batch))
            for message in batch:
                message.finish()
            if sum(sizes) == 25:
                consumer.stop()
        assert sizes[:2] == [10, 10]
        until(lambda: consumer.statistics().finished == 25)
    assert nothing_left(nsqd)


def test_a_batch_ends_when_no_more_can_come(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    publish(nsqd, *(b"%d" % number for number in range(5)))
    with nsq.sync.consume("t", "c", nsqd=nsqd.tcp_address, max_in_flight=3, backend=backend) as consumer:
        started = time.monotonic()
        batch = next(iter(consumer.batches(10, max_wait=LIMIT)))
        assert 1 <= len(batch) <= 3
        assert consumer.is_starved
        assert time.monotonic() - started < LIMIT / 2
    assert nsqd.topics["t"].channels["c"].depth == 5


def test_a_message_on_its_last_attempt_comes_alone(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    publish(nsqd, b"a", b"b", b"c")
    options = nsq.ConsumerOptions(max_attempts=2, max_backoff_duration=0)
    with nsq.sync.consume(
        "t", "c", nsqd=nsqd.tcp_address, max_in_flight=10, backend=backend, options=options
    ) as consumer:
        sizes: dict[int, list[int]] = {1: [], 2: []}
        for batch in consumer.batches(10, max_wait=0.2):
            sizes[batch[0].attempts].append(len(batch))
            for message in batch:
                if message.attempts == 1:
                    message.requeue(0)
                else:
                    message.finish()
            if len(sizes[2]) == 3:
                consumer.stop()
        assert sum(sizes[1]) == 3
        assert sizes[2] == [1, 1, 1]


def test_unanswered_messages_are_handed_back(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    publish(nsqd, *(b"%d" % number for number in range(20)))
    messages: list[nsq.sync.Message] = []
    with pytest.raises(ZeroDivisionError):
        with nsq.sync.consume("t", "c", nsqd=nsqd.tcp_address, max_in_flight=20, backend=backend) as consumer:
            messages += [next(consumer), next(consumer)]
            raise ZeroDivisionError
    assert all(message.responded for message in messages)
    assert nsqd.topics["t"].channels["c"].depth == 20
    messages[0].finish()  # too late: dropped
    assert nsqd.topics["t"].channels["c"].depth == 20


def test_pause_and_the_limit(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    with nsq.sync.consume("t", "c", nsqd=nsqd.tcp_address, max_in_flight=3, backend=backend) as consumer:
        consumer.ready(LIMIT)
        consumer.pause()
        until(lambda: consumer.statistics().per_connection[0].rdy == 0)
        consumer.resume()
        until(lambda: consumer.statistics().per_connection[0].rdy == 3)
        consumer.max_in_flight = 7
        until(lambda: consumer.statistics().per_connection[0].rdy == 7)
        assert consumer.max_in_flight == 7
        with pytest.raises(nsq.InvalidOption):
            consumer.max_in_flight = -1


def test_the_last_attempt_goes_to_on_give_up(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    publish(nsqd, b"x")
    given_up: list[tuple[bytes, str]] = []

    def give_up(message: nsq.sync.Message) -> None:
        time.sleep(0.01)  # it may block
        given_up.append((message.body, threading.current_thread().name))

    options = nsq.ConsumerOptions(requeue_delay=0, max_attempts=1, max_backoff_duration=0)
    with nsq.sync.consume(
        "t", "c", nsqd=nsqd.tcp_address, backend=backend, options=options, on_give_up=give_up
    ) as consumer:
        next(consumer).requeue(0)
        assert consumer.take(timeout=0.2) is None
        until(lambda: consumer.statistics().finished == 1)
    assert given_up == [(b"x", "nsq-anyio on_give_up")]
    assert nothing_left(nsqd)


def test_threads_share_it(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    publish(nsqd, *(b"%d" % number for number in range(500)))
    got: list[bytes] = []

    def take_all() -> None:
        for message in consumer:
            with message:
                got.append(message.body)
                if len(got) == 500:
                    consumer.stop()

    with nsq.sync.consume("t", "c", nsqd=nsqd.tcp_address, max_in_flight=20, backend=backend) as consumer:
        threads = [threading.Thread(target=take_all) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT)
            assert not thread.is_alive()
    assert sorted(got) == sorted(b"%d" % number for number in range(500))
    assert nothing_left(nsqd)


def test_waiting_in_the_thread_of_the_event_loop_is_refused(
    nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend
) -> None:
    seen: list[str] = []
    done = threading.Event()

    def on_event(event: nsq.events.Event) -> None:
        if not isinstance(event, nsq.events.MessageFinished) or done.is_set():
            return
        calls: list[Callable[[], object]] = [
            lambda: next(consumer),
            lambda: iter(consumer),
            consumer.take,
            lambda: consumer.batches(1),
            lambda: consumer.run(print),
            consumer.ready,
        ]
        for call in calls:
            with pytest.raises(nsq.WouldDeadlock):
                call()
            seen.append("refused")
        assert consumer.statistics().connections == 1
        consumer.stop()
        done.set()

    publish(nsqd, b"x")
    with nsq.sync.consume("t", "c", nsqd=nsqd.tcp_address, backend=backend, on_event=on_event) as consumer:
        for message in consumer:
            message.finish()
    assert done.is_set()
    assert seen == ["refused"] * 6


def test_a_failure_that_ends_the_program_may_be_the_last(
    nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend
) -> None:
    publish(nsqd, b"x")
    given_up: list[bytes] = []
    options = nsq.ConsumerOptions(max_attempts=1)

    def give_up(message: nsq.sync.Message) -> None:
        given_up.append(message.body)

    with (
        pytest.raises(ValueError, match="mine"),
        nsq.sync.consume(
            "t", "c", nsqd=nsqd.tcp_address, backend=backend, options=options, on_give_up=give_up
        ) as consumer,
    ):
        for message in consumer:
            with message:
                raise ValueError("mine")
    assert given_up == [b"x"]
    assert nothing_left(nsqd)
