"""Tasks in a worker: when a message is answered, and how."""

from __future__ import annotations

import asyncio
import logging
import pickle

import anyio
import pytest
from taskiq import (
    Context,
    SimpleRetryMiddleware,
    SmartRetryMiddleware,
    TaskiqDepends,
    TaskiqMessage,
    TaskiqMiddleware,
)
from taskiq.acks import AcknowledgeType
from taskiq.formatters.json_formatter import JSONFormatter

import nsq_anyio as nsq
from nsq_anyio.contrib.taskiq import Delivered, NsqBroker, delivered
from nsq_anyio.embedded import EmbeddedNsqd

from .working import channel_of, first_of, until, until_channel, until_finished, working

pytestmark = pytest.mark.anyio

SHORT = nsq.ConnectionOptions(msg_timeout=1.0)


async def test_a_message_is_finished_after_its_task(nsqd: EmbeddedNsqd) -> None:
    broker = NsqBroker(nsqd.tcp_address)
    seen: list[object] = []
    go = asyncio.Event()

    @broker.task
    async def task(number: int, *, word: str) -> None:
        seen.append((number, word))
        await go.wait()
        seen.append("done")

    async with broker, working(broker):
        await task.kiq(1, word="a")
        await until(lambda: len(seen) == 1)
        assert (await channel_of(nsqd.http_url)).in_flight_count == 1
        go.set()
        await until_finished(nsqd.http_url)
        assert seen == [(1, "a"), "done"]


async def test_a_worker_that_ends_lets_its_tasks_end(nsqd: EmbeddedNsqd) -> None:
    broker = NsqBroker(nsqd.tcp_address)
    begun, done = asyncio.Event(), asyncio.Event()

    @broker.task
    async def task() -> None:
        begun.set()
        await anyio.sleep(0.3)
        done.set()

    async with broker:
        async with working(broker) as finish:
            await task.kiq()
            await begun.wait()
            finish.set()
        assert done.is_set()
    channel = await channel_of(nsqd.http_url)
    assert (channel.depth, channel.in_flight_count, channel.requeue_count) == (0, 0, 0)


async def test_tasks_of_threads_and_what_nsq_says(nsqd: EmbeddedNsqd) -> None:
    broker = NsqBroker(nsqd.tcp_address)
    seen: list[Delivered] = []

    @broker.task(urgent=True)
    def task(facts: Delivered = TaskiqDepends(delivered)) -> None:
        seen.extend([facts, delivered()])

    async with broker, working(broker):
        await task.kiq()
        await until(lambda: len(seen) == 2)
        await until_finished(nsqd.http_url)
    facts = seen[0]
    assert seen == [facts, facts]
    assert (facts.attempts, facts.topic, facts.channel) == (1, "taskiq", "workers")
    assert facts.nsqd == nsqd.tcp_address
    assert pickle.loads(pickle.dumps(facts)) == facts
    assert facts.headers["urgent"] == "True"
    assert facts.headers["taskiq-task-name"] == task.task_name
    with pytest.raises(nsq.Closed, match="delivered"):
        delivered()


async def test_a_long_task_keeps_its_message(nsqd: EmbeddedNsqd) -> None:
    broker = NsqBroker(nsqd.tcp_address, connection=SHORT)
    attempts: list[int] = []

    @broker.task
    async def task() -> None:
        attempts.append(delivered().attempts)
        await anyio.sleep(2.5)
        attempts.append(0)

    async with broker, working(broker):
        await task.kiq()
        await until(lambda: 0 in attempts)
        await until_finished(nsqd.http_url)
    assert attempts == [1, 0]


async def test_a_message_that_waits_for_a_slot_is_kept_too(nsqd: EmbeddedNsqd) -> None:
    broker = NsqBroker(nsqd.tcp_address, connection=SHORT)
    attempts: list[int] = []

    @broker.task
    async def task() -> None:
        attempts.append(delivered().attempts)
        if len(attempts) <= 10:  # the worker has ten slots
            await anyio.sleep(2.5)

    async with broker, working(broker):
        for _ in range(12):
            await task.kiq()
        await until(lambda: len(attempts) == 12)
        await until_finished(nsqd.http_url)
    assert attempts == [1] * 12


async def test_without_keep_alive_a_long_task_is_delivered_again(nsqd: EmbeddedNsqd) -> None:
    broker = NsqBroker(nsqd.tcp_address, connection=SHORT, keep_alive=False)
    attempts: list[int] = []

    @broker.task
    async def task() -> None:
        attempts.append(delivered().attempts)
        if attempts == [1]:
            await until(lambda: len(attempts) == 2)

    async with broker, working(broker):
        await task.kiq()
        await until_finished(nsqd.http_url)
        await until(lambda: attempts == [1, 2])


async def test_messages_that_wait_in_vain_do_not_pile_up(nsqd: EmbeddedNsqd) -> None:
    """Those that time out while all slots are busy are delivered anew, and the old ones are dropped."""
    broker = NsqBroker(
        nsqd.tcp_address,
        connection=nsq.ConnectionOptions(msg_timeout=1.0),
        consumer=nsq.ConsumerOptions(max_attempts=0),
        keep_alive=False,
        max_in_flight=4,
    )

    @broker.task
    async def task() -> None: ...

    async with broker:
        listening = broker.listen()
        for _ in range(5):
            await task.kiq()
        with anyio.fail_after(20):
            await anext(listening)  # and it takes no other
        await until_channel(nsqd.http_url, lambda channel: channel.timeout_count >= 16)
        (listener,) = broker.listeners
        assert listener.waiting <= 5 + 4
        await listening.aclose()


async def test_unreadable_messages_become_dead_letters(nsqd: EmbeddedNsqd) -> None:
    broker = NsqBroker(nsqd.tcp_address)
    async with broker, working(broker):
        async with nsq.produce(nsqd.tcp_address) as producer:
            await producer.publish("taskiq", b"not a task")
        await until_finished(nsqd.http_url)
    letter = await first_of(nsqd.tcp_address)
    assert letter.payload == b"not a task"
    assert "taskiq cannot read it" in letter.headers["nsq-dead-error"]


async def test_a_damaged_envelope_becomes_a_dead_letter(nsqd: EmbeddedNsqd) -> None:
    broker = NsqBroker(nsqd.tcp_address)
    async with broker, working(broker):
        async with nsq.produce(nsqd.tcp_address) as producer:
            await producer.publish("taskiq", nsq.envelope.MAGIC + b"\x01\xff\xffcut off")
        await until_finished(nsqd.http_url)
    assert "cut off" in (await first_of(nsqd.tcp_address)).headers["nsq-dead-error"]


async def test_a_task_that_the_worker_does_not_have_becomes_a_dead_letter(nsqd: EmbeddedNsqd) -> None:
    client, broker = NsqBroker(nsqd.tcp_address), NsqBroker(nsqd.tcp_address)

    @client.task(task_name="of another release")
    async def task() -> None: ...

    async with client, broker, working(broker):
        await task.kiq()
        await until_finished(nsqd.http_url)
    assert "of another release" in (await first_of(nsqd.tcp_address)).headers["nsq-dead-error"]


async def test_without_a_topic_for_them_such_messages_are_finished(nsqd: EmbeddedNsqd) -> None:
    broker = NsqBroker(nsqd.tcp_address, dead_letter=None)
    async with broker, working(broker):
        async with nsq.produce(nsqd.tcp_address) as producer:
            await producer.publish("taskiq", b"not a task")
        await until_finished(nsqd.http_url)
    assert await channel_of(nsqd.http_url, "taskiq.dead") is None


async def test_a_failure_of_taskiq_itself_requeues(
    nsqd: EmbeddedNsqd, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(TaskiqMiddleware):
        calls = 0

        def pre_execute(self, message: TaskiqMessage) -> TaskiqMessage:
            self.calls += 1
            if self.calls == 1:
                raise ZeroDivisionError
            return message

    quick = nsq.ConsumerOptions(requeue_delay=0, backoff_multiplier=0.05)
    broker = NsqBroker(nsqd.tcp_address, consumer=quick).with_middlewares(Failing())
    attempts: list[int] = []

    @broker.task
    async def task() -> None:
        attempts.append(delivered().attempts)

    async with broker, working(broker):
        await task.kiq()
        await until_finished(nsqd.http_url)
    assert attempts == [2]
    assert [each for each in caplog.records if each.levelno == logging.ERROR and each.exc_info]


@pytest.mark.parametrize("kind", list(AcknowledgeType))
async def test_each_time_to_acknowledge(nsqd: EmbeddedNsqd, kind: AcknowledgeType) -> None:
    broker = NsqBroker(nsqd.tcp_address)
    in_flight: list[int] = []

    @broker.task
    async def task(context: Context = TaskiqDepends()) -> None:
        in_flight.append((await channel_of(nsqd.http_url)).in_flight_count)
        if kind.value == "manual":  # which older releases do not have
            await context.ack()

    async with broker, working(broker, ack_type=kind):
        await task.kiq()
        await until(lambda: bool(in_flight))
        await until_finished(nsqd.http_url)
    assert kind == AcknowledgeType.WHEN_RECEIVED or in_flight == [1]


async def test_taskiqs_own_retries_and_requeues(nsqd: EmbeddedNsqd) -> None:
    broker = NsqBroker(nsqd.tcp_address).with_middlewares(SimpleRetryMiddleware())
    runs: list[str] = []

    @broker.task(retry_on_error=True, max_retries=3)
    async def failing() -> None:
        runs.append("failing")
        raise ZeroDivisionError

    @broker.task
    async def again(context: Context = TaskiqDepends()) -> None:
        runs.append("again")
        if runs.count("again") == 1:
            await context.requeue()

    async with broker, working(broker):
        await failing.kiq()
        await again.kiq()
        await until(lambda: sorted(runs) == ["again"] * 2 + ["failing"] * 3)
        await until_finished(nsqd.http_url)


async def test_the_interval_of_taskiqs_retries_does_not_defer_the_first_run(nsqd: EmbeddedNsqd) -> None:
    broker = NsqBroker(nsqd.tcp_address).with_middlewares(SmartRetryMiddleware())
    runs: list[float] = []

    @broker.task(retry_on_error=True, max_retries=2, delay=1)
    async def failing() -> None:
        runs.append(anyio.current_time())
        raise ZeroDivisionError

    async with broker, working(broker):
        for call, first in ((failing.kicker(), 0.0), (failing.kicker().with_labels(delay=0.5), 0.5)):
            start = anyio.current_time()
            await call.kiq()
            await until(lambda: len(runs) == 2)
            assert first <= runs[0] - start < first + 0.45
            assert runs[1] - runs[0] > (first or 1.0) - 0.1
            runs.clear()
        await until_finished(nsqd.http_url)


async def test_another_formatter(nsqd: EmbeddedNsqd) -> None:
    broker = NsqBroker(nsqd.tcp_address).with_formatter(JSONFormatter())
    attempts: list[int] = []

    @broker.task
    async def task() -> None:
        attempts.append(delivered().attempts)

    async with broker, working(broker):
        await task.kiq()
        await until_finished(nsqd.http_url)
    assert attempts == [1]
    sent = broker.formatter.dumps(TaskiqMessage(task_id="i", task_name="n", labels={}, args=[], kwargs={}))
    assert broker.formatter.loads(sent.message).task_name == "n"
