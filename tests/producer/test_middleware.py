# pyright: reportUnknownLambdaType=false
"""Middleware around publishes: what it is told, what it may change, and each outcome."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.envelope import decode

from .. import virtual_time
from ..fake_nsqd import LIMIT, FakeConnection, fake_nsqd, until
from ..middleware.noting import Notes

anyio_backend = virtual_time.anyio_backend
pytestmark = pytest.mark.anyio

Script = Callable[[FakeConnection], Awaitable[None]]
QUICK: dict[str, Any] = {
    "reconnect_delay": 0.01,
    "max_reconnect_delay": 0.02,
    "publish_timeout": 0.1,
    "drain_timeout": 0.2,
}


def storing(bodies: list[bytes]) -> Script:
    async def script(connection: FakeConnection) -> None:
        await connection.identify()
        while True:
            await connection.command()
            bodies.append(connection.body)
            await connection.response()

    return script


async def refusing(connection: FakeConnection) -> None:
    await connection.identify()
    await connection.command()
    await connection.error(b"E_BAD_TOPIC PUB topic name is not valid")
    await connection.close()


async def hanging_up(connection: FakeConnection) -> None:
    await connection.identify()
    await connection.command()
    await connection.close()


async def silent(connection: FakeConnection) -> None:
    await connection.identify()
    await connection.command()
    await anyio.sleep_forever()


@pytest.mark.parametrize("coalesce", [False, True])
async def test_each_publish_is_wrapped_by_itself(coalesce: bool) -> None:
    notes, bodies = Notes(), list[bytes]()
    async with (
        fake_nsqd(storing(bodies)) as nsqd,
        nsq.produce(
            nsqd.address,
            middleware=[notes.middleware("a"), notes.middleware("b", cleanup=0.001)],
            options=nsq.ProducerOptions(coalesce=coalesce),
        ) as producer,
    ):
        await producer.publish("t", "äb")
        assert notes == ["+a", "+b", "-b stored", "b is clean", "-a stored"]
        await producer.publish_many("u", [b"12", b"345"])
        async with anyio.create_task_group() as tasks:
            for body in (b"6", b"7"):
                tasks.start_soon(producer.publish, "v", body)
    assert {each.nsqd for each in notes.subjects if each.topic == "u"} == {nsqd.address}
    assert {each.nsqd for each in notes.subjects if each.topic != "u"} == {None if coalesce else nsqd.address}
    told = [(each.topic, each.messages, each.size, each.error) for each in notes.subjects[::2]]
    assert told[:2] == [("t", 1, 3, None), ("u", 2, 5, None)]
    assert told[2:] == [("v", 1, 1, None)] * 2
    assert bodies[0] == "äb".encode()


@pytest.mark.parametrize("coalesce", [False, True])
async def test_headers_that_a_middleware_adds_are_sent(coalesce: bool) -> None:
    bodies: list[bytes] = []

    @asynccontextmanager
    async def adding(publishing: nsq.Publishing) -> AsyncGenerator[None]:
        if publishing.topic == "t":
            publishing.headers["trace"] = "1"
        yield

    given = {"own": "2"}
    options = nsq.ProducerOptions(coalesce=coalesce)
    async with (
        fake_nsqd(storing(bodies)) as nsqd,
        nsq.produce(nsqd.address, middleware=[adding], options=options) as producer,
    ):
        await producer.publish("t", b"body", headers=given)
        await producer.publish("u", b"raw")
        await producer.publish("u", b"raw", headers={})
        await producer.publish_many("t", [b"many"])
    assert given == {"own": "2"}
    assert dict(decode(bodies[0]).headers) == {"own": "2", "trace": "1"}
    assert decode(bodies[0]).payload == b"body"
    assert bodies[1:3] == [b"raw", b"raw"]
    assert b"many" in bodies[3]
    assert b"trace" in bodies[3]


@pytest.mark.parametrize("coalesce", [False, True])
@pytest.mark.parametrize(
    ("script", "outcome", "error"),
    [
        (refusing, "rejected", nsq.PublishRejected),
        (hanging_up, "unknown", nsq.OutcomeUnknown),
        (silent, "unknown", nsq.OutcomeUnknown),
    ],
)
async def test_outcomes(script: Script, outcome: str, error: Any, coalesce: bool) -> None:
    notes = Notes()
    options = nsq.ProducerOptions(coalesce=coalesce, **QUICK)
    async with (
        fake_nsqd(script) as nsqd,
        nsq.produce(
            nsqd.address, middleware=[notes.middleware("a"), notes.middleware("b")], options=options
        ) as producer,
    ):
        await producer.ready()  # which can take longer than QUICK's timeouts on a busy machine
        with pytest.raises(error):
            await producer.publish("t", b"x")
    assert notes == ["+a", "+b", f"-b {outcome}", f"-a {outcome}"]
    assert isinstance(notes.subjects[0].error, error)


async def test_what_cannot_be_sent() -> None:
    notes = Notes()
    async with fake_nsqd() as nsqd:  # which does not answer to IDENTIFY
        async with nsq.produce(
            nsqd.address, middleware=[notes.middleware("a")], options=nsq.ProducerOptions(**QUICK)
        ) as producer:
            with pytest.raises(nsq.NotSent):
                await producer.publish("t", b"x")
        with pytest.raises(nsq.Closed):
            await producer.publish("t", b"x")
        for topic, body in (("!", b"x"), ("t", b"")):
            with pytest.raises(nsq.InvalidOption):
                await producer.publish(topic, body)
        with pytest.raises(nsq.InvalidOption):
            await producer.publish("t", b"x", headers={"": "x"})
        with pytest.raises(nsq.InvalidOption):
            await producer.publish_many("t", [])
    assert notes == ["+a", "-a not_sent", "+a", "-a not_sent"]


@pytest.mark.parametrize("coalesce", [False, True])
async def test_a_cancelled_publish_is_cleaned_up_in_bounded_time(coalesce: bool) -> None:
    notes = Notes()
    options = nsq.ProducerOptions(coalesce=coalesce, cancelled_drain_timeout=0.1, drain_timeout=0.1)
    middleware = [
        notes.middleware("a", cleanup=LIMIT * 10),
        notes.middleware("b", cleanup=0.001),
    ]
    async with fake_nsqd(silent) as nsqd:
        with anyio.fail_after(LIMIT):
            async with nsq.produce(nsqd.address, middleware=middleware, options=options) as producer:
                with anyio.move_on_after(0.05) as scope:
                    await producer.publish("t", b"x")
        assert scope.cancelled_caught
    assert notes == ["+a", "+b", "-b cancelled", "b is clean", "-a cancelled"]


async def test_failing_middleware() -> None:
    bodies: list[bytes] = []
    notes = Notes()
    fails: dict[str, Any] = {}

    def failing(publishing: nsq.Publishing) -> Any:
        return notes.middleware("b", **fails)(publishing)

    async with (
        fake_nsqd(storing(bodies)) as nsqd,
        nsq.produce(nsqd.address, middleware=[notes.middleware("a"), failing]) as producer,
    ):
        fails["enter"] = ValueError("enter")
        with pytest.raises(ValueError, match="enter"):
            await producer.publish("t", b"not published")
        assert notes == ["+a", "+b", "-a not_sent"]
        notes.clear()
        del fails["enter"]
        fails["leave"] = ValueError("leave")
        with pytest.raises(ValueError, match="leave"):
            await producer.publish("t", b"published")
        assert notes == ["+a", "+b", "-b stored", "-a stored"]
        assert repr(notes.subjects[-1].error) == "ValueError('leave')"
    assert bodies == [b"published"]


async def test_a_middleware_may_suppress_a_failure() -> None:
    notes = Notes()
    options = nsq.ProducerOptions(**QUICK)
    async with (
        fake_nsqd(hanging_up) as nsqd,
        nsq.produce(
            nsqd.address,
            middleware=[notes.middleware("a"), notes.middleware("b", suppress=True)],
            options=options,
        ) as producer,
    ):
        await producer.ready()
        await producer.publish("t", b"x")
    assert notes == ["+a", "+b", "-b unknown", "-a unknown"]
    assert notes.subjects[0].error is None


variable: ContextVar[str] = ContextVar("variable", default="unset")


async def test_the_caller_keeps_its_context() -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def setting(_: nsq.Publishing) -> AsyncGenerator[None]:
        seen.append(variable.get())
        variable.set("inside")
        yield

    variable.set("caller's")
    async with fake_nsqd(storing([])) as nsqd, nsq.produce(nsqd.address, middleware=[setting]) as producer:
        for _ in range(2):
            await producer.publish("t", b"x")
    assert seen == ["caller's"] * 2
    assert variable.get() == "caller's"


async def test_a_producer_without_middleware_has_the_plain_methods() -> None:
    async with fake_nsqd(storing([])) as nsqd, nsq.produce(nsqd.address) as producer:
        assert type(producer) is nsq.Producer
        await until(lambda: producer.connections)
