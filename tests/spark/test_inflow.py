"""One task's connections to its nsqd: what is let in, answered, bounded, and taken up after a loss."""

from __future__ import annotations

import logging
from contextlib import suppress

import anyio
import pytest

from nsq_anyio.errors import ConnectionFailed, ConnectionLost
from nsq_anyio.spark.bounded_reader import bounded_reader

from ..fake_nsqd import FakeConnection, fake_nsqd, message_id, until
from .reading import drained, options_for
from .rows import bodies

LOGGER = "nsq_anyio.spark"

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


async def test_it_lets_in_what_is_planned_and_lowers_rdy_before_it_finishes() -> None:
    async with fake_nsqd(FakeConnection.serve) as nsqd:
        async with bounded_reader(options_for(nsqd), nsqd.address, 12) as reader:
            peer = await nsqd.subscribed()
            await peer.offer(*(b"%d" % number for number in range(20)))
            assert await drained(reader) == [b"%d" % number for number in range(12)]
        await until(peer.ended.is_set)
    assert peer.lines[0] == b"RDY 10"
    answers = [line for line in peer.lines if line != b"NOP"]
    first = answers.index(b"FIN " + message_id(1))
    assert answers[first - 1] == b"RDY 7", "5 of the first 10 are answered, 2 more are let in"
    assert answers[-1] == b"CLS"
    assert [line for line in peer.lines if line.startswith(b"REQ")] == []
    assert len(peer.backlog) == 8


async def test_it_goes_on_with_a_new_connection() -> None:
    async def first(peer: FakeConnection) -> None:
        await peer.subscribe()
        await peer.expect(b"RDY 4")
        await peer.messages(b"a", b"b", b"c")
        await anyio.sleep(0.02)
        await peer.close()

    async with fake_nsqd(first, FakeConnection.serve) as nsqd:
        async with bounded_reader(options_for(nsqd, maxWait=10), nsqd.address, 4) as reader:
            peer = await nsqd.subscribed(1)
            await peer.offer(b"a", b"b", b"c", b"d")
            assert await drained(reader) == [b"a", b"b", b"c", b"d"]
        assert not peer.in_flight
        assert peer.lines.count(b"CLS") == 1


async def test_a_chunk_of_a_lost_connection_is_not_answered_on_the_next_one() -> None:
    async def first(peer: FakeConnection) -> None:
        await peer.subscribe()
        await peer.messages(b"a", b"b")
        await anyio.sleep_forever()

    async with fake_nsqd(first, FakeConnection.serve) as nsqd:
        async with bounded_reader(options_for(nsqd), nsqd.address, 10) as reader:
            chunk = await reader.take()
            assert reader.holds(chunk)
            await nsqd.connections[0].close()
            peer = await nsqd.subscribed(1)
            assert not reader.holds(chunk)
            reader.finish(chunk)
            await peer.offer(b"c")
            assert await drained(reader) == [b"c"]
        fins = [line for line in peer.lines if line.startswith(b"FIN")]
        assert fins == [b"FIN " + message_id(1)]


async def test_a_connection_that_does_not_come_back_is_an_error() -> None:
    async def once(peer: FakeConnection) -> None:
        await peer.subscribe()

    async def refuse(peer: FakeConnection) -> None:
        await peer.close()

    async with fake_nsqd(once, refuse) as nsqd:
        with pytest.raises(ConnectionFailed, match=r"not restored within maxWait=0\.3 s"):
            async with bounded_reader(options_for(nsqd, maxWait=0.3), nsqd.address, 4) as reader:
                await reader.take()


async def test_an_nsqd_that_pushes_what_nobody_asked_for_is_given_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def flood(peer: FakeConnection) -> None:
        await peer.subscribe()
        with suppress(anyio.BrokenResourceError):
            for number in range(10_000):
                await peer.message(id=message_id(number))

    async with fake_nsqd(flood) as nsqd:
        with caplog.at_level(logging.WARNING, LOGGER), suppress(ConnectionLost, ConnectionFailed):
            async with bounded_reader(options_for(nsqd), nsqd.address, 5_000) as reader:
                first = await reader.take()
                assert first
                await until(lambda: not reader.holds(first))
                reader.finish(first)
    assert "pushed messages beyond RDY" in caplog.text


async def test_refused_answers_are_counted() -> None:
    async def script(peer: FakeConnection) -> None:
        await peer.subscribe()
        await peer.expect(b"RDY 2")
        await peer.messages(b"a", b"b")
        await peer.expect(b"RDY 1", b"FIN " + message_id(1))
        await peer.error(b"E_FIN_FAILED FIN %b failed ID not in flight" % message_id(1))
        await peer.follow()

    async with fake_nsqd(script) as nsqd:
        async with bounded_reader(options_for(nsqd), nsqd.address, 2) as reader:
            assert await drained(reader) == [b"a", b"b"]
            await until(lambda: reader.refused == 1)


async def test_large_messages_are_let_in_one_by_one() -> None:
    """A bound of bytes holds although nobody knows the sizes in advance, and the first message is small."""
    large = 100_000
    sizes = [100, *[large] * 30]
    async with fake_nsqd(FakeConnection.serve) as nsqd:
        options = options_for(nsqd, maxInFlight=1000)
        async with bounded_reader(options, nsqd.address, 1000, max_bytes=10 * large) as reader:
            peer = await nsqd.subscribed()
            await peer.offer(*(b"x" * size for size in sizes))
            found = await drained(reader)
        sent = sum(sizes) - sum(map(len, peer.backlog))
    assert 10 * large <= sum(map(len, found)) <= 11 * large
    assert sent <= 1.2 * sum(map(len, found))


async def test_messages_fill_the_memory_no_more_than_is_allowed() -> None:
    """While nobody takes them, large messages wait in nsqd, whatever maxInFlight is."""
    body = b"x" * 4 * 2**20
    async with fake_nsqd(FakeConnection.serve) as nsqd:
        async with bounded_reader(options_for(nsqd, maxInFlight=1000), nsqd.address, 1000) as reader:
            peer = await nsqd.subscribed()
            await peer.offer(*[body] * 3)
            assert sum(map(len, bodies([(await reader.take()).record_batch()]))) == 3 * len(body)
            await until(lambda: peer.rdy == 16)
            await peer.offer(*[body] * 20)
            taken = 3
            while taken < 16:
                chunk = await reader.take()
                assert 0 < len(chunk) <= 4
                taken += len(chunk)
            await until(lambda: peer.rdy == 16)
            assert len(peer.backlog) == 3 + 20 - 16


async def test_what_waited_for_too_long_is_not_taken() -> None:
    """nsqd delivers it again, so it would be stored twice."""

    async def script(peer: FakeConnection) -> None:
        await peer.subscribe({"msg_timeout": 300, "max_msg_timeout": 300})
        await peer.expect(b"RDY 10")
        await peer.messages(*[b"early"] * 8)
        await peer.follow()

    async with fake_nsqd(script) as nsqd:
        async with bounded_reader(options_for(nsqd, maxWait=2), nsqd.address, 16) as reader:
            first = await reader.take()
            assert len(first) == 5
            peer = await nsqd.connection()
            await anyio.sleep(0.4)
            await peer.messages(b"late")
            second = await reader.take()
            assert bodies([second.record_batch()]) == [b"late"]


async def test_a_block_that_ends_early_hands_back_what_it_holds() -> None:
    async with fake_nsqd(FakeConnection.serve) as nsqd:
        async with bounded_reader(options_for(nsqd), nsqd.address, 10) as reader:
            peer = await nsqd.subscribed()
            await peer.offer(*[b"x"] * 10)
            first = await reader.take()
            second = await reader.take()
            reader.finish(second)
            assert len(first) + len(second) == 10
        await until(peer.ended.is_set)
    end = peer.lines[peer.lines.index(b"CLS") + 1 :]
    assert sorted(end) == sorted(b"REQ %b 0" % message_id(number) for number in range(1, 6))
    assert not peer.in_flight
