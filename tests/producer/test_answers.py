"""Answers pair with publishes in order, whoever waits for them, and whatever they say."""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable
from functools import partial

import anyio
import pytest

import nsq_anyio as nsq

from ..fake_nsqd import Events, FakeConnection, fake_nsqd, until

pytestmark = pytest.mark.anyio

QUICK = nsq.ProducerOptions(reconnect_delay=0.01, max_reconnect_delay=0.02, connect_timeout=2)


class Outcomes(dict[bytes, str]):
    """What became of each body."""

    async def publish(self, producer: nsq.Producer, body: bytes) -> None:
        try:
            await producer.publish("t", body)
        except nsq.PublishError as error:
            self[body] = f"{type(error).__name__}: {error}"
        else:
            self[body] = "stored"


async def receive(connection: FakeConnection, count: int) -> list[bytes]:
    """The bodies of the next publishes, unanswered."""
    bodies: list[bytes] = []
    for _ in range(count):
        assert await connection.command() == b"PUB t"
        bodies.append(connection.body)
    return bodies


def storing(stored: list[bytes]) -> Callable[[FakeConnection], Awaitable[None]]:
    """The script of an nsqd that takes everything."""

    async def script(connection: FakeConnection) -> None:
        await connection.identify()
        while True:
            stored.extend(await receive(connection, 1))
            await connection.response()

    return script


async def test_each_publish_gets_its_own_answer() -> None:
    """Out of 20 at once the tenth is refused: those before it are stored, those behind it sent again."""
    received: list[bytes] = []
    again: list[bytes] = []

    async def refuse_tenth(connection: FakeConnection) -> None:
        await connection.identify()
        received.extend(await receive(connection, 20))
        for _ in range(9):
            await connection.response()
        await connection.error(b"E_BAD_MESSAGE PUB no")
        await connection.close()

    outcomes = Outcomes()
    async with (
        fake_nsqd(refuse_tenth, storing(again)) as fake,
        nsq.produce(fake.address, options=QUICK) as producer,
        anyio.create_task_group() as tasks,
    ):
        for number in range(20):
            tasks.start_soon(outcomes.publish, producer, b"%d" % number)
    refused = received[9]
    assert outcomes.pop(refused) == "PublishRejected: E_BAD_MESSAGE PUB no"
    assert set(outcomes.values()) == {"stored"}
    assert len(outcomes) == 19
    assert sorted(again) == sorted(received[10:])


async def test_a_cancelled_publish_keeps_its_place() -> None:
    async def script(connection: FakeConnection) -> None:
        await connection.identify()
        assert await receive(connection, 1) == [b"cancelled"]
        arrived.set()
        assert await receive(connection, 1) == [b"refused"]
        await connection.response()  # of the cancelled one
        await connection.error(b"E_BAD_MESSAGE PUB no")
        await connection.close()

    arrived = anyio.Event()
    outcomes = Outcomes()
    async with fake_nsqd(script) as fake, nsq.produce(fake.address, options=QUICK) as producer:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(outcomes.publish, producer, b"cancelled")
            with anyio.fail_after(5):
                await arrived.wait()
            tasks.cancel_scope.cancel()
        await outcomes.publish(producer, b"refused")
    assert outcomes == {b"refused": "PublishRejected: E_BAD_MESSAGE PUB no"}


async def test_the_refusal_of_a_cancelled_publish_is_nobody_elses() -> None:
    async def refuse(connection: FakeConnection) -> None:
        await connection.identify()
        assert await receive(connection, 1) == [b"cancelled"]
        arrived.set()
        assert await receive(connection, 1) == [b"next"]
        await connection.error(b"E_BAD_MESSAGE PUB no")
        await connection.close()

    arrived = anyio.Event()
    stored: list[bytes] = []
    async with (
        fake_nsqd(refuse, storing(stored)) as fake,
        nsq.produce(fake.address, options=QUICK) as producer,
    ):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(producer.publish, "t", b"cancelled")
            with anyio.fail_after(5):
                await arrived.wait()
            tasks.cancel_scope.cancel()
        await producer.publish("t", b"next")
    assert stored == [b"next"]


async def test_a_bare_disconnect_leaves_the_outcome_unknown() -> None:
    async def hang_up(connection: FakeConnection) -> None:
        await connection.identify()
        await receive(connection, 3)
        await connection.response()
        await connection.close()

    stored: list[bytes] = []
    outcomes = Outcomes()
    async with (
        fake_nsqd(hang_up, storing(stored)) as fake,
        nsq.produce(fake.address, options=QUICK) as producer,
        anyio.create_task_group() as tasks,
    ):
        for body in (b"0", b"1", b"2"):
            tasks.start_soon(outcomes.publish, producer, body)
    assert sorted(outcome.partition(":")[0] for outcome in outcomes.values()) == [
        "OutcomeUnknown",
        "OutcomeUnknown",
        "stored",
    ]
    assert stored == []  # sending them again could store them twice


async def test_an_error_frame_that_is_no_nsqds_refusal_of_this_publish_is_told() -> None:
    async def refuse(connection: FakeConnection) -> None:
        await connection.identify()
        await receive(connection, 1)
        await connection.error(b"E_UNAUTHORIZED AUTH required")
        await connection.close()

    async with fake_nsqd(refuse) as fake, nsq.produce(fake.address, options=QUICK) as producer:
        with pytest.raises(nsq.PublishRejected) as refused:
            await producer.publish("t", b"x")
    assert (refused.value.code, refused.value.detail) == ("E_UNAUTHORIZED", "AUTH required")
    assert isinstance(refused.value.__cause__, nsq.ServerError)


async def test_an_answer_too_late() -> None:
    async def be_slow(connection: FakeConnection) -> None:
        await connection.identify()
        await receive(connection, 1)
        released.set()
        with anyio.fail_after(5):
            await resumed.wait()
        await connection.response()  # of the one that was given up
        assert await receive(connection, 1) == [b"next"]
        await connection.response()
        await anyio.sleep_forever()

    released, resumed = anyio.Event(), anyio.Event()
    options = nsq.ProducerOptions(publish_timeout=0.2, drain_timeout=0.1)
    async with fake_nsqd(be_slow) as fake, nsq.produce(fake.address, options=options) as producer:
        with pytest.raises(nsq.OutcomeUnknown, match=r"no answer within publish_timeout=0\.2 s"):
            await producer.publish("t", b"slow")
        assert released.is_set()
        resumed.set()
        await producer.publish("t", b"next")


async def test_mpub_and_dpub_on_the_wire() -> None:
    seen: list[tuple[bytes, bytes]] = []

    async def script(connection: FakeConnection) -> None:
        await connection.identify()
        while True:
            seen.append((await connection.command(), connection.body))
            await connection.response()

    async with fake_nsqd(script) as fake, nsq.produce(fake.address) as producer:
        await producer.publish_many("t", [b"a", b"bc"])
        await producer.publish("t", b"later", defer=1.25)
    mpub = struct.pack(">II", 2, 1) + b"a" + struct.pack(">I", 2) + b"bc"
    assert seen == [(b"MPUB t", mpub), (b"DPUB t 1250", b"later")]


async def test_heartbeats_are_answered_between_publishes() -> None:
    async def script(connection: FakeConnection) -> None:
        await connection.identify()
        await receive(connection, 1)
        await connection.heartbeat()
        await connection.response()
        await connection.expect(b"NOP")
        done.set()
        await anyio.sleep_forever()

    done = anyio.Event()
    options = nsq.ProducerOptions(drain_timeout=0.1)
    async with fake_nsqd(script) as fake, nsq.produce(fake.address, options=options) as producer:
        await producer.publish("t", b"x")
        with anyio.fail_after(5):
            await done.wait()


async def test_an_answer_that_nobody_asked_for_ends_the_connection() -> None:
    async def babble(connection: FakeConnection) -> None:
        await connection.identify()
        await connection.response()
        await connection.eof()

    events = Events()
    stored: list[bytes] = []
    async with (
        fake_nsqd(babble, storing(stored)) as fake,
        nsq.produce(fake.address, options=QUICK, on_event=events) as producer,
    ):
        await until(partial(events.of, nsq.events.Disconnected))
        await producer.publish("t", b"x")
    assert stored == [b"x"]
    assert "no request was waiting" in str(events.of(nsq.events.Disconnected)[0].error)
