"""What nsqd's errors mean for a message: refused, to be stored elsewhere, or unknown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import pytest

import nsq_anyio as nsq

from .. import virtual_time
from ..fake_nsqd import Events, FakeConnection, FakeNsqd, fake_nsqd, until
from .gate import Gate

anyio_backend = virtual_time.anyio_backend
pytestmark = pytest.mark.anyio

QUICK: dict[str, Any] = {"reconnect_delay": 0.01, "max_reconnect_delay": 0.02, "connect_timeout": 2.0}
DISK_FULL = b"E_PUB_FAILED PUB failed write /data/t.diskqueue.000000.dat: no space left on device"
EXITING = b"E_PUB_FAILED PUB failed exiting"

Script = Callable[[FakeConnection], Awaitable[None]]


def storing(stored: list[bytes]) -> Script:
    """The script of an nsqd that takes everything."""

    async def script(connection: FakeConnection) -> None:
        await connection.identify()
        while True:
            await connection.command()
            stored.append(connection.body)
            await connection.response()

    return script


def answering(error: bytes) -> Script:
    """The script of an nsqd that takes one publish, answers with an error, if there is one, and hangs up."""

    async def script(connection: FakeConnection) -> None:
        await connection.identify()
        await connection.command()
        connection.lines.append(connection.body)
        if error:
            await connection.error(error)
        await connection.close()

    return script


async def both_connected(producer: nsq.Producer) -> None:
    await until(lambda: len(producer.connections) == 2)


@pytest.mark.parametrize(
    "error",
    [
        b"E_INVALID PUB insufficient number of parameters",
        b'E_BAD_TOPIC PUB topic name "t" is not valid',
        b"E_BAD_MESSAGE PUB message too big 2 > 1",
        b"E_BAD_BODY MPUB body too big 2 > 1",
        b'E_UNAUTHORIZED AUTH failed for PUB on "t" ""',
        b"E_AUTH_FIRST AUTH required before PUB",
        b"E_NEW_IN_A_LATER_NSQD",
    ],
)
async def test_a_refusal_is_told_at_once(error: bytes) -> None:
    stored: list[bytes] = []
    async with (
        fake_nsqd(answering(error), storing(stored)) as fake,
        nsq.produce(fake.address, options=nsq.ProducerOptions(**QUICK)) as producer,
    ):
        with pytest.raises(nsq.PublishRejected) as refused:
            await producer.publish("t", b"x")
    assert f"{refused.value}".encode() == error
    assert stored == []


async def test_a_refused_publish_holds_no_other_up() -> None:
    """nsqd closes the connection, and is as well as before."""
    stored: list[bytes] = []

    async def script(connection: FakeConnection) -> None:
        await connection.identify()
        while True:
            line = await connection.command()
            if line == b"PUB forbidden":
                await connection.error(b'E_UNAUTHORIZED AUTH failed for PUB on "forbidden" ""')
                await connection.close()
                return
            stored.append(connection.body)
            await connection.response()

    options = nsq.ProducerOptions(reconnect_delay=60, max_reconnect_delay=60, mode="hostpool")
    async with fake_nsqd(script) as fake, nsq.produce(fake.address, options=options) as producer:
        started = anyio.current_time()
        for number in range(10):
            await producer.publish("t", b"%d" % number)
            with pytest.raises(nsq.PublishRejected):
                await producer.publish("forbidden", b"x")
        assert anyio.current_time() - started < 1
    assert stored == [b"%d" % number for number in range(10)]


@pytest.mark.parametrize("several", [False, True])
async def test_an_authorization_that_cannot_be_renewed_is_an_outage(several: bool) -> None:
    """It has expired, and nsqd does not reach its auth server."""
    stored: list[bytes] = []
    options = nsq.ProducerOptions(**QUICK)
    expired = answering(b"E_AUTH_FAILED AUTH failed")
    async with fake_nsqd(expired, storing(stored)) as one, fake_nsqd(storing(stored)) as two:
        addresses = [one.address, two.address] if several else [one.address]
        async with nsq.produce(addresses, options=options) as producer:
            await until(lambda: len(producer.connections) == len(addresses))
            await producer.publish("t", b"x")
            assert producer.statistics().resent == 1
    assert stored == [b"x"]


async def test_an_nsqd_that_cannot_store_is_passed_over() -> None:
    stored: list[bytes] = []
    events = Events()
    async with fake_nsqd(answering(DISK_FULL)) as full, fake_nsqd(storing(stored)) as healthy:
        options = nsq.ProducerOptions(**QUICK)
        async with nsq.produce([full.address, healthy.address], options=options, on_event=events) as producer:
            await both_connected(producer)
            await producer.publish("t", b"x")
            assert producer.statistics().resent == 1
        assert full.connections[0].lines == [b"x"]
    assert stored == [b"x"]
    (resent,) = events.of(nsq.events.PublishResent)
    assert (resent.nsqd, resent.topic, resent.messages) == (full.address, "t", 1)
    assert "no space left" in str(resent.error)


@pytest.mark.parametrize("several", [False, True])
async def test_when_none_can_store_the_last_reason_is_told(several: bool) -> None:
    async with fake_nsqd(answering(DISK_FULL)) as one, fake_nsqd(answering(DISK_FULL)) as two:
        addresses = [one.address, two.address] if several else [one.address]
        async with nsq.produce(addresses, options=nsq.ProducerOptions(**QUICK)) as producer:
            await until(lambda: len(producer.connections) == len(addresses))
            with pytest.raises(nsq.PublishRejected, match="no space left") as refused:
                await producer.publish("t", b"x")
        assert refused.value.code == "E_PUB_FAILED"
        for fake in (one, two)[: len(addresses)]:
            assert [connection.lines for connection in fake.connections if connection.lines] == [[b"x"]]


async def test_one_that_none_can_store_holds_nobody_up() -> None:
    """It waits for room at the other nsqd when that goes away, and only the full one comes back."""
    gate = Gate()
    stored: list[bytes] = []
    told: list[str] = []

    async def publish(body: bytes) -> None:
        try:
            await producer.publish("t", body)
        except nsq.PublishError as error:
            told.append(f"{body.decode()} {type(error).__name__}")

    options = nsq.ProducerOptions(max_outstanding=1, reconnect_delay=0.05, max_reconnect_delay=0.05)
    async with (
        fake_nsqd(gate.script, FakeConnection.introduction) as other,
        fake_nsqd(answering(DISK_FULL), storing(stored)) as full,
        nsq.produce([other.address, full.address], options=options) as producer,
        anyio.create_task_group() as tasks,
    ):
        await both_connected(producer)
        tasks.start_soon(publish, b"first")
        await until(lambda: gate.received)
        tasks.start_soon(publish, b"second")
        await until(lambda: producer.statistics().resent == 1)
        await gate.hang_up()
        tasks.start_soon(publish, b"third")
        await until(lambda: stored)
    assert told == ["first OutcomeUnknown", "second PublishRejected"]
    assert stored == [b"third"]


@pytest.mark.parametrize("error", [EXITING, b"E_DPUB_FAILED DPUB failed exiting"])
async def test_a_topic_that_is_being_deleted_is_tried_again(error: bytes) -> None:
    """Even on the same nsqd: it makes a new one."""
    stored: list[bytes] = []
    async with (
        fake_nsqd(answering(error), storing(stored)) as fake,
        nsq.produce(fake.address, options=nsq.ProducerOptions(**QUICK)) as producer,
    ):
        await producer.publish("t", b"x", defer=1.0 if b"DPUB" in error else None)
    assert stored == [b"x"]


@pytest.mark.parametrize("detail", [b"exiting", b"no space left on device"])
async def test_a_part_of_a_batch_may_be_stored_when_nsqd_fails(detail: bytes) -> None:
    async with (
        fake_nsqd(answering(b"E_MPUB_FAILED MPUB failed " + detail)) as fake,
        nsq.produce(fake.address, options=nsq.ProducerOptions(**QUICK)) as producer,
    ):
        with pytest.raises(nsq.OutcomeUnknown, match="E_MPUB_FAILED"):
            await producer.publish_many("t", [b"a", b"b"])


async def test_no_part_of_a_batch_of_one() -> None:
    stored: list[bytes] = []
    async with (
        fake_nsqd(answering(b"E_MPUB_FAILED MPUB failed exiting"), storing(stored)) as fake,
        nsq.produce(fake.address, options=nsq.ProducerOptions(**QUICK)) as producer,
    ):
        await producer.publish_many("t", [b"a"])
    assert stored == [b"\0\0\0\1\0\0\0\1a"]


# A lost answer


async def test_an_unknown_outcome_is_told_by_default() -> None:
    stored: list[bytes] = []
    async with fake_nsqd(answering(b"")) as lossy, fake_nsqd(storing(stored)) as other:
        addresses = [lossy.address, other.address]
        async with nsq.produce(addresses, options=nsq.ProducerOptions(**QUICK)) as producer:
            await both_connected(producer)
            with pytest.raises(nsq.OutcomeUnknown, match="the answer was lost") as caught:
                await producer.publish("t", b"x")
            assert isinstance(caught.value.__cause__, nsq.ConnectionLost)
            assert producer.statistics().unknown == 1
    assert stored == []


@pytest.mark.parametrize("coalesce", [False, True])
async def test_an_unknown_outcome_is_sent_again_if_asked_for(coalesce: bool) -> None:
    stored: list[bytes] = []
    options = nsq.ProducerOptions(resend_unknown=True, coalesce=coalesce, **QUICK)
    async with fake_nsqd(answering(b"")) as lossy, fake_nsqd(storing(stored)) as other:
        async with nsq.produce([lossy.address, other.address], options=options) as producer:
            await both_connected(producer)
            await producer.publish("t", b"x")
            assert producer.statistics().resent == 1
    assert stored == [b"x"]


async def refuse(fake: FakeNsqd, producer: nsq.Producer) -> None:
    with pytest.raises(
        nsq.OutcomeUnknown, match=r"the answer was lost.*then, when it was sent again: E_BAD_MESSAGE"
    ):
        await producer.publish("t", b"x")
    assert len(fake.connections) == 2


async def never_connect_again(fake: FakeNsqd, producer: nsq.Producer) -> None:
    with pytest.raises(nsq.OutcomeUnknown, match="then, when it was sent again: no connection within"):
        await producer.publish("t", b"x")
    assert len(fake.connections) > 1


@pytest.mark.parametrize(
    ("second", "check"),
    [(answering(b"E_BAD_MESSAGE PUB no"), refuse), (FakeConnection.introduction, never_connect_again)],
)
async def test_an_unknown_outcome_stays_unknown(
    second: Script, check: Callable[[FakeNsqd, nsq.Producer], Awaitable[None]]
) -> None:
    """Whatever happens to the second attempt but success, the first may have stored it."""
    options = nsq.ProducerOptions(
        resend_unknown=True, reconnect_delay=0.01, max_reconnect_delay=0.02, connect_timeout=0.2
    )
    async with (
        fake_nsqd(answering(b""), second) as fake,
        nsq.produce(fake.address, options=options) as producer,
    ):
        await check(fake, producer)
        assert producer.statistics().unknown == 1


# In what order


async def test_what_is_sent_again_goes_ahead_in_its_order() -> None:
    """Those behind a refusal, before those that waited for room."""

    async def refuse_first(connection: FakeConnection) -> None:
        await connection.identify()
        for _ in range(4):
            await connection.command()
        await connection.error(b"E_BAD_MESSAGE PUB no")
        await connection.close()

    async def publish(body: bytes) -> None:
        if body == b"0":
            with pytest.raises(nsq.PublishRejected):
                await producer.publish("t", body)
        else:
            await producer.publish("t", body)

    stored: list[bytes] = []
    options = nsq.ProducerOptions(max_outstanding=4, **QUICK)
    async with (
        fake_nsqd(refuse_first, storing(stored)) as fake,
        nsq.produce(fake.address, options=options) as producer,
        anyio.create_task_group() as tasks,
    ):
        await until(lambda: producer.connections)
        for number in range(7):
            tasks.start_soon(publish, b"%d" % number)
            await until(partial(has_begun, producer, number + 1))
    assert stored == [b"%d" % number for number in range(1, 7)]


def has_begun(producer: nsq.Producer, count: int) -> bool:
    statistics = producer.statistics()
    ended = statistics.published + statistics.rejected
    return statistics.outstanding + statistics.waiting + ended >= count


async def test_a_large_one_is_not_overtaken_by_small_ones() -> None:
    gate = Gate()
    options = nsq.ProducerOptions(max_outstanding_bytes=90)
    async with (
        fake_nsqd(gate.script) as fake,
        nsq.produce(fake.address, options=options) as producer,
        anyio.create_task_group() as tasks,
    ):
        for size in (60, 61, 1, 1):
            tasks.start_soon(producer.publish, "t", b"x" * size)
            await anyio.wait_all_tasks_blocked()
        assert await gate.is_stuck_at(1)
        await gate.answer()
        assert await gate.is_stuck_at(3)  # the large one and one small one are 71 + 11 bytes with their heads
        await gate.answer(3)
    assert [len(body) for body in gate.received] == [60, 61, 1, 1]
