"""Copies: how many nsqds have stored a message when its publish returns, and what it says when fewer have."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.embedded import EmbeddedNsqd
from nsq_anyio.envelope import decode, encode

from ..fake_nsqd import FakeConnection, client_tasks, fake_nsqd, identified, until
from .test_pool import store

pytestmark = pytest.mark.anyio

QUICK = nsq.ProducerOptions(
    reconnect_delay=0.01, max_reconnect_delay=0.02, publish_timeout=0.5, drain_timeout=0.1
)


@asynccontextmanager
async def nsqds(count: int) -> AsyncGenerator[list[EmbeddedNsqd]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(nsq.embedded.nsqd()) for _ in range(count)]


def stored(server: EmbeddedNsqd) -> int:
    return sum(topic.message_count for topic in server.topics.values())


async def bodies(server: EmbeddedNsqd, count: int) -> list[bytes]:
    """Take some messages of the topic t."""
    taken: list[bytes] = []
    async with nsq.consume("t", "c", nsqd=server.tcp_address) as consumer:
        async for message in consumer:
            message.finish()
            taken.append(message.body)
            if len(taken) == count:
                break
    return taken


def addresses(*servers: EmbeddedNsqd) -> list[str]:
    return [server.tcp_address for server in servers]


async def test_a_message_is_stored_by_different_nsqds_with_one_id() -> None:
    async with nsqds(3) as servers, nsq.produce(addresses(*servers), copies=3) as producer:
        await producer.publish("t", b"body", headers={"A": "b"})
        assert producer.statistics().published == 3
        found = {(await bodies(server, 1))[0] for server in servers}
    (body,) = found
    headers, payload = decode(body).headers, decode(body).payload
    assert payload == b"body"
    assert headers["a"] == "b"
    assert len(headers["nsq-id"]) == 32


async def test_messages_of_one_publish_have_ids_of_their_own() -> None:
    async with nsqds(2) as servers, nsq.produce(addresses(*servers), copies=2) as producer:
        await producer.publish_many("t", [b"%d" % number for number in range(5)], headers={"a": "b"})
        await producer.publish("t", b"5")
        one, two = [sorted(await bodies(server, 6)) for server in servers]
    assert one == two
    assert len({decode(body).headers["nsq-id"] for body in one}) == 6
    assert sorted(decode(body).payload for body in one) == [b"%d" % number for number in range(6)]


async def test_an_envelope_and_an_id_of_the_user_are_kept() -> None:
    enveloped = encode(b"", {"a": "b", "nsq-id": "mine"})
    damaged = enveloped[:7]
    async with nsqds(2) as servers, nsq.produce(addresses(*servers), copies=2) as producer:
        await producer.publish("t", enveloped)
        await producer.publish("t", encode(b"x", {"a": "b"}))
        await producer.publish("t", b"y", headers={"NSQ-ID": "yours"})
        await producer.publish("t", damaged)
        mine, own, yours, opaque = [decode(body) for body in await bodies(servers[0], 4)]
    assert (dict(mine.headers), mine.payload) == ({"a": "b", "nsq-id": "mine"}, b"")
    assert (own.headers["a"], own.payload, len(own.headers["nsq-id"])) == ("b", b"x", 32)
    assert (dict(yours.headers), yours.payload) == ({"nsq-id": "yours"}, b"y")
    assert opaque.payload == damaged


async def test_a_deferred_message_has_copies() -> None:
    async with nsqds(2) as servers, nsq.produce(addresses(*servers), copies=2) as producer:
        await producer.publish("t", b"body", defer=0.01)
        assert [len(await bodies(server, 1)) for server in servers] == [1, 1]


async def test_middleware_sees_one_publish() -> None:
    seen: list[nsq.Publishing] = []

    @asynccontextmanager
    async def middleware(publishing: nsq.Publishing) -> AsyncGenerator[None]:
        seen.append(publishing)
        publishing.headers["from"] = "middleware"
        yield

    async with nsqds(2) as servers:
        one, two = addresses(*servers)
        async with nsq.produce([one, two], copies=2, middleware=[middleware]) as producer:
            await producer.publish("t", b"body")
            (body,) = await bodies(servers[1], 1)
        async with fake_nsqd(identified()) as silent:
            block = nsq.produce([one, silent.address], copies=2, middleware=[middleware], options=QUICK)
            async with block as producer:
                with pytest.raises(nsq.FewerCopies):
                    await producer.publish("t", b"body")
    assert decode(body).headers["from"] == "middleware"
    assert [publishing.outcome for publishing in seen] == ["stored", "stored"]
    assert seen[0].nsqd in {one, two}
    assert isinstance(seen[1].error, nsq.FewerCopies)


async def test_fewer_copies_are_an_error_that_names_who_has_them() -> None:
    async with nsqds(1) as (server,), fake_nsqd(identified()) as silent:
        async with nsq.produce([server.tcp_address, silent.address], copies=2, options=QUICK) as producer:
            with anyio.fail_after(5), pytest.raises(nsq.FewerCopies) as raised:
                await producer.publish("t", b"body", headers={"nsq-id": "x"})
            error = raised.value
            assert (error.stored_by, error.wanted, error.id) == ((server.tcp_address,), 2, "x")
            assert isinstance(error.__cause__, nsq.OutcomeUnknown)
            assert str(error) == (
                f"stored by {server.tcp_address}, not by 2 nsqds (nsq-id x): no answer within "
                "publish_timeout=0.5 s"
            )
            assert pickle.loads(pickle.dumps(error)).stored_by == error.stored_by
            with pytest.raises(nsq.FewerCopies, match="not by 2 nsqds: no answer") as many:
                await producer.publish_many("t", [b"a", b"b"])
            assert many.value.id is None
        assert stored(server) == 3


async def test_an_nsqd_that_is_away_keeps_no_message_from_the_other() -> None:
    """Copies that wait for the missing nsqd do not hold up the first copies of other messages."""
    async with nsqds(1) as (gone,):
        (away,) = addresses(gone)
    async with nsqds(1) as (server,):
        one = server.tcp_address
        errors: list[nsq.FewerCopies] = []

        async def publish() -> None:
            with pytest.raises(nsq.FewerCopies) as raised:
                await producer.publish("t", b"body")
            errors.append(raised.value)

        async with nsq.produce([one, away], copies=2, options=QUICK) as producer:
            async with anyio.create_task_group() as tasks:
                for _ in range(20):
                    tasks.start_soon(publish)
                await until(lambda: stored(server) == 20)
                assert errors == []
    assert {error.stored_by for error in errors} == {(one,)}
    assert {type(error.__cause__) for error in errors} == {nsq.NotSent}


async def test_without_any_nsqd_nothing_is_stored() -> None:
    options = nsq.ProducerOptions(connect_timeout=0.2, reconnect_delay=0.01)
    async with nsq.produce(["127.0.0.1:1", "127.0.0.1:2"], copies=2, options=options) as producer:
        with pytest.raises(nsq.NotSent, match=r"no connection within connect_timeout=0\.2 s"):
            await producer.publish("t", b"body")


async def test_a_refusal_of_all_is_a_refusal() -> None:
    async def refuse(connection: FakeConnection) -> None:
        await connection.identify()
        while True:
            await connection.command()
            await connection.error(b"E_PUB_FAILED PUB failed disk full")

    async with fake_nsqd(refuse) as one, fake_nsqd(refuse) as two, fake_nsqd(store) as good:
        async with nsq.produce([one.address, two.address], copies=2, options=QUICK) as producer:
            await until(lambda: len(producer.connections) == 2)
            with pytest.raises(nsq.PublishRejected, match="disk full"):
                await producer.publish("t", b"body")
        async with nsq.produce([one.address, good.address], copies=2, options=QUICK) as producer:
            await until(lambda: len(producer.connections) == 2)
            with anyio.fail_after(0.4), pytest.raises(nsq.FewerCopies, match="disk full"):
                await producer.publish("t", b"body")


async def test_a_lost_answer_sends_the_copy_to_another_nsqd() -> None:
    async def vanish(connection: FakeConnection) -> None:
        await connection.identify()
        await connection.command()
        await connection.close()

    async with fake_nsqd(vanish, identified()) as bad, fake_nsqd(store) as one, fake_nsqd(store) as two:
        everywhere = [bad.address, one.address, two.address]
        async with nsq.produce(everywhere, copies=2, options=QUICK) as producer:
            await until(lambda: len(producer.connections) == 3)
            for _ in range(3):
                await producer.publish("t", b"body")
            assert producer.statistics().resent == 1
        got = [len(fake.connections[0].lines) for fake in (one, two)]
    assert got == [3, 3]


async def test_a_cancelled_publish_sends_no_more_copies() -> None:
    async with fake_nsqd(identified()) as silent, fake_nsqd(store) as good:
        async with nsq.produce([silent.address, good.address], copies=2, options=QUICK) as producer:
            await until(lambda: len(producer.connections) == 2)
            with anyio.move_on_after(0.05) as scope:
                await producer.publish("t", b"body")
            assert scope.cancelled_caught
            assert producer.statistics().published == 1
            await until(lambda: len(good.connections[0].lines) == 1)
    assert client_tasks() == []


async def test_the_end_of_the_block_ends_the_wait_for_copies() -> None:
    outcomes: list[Exception] = []
    async with fake_nsqd(identified()) as silent, fake_nsqd(store) as good:
        options = nsq.ProducerOptions(publish_timeout=60, drain_timeout=0.1)
        async with anyio.create_task_group() as tasks:

            async def publish() -> None:
                try:
                    await producer.publish("t", b"body")
                except nsq.PublishError as error:
                    outcomes.append(error)

            with anyio.fail_after(5):
                async with nsq.produce([silent.address, good.address], copies=2, options=options) as producer:
                    await until(lambda: len(producer.connections) == 2)
                    tasks.start_soon(publish)
                    await until(lambda: producer.statistics().published == 1)
    assert [type(error) for error in outcomes] == [nsq.FewerCopies]


async def test_a_discovered_nsqd_gets_copies() -> None:
    async with nsq.embedded.nsqlookupd() as lookupd, AsyncExitStack() as stack:
        servers = [
            await stack.enter_async_context(nsq.embedded.nsqd(lookupd_tcp_addresses=[lookupd.tcp_address]))
            for _ in range(2)
        ]
        async with nsq.produce(nsqlookupd=lookupd.http_url, copies=2) as producer:
            with anyio.fail_after(10):
                await producer.publish("t", b"body")
        assert [stored(server) for server in servers] == [1, 1]


async def test_an_id_for_several_messages_is_refused() -> None:
    async with nsqds(2) as servers, nsq.produce(addresses(*servers), copies=2) as producer:
        with pytest.raises(nsq.InvalidOption, match="the header nsq-id is not valid for 2 messages"):
            await producer.publish_many("t", [b"a", b"b"], headers={"Nsq-Id": "x"})
        with pytest.raises(nsq.InvalidOption, match="header nsq-id='' is not valid"):
            await producer.publish("t", b"a", headers={"nsq-id": ""})
        with pytest.raises(nsq.InvalidOption, match="headers=1 is not valid"):
            await producer.publish("t", b"a", headers=1)  # type: ignore[arg-type]
        with pytest.raises(nsq.InvalidOption, match="header name 1 is not valid"):
            await producer.publish("t", b"a", headers={1: "x"})  # type: ignore[dict-item]
        with pytest.raises(nsq.InvalidBody, match="an empty body is not valid"):
            await producer.publish("t", b"")
        assert sum(map(stored, servers)) == 0


def block(**options: object) -> AbstractAsyncContextManager[nsq.Producer]:
    return nsq.produce(["127.0.0.1:4150", "127.0.0.1:4151"], **options)  # type: ignore[arg-type]


def test_options_that_cannot_be_met_are_refused() -> None:
    with pytest.raises(nsq.InvalidOption, match="copies=0 is not valid: use 1 or more"):
        block(copies=0)
    with pytest.raises(nsq.InvalidOption, match="copies=3 is not valid with 2 nsqds: name at least as many"):
        block(copies=3)
    with pytest.raises(nsq.InvalidOption, match="coalesce=True is not valid with copies"):
        block(copies=2, options=nsq.ProducerOptions(coalesce=True))


def test_a_second_cancellation_ends_a_publish_at_once() -> None:
    async def main() -> None:
        async with fake_nsqd(identified()) as one, fake_nsqd(identified()) as two:
            options = nsq.ProducerOptions(publish_timeout=60, cancelled_drain_timeout=60)

            async def run() -> None:
                async with nsq.produce([one.address, two.address], copies=2, options=options) as producer:
                    await until(lambda: len(producer.connections) == 2)
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(producer.publish, "t", b"body")
                        await until(lambda: producer.statistics().outstanding == 2)
                        begun.set()

            begun = anyio.Event()
            ending = asyncio.create_task(run())
            await begun.wait()
            for _ in range(2):
                ending.cancel()
                await asyncio.sleep(0.02)
            with anyio.fail_after(5), pytest.raises(asyncio.CancelledError):
                await ending
            assert client_tasks() == []

    asyncio.run(main())
