"""The broker by itself: publishing, listening, and what `startup` and `shutdown` open and close."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import anyio
import pytest
from taskiq import AckableMessage, AsyncBroker, BrokerMessage, SendTaskError, TaskiqEvents

import nsq_anyio as nsq
from nsq_anyio.contrib.taskiq import NsqBroker
from nsq_anyio.embedded import EmbeddedNsqd

from .working import LIMIT, channel_of, first_of, until_channel, until_finished

pytestmark = pytest.mark.anyio


@pytest.fixture
async def broker(nsqd: EmbeddedNsqd) -> AsyncGenerator[NsqBroker]:
    broker = NsqBroker(nsqd.tcp_address)
    async with broker:
        yield broker


def message(body: bytes = b"body", /, **labels: object) -> BrokerMessage:
    return BrokerMessage(task_id="id", task_name="name", message=body, labels=labels)


async def first(broker: AsyncBroker) -> AckableMessage:
    with anyio.fail_after(LIMIT):
        async for received in broker.listen():
            assert isinstance(received, AckableMessage)
            return received
    raise AssertionError


async def acknowledge(received: AckableMessage) -> None:
    answer = received.ack()
    assert answer is not None
    await answer


async def test_what_is_kicked_is_listened_to_and_acknowledged(broker: NsqBroker, nsqd: EmbeddedNsqd) -> None:
    sent = message(b"any bytes \x00\xff")
    await broker.kick(sent)
    received = await first(broker)
    assert received.data == sent.message
    channel = await channel_of(nsqd.http_url)
    assert channel.in_flight_count == 1
    await acknowledge(received)
    await until_finished(nsqd.http_url)


async def test_labels_are_headers(broker: NsqBroker, nsqd: EmbeddedNsqd) -> None:
    labels = {"a": 1, "B": "two", "b": "too", "no token": 3, "huge": "x" * 70_000, "traceparent": "00-1"}
    await broker.kick(message(**labels))
    received = await first_of(nsqd.tcp_address, "taskiq")
    assert received.payload == b"body"
    assert dict(received.headers) == {
        "taskiq-task-id": "id",
        "taskiq-task-name": "name",
        "a": "1",
        "b": "two",
        "traceparent": "00-1",
    }


async def test_many_labels_leave_an_envelope_full(broker: NsqBroker, nsqd: EmbeddedNsqd) -> None:
    await broker.kick(message(**{f"label{number}": "x" * 1000 for number in range(200)}))
    received = await first_of(nsqd.tcp_address, "taskiq")
    assert 50 < len(received.headers) < 128


@pytest.mark.parametrize("delay", ["0.3", 0.3])
async def test_a_delay_defers(broker: NsqBroker, nsqd: EmbeddedNsqd, delay: object) -> None:
    start = anyio.current_time()
    await broker.kick(message(delay=delay))
    await first(broker)
    assert anyio.current_time() - start > 0.25


@pytest.mark.parametrize("delay", [None, "None"])
async def test_a_delay_of_none_is_no_delay(broker: NsqBroker, delay: object) -> None:
    await broker.kick(message(delay=delay))
    assert (await first(broker)).data == b"body"


@pytest.mark.parametrize("delay", ["soon", "-1", "nan", "inf"])
async def test_a_delay_that_is_no_time_is_refused(broker: NsqBroker, delay: object) -> None:
    with pytest.raises(nsq.InvalidOption, match="the label delay="):
        await broker.kick(message(delay=delay))


async def test_a_delay_that_nsqd_would_refuse_is_refused(broker: NsqBroker) -> None:
    with pytest.raises(nsq.InvalidOption, match="3600"):
        await broker.kick(message(delay=3601))


async def test_what_is_not_acknowledged_is_handed_back(nsqd: EmbeddedNsqd) -> None:
    broker = NsqBroker(nsqd.tcp_address)
    async with broker:
        for _ in range(3):
            await broker.kick(message())
        await first(broker)
    # Without a wait for the timeout of a minute.
    channel = await channel_of(nsqd.http_url)
    assert (channel.depth, channel.in_flight_count, channel.client_count) == (3, 0, 0)


async def test_a_listener_that_has_stopped_can_still_acknowledge(
    broker: NsqBroker, nsqd: EmbeddedNsqd
) -> None:
    for number in range(3):
        await broker.kick(message(b"%d" % number))
    listening = broker.listen()
    received = await anext(listening)
    await listening.aclose()
    await until_channel(nsqd.http_url, lambda channel: channel.depth == 2)
    assert isinstance(received, AckableMessage)
    await acknowledge(received)
    # The last acknowledgement ends the consumer, before any shutdown.
    await until_channel(nsqd.http_url, lambda channel: not channel.client_count)
    channel = await channel_of(nsqd.http_url)
    assert (channel.depth, channel.in_flight_count) == (2, 0)


async def test_a_wait_for_a_message_can_be_cancelled(broker: NsqBroker) -> None:
    listening = broker.listen()
    waiting = asyncio.ensure_future(anext(listening))
    await anyio.sleep(0.05)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await listening.aclose()
    await broker.kick(message())
    assert (await first(broker)).data == b"body"


async def test_a_shutdown_ends_who_listens(nsqd: EmbeddedNsqd) -> None:
    broker = NsqBroker(nsqd.tcp_address)
    await broker.startup()
    waiting = asyncio.ensure_future(first(broker))
    await anyio.sleep(0.05)
    await broker.shutdown()
    with pytest.raises(nsq.Closed):
        await waiting
    await broker.shutdown()  # again: nothing is left to do


async def test_a_broker_can_be_started_again(nsqd: EmbeddedNsqd) -> None:
    broker = NsqBroker(nsqd.tcp_address)
    for body in (b"1", b"2"):
        async with broker:
            await broker.startup()  # as a worker does within an application that has started it
            await broker.kick(message(body))
            received = await first(broker)
            assert received.data == body
            await acknowledge(received)


async def test_a_broker_must_be_started() -> None:
    broker = NsqBroker("127.0.0.1:1")

    @broker.task
    async def task() -> None: ...

    with pytest.raises(nsq.Closed, match=r"broker\.startup"):
        await broker.kick(message())
    with pytest.raises(nsq.Closed, match=r"broker\.startup"):
        await first(broker)
    with pytest.raises(SendTaskError) as caught:
        await task.kiq()
    assert isinstance(caught.value.__cause__, nsq.Closed)


async def test_a_startup_that_fails_leaves_nothing_open(nsqd: EmbeddedNsqd) -> None:
    broker = NsqBroker(nsqd.tcp_address)

    def fail(_state: object) -> None:
        raise ZeroDivisionError

    broker.on_event(TaskiqEvents.CLIENT_STARTUP)(fail)
    with pytest.raises(ZeroDivisionError):
        await broker.startup()
    with pytest.raises(nsq.Closed):
        await broker.kick(message())
    assert {task.get_name() for task in asyncio.all_tasks()} & {"nsq_anyio.contrib.taskiq"} == set()


async def test_nsqds_are_discovered() -> None:
    async with (
        nsq.embedded.nsqlookupd() as lookupd,
        nsq.embedded.nsqd(lookupd_tcp_addresses=[lookupd.tcp_address]) as nsqd,
    ):
        quick = nsq.ConsumerOptions(lookupd_poll_interval=0.1, lookupd_poll_jitter=0)
        for broker in (
            NsqBroker(nsqlookupd=lookupd.http_url, topic="a", consumer=quick),
            NsqBroker(nsqd.tcp_address, nsqlookupd=lookupd.http_url, topic="b", consumer=quick),
        ):
            async with broker:
                await broker.kick(message())
                assert (await first(broker)).data == b"body"


async def test_a_refusal_is_raised_where_it_is_listened(nsqd: EmbeddedNsqd) -> None:
    broker = NsqBroker(nsqd.tcp_address, connection=nsq.ConnectionOptions(msg_timeout=100_000))
    await broker.startup()
    with pytest.raises(nsq.PermanentRefusal), anyio.fail_after(LIMIT):
        await first(broker)
    with pytest.raises(nsq.NSQError):
        await broker.kick(message())
    with pytest.raises(nsq.PermanentRefusal):
        await broker.shutdown()


async def test_a_worker_process_that_is_refused_ends_later(
    nsqd: EmbeddedNsqd, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("nsq_anyio.contrib.taskiq.broker.RESTART_DELAY", 0.3)
    broker = NsqBroker(nsqd.tcp_address, connection=nsq.ConnectionOptions(msg_timeout=100_000))
    broker.is_worker_process = True
    start = anyio.current_time()
    await broker.startup()
    with pytest.raises(nsq.PermanentRefusal):
        await first(broker)
    assert anyio.current_time() - start >= 0.3
    assert "this worker ends in 0.3 s" in caplog.text
    with pytest.raises(nsq.PermanentRefusal):
        await broker.shutdown()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, "neither nsqd nor nsqlookupd"),
        ({"nsqd": "nowhere"}, "nowhere"),
        ({"nsqlookupd": "ftp://x"}, "ftp"),
        ({"nsqd": "a:1", "topic": "a b"}, "a b"),
        ({"nsqd": "a:1", "channel": ""}, "channel"),
        ({"nsqd": "a:1", "max_in_flight": 0}, "max_in_flight=0"),
        ({"nsqd": "a:1", "keep_alive": 5}, "keep_alive=5 is not valid: use True or False"),
        (
            {"nsqd": "a:1", "consumer": {"max_attempts": 3}},
            r"consumer is of type dict: use nsq.ConsumerOptions\(",
        ),
        ({"nsqd": "a:1", "producer": {}}, r"producer is of type dict: use nsq.ProducerOptions\("),
        ({"nsqd": "a:1", "connection": {}}, r"connection is of type dict: use nsq.ConnectionOptions\("),
    ],
)
def test_options_are_checked(options: dict[str, object], error: str) -> None:
    with pytest.raises(nsq.InvalidOption, match=error):
        NsqBroker(**options)  # type: ignore[arg-type]


async def test_a_broker_whose_event_loop_has_ended_starts_again(nsqd: EmbeddedNsqd) -> None:
    broker = NsqBroker(nsqd.tcp_address)

    async def start() -> None:
        await broker.startup()
        await broker.kick(message(b"first"))

    await anyio.to_thread.run_sync(asyncio.run, start())
    with pytest.raises(nsq.Closed, match="start it first"):
        await broker.kick(message())
    with anyio.fail_after(LIMIT):
        await broker.startup()
        received = await first(broker)
        assert received.data == b"first"
        await acknowledge(received)
        await broker.kick(message())
        await broker.shutdown()
