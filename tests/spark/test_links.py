"""Several connections of one task: what each lets in and answers, and what becomes of them if one is lost."""

from __future__ import annotations

import anyio
import pytest

from nsq_anyio.errors import PermanentRefusal
from nsq_anyio.spark.bounded_reader import bounded_reader

from ..fake_nsqd import FakeConnection, FakeNsqd, Script, fake_nsqd, message_id, until
from .nsqds import running_nsqd
from .reading import drained, options_for, options_of
from .rows import bodies

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def allowing(rdy: int) -> Script:
    """The script of an nsqd with this --max-rdy-count."""

    async def script(peer: FakeConnection) -> None:
        await peer.subscribe({"max_rdy_count": rdy})
        await peer.follow()

    return script


async def refuse(peer: FakeConnection) -> None:
    await peer.close()


async def peers_of(nsqd: FakeNsqd, count: int) -> list[FakeConnection]:
    return [await nsqd.subscribed(number) for number in range(count)]


def fins(peer: FakeConnection) -> int:
    return sum(line.startswith(b"FIN") for line in peer.lines)


def requeues(peer: FakeConnection) -> int:
    return sum(line.startswith(b"REQ") for line in peer.lines)


async def test_connections_share_the_rows_and_the_messages_in_flight() -> None:
    async with fake_nsqd(allowing(4)) as nsqd:
        async with bounded_reader(options_for(nsqd, maxInFlight=10), nsqd.address, 22) as reader:
            peers = await peers_of(nsqd, 3)
            await until(lambda: [peer.rdy for peer in peers] == [4, 3, 3])
            for number, peer in enumerate(peers):
                await peer.offer(*(b"%d-%d" % (number, each) for each in range(10)))
            found = await drained(reader)
        await until(lambda: all(peer.ended.is_set() for peer in peers))
    assert len(nsqd.connections) == 3
    expected = [b"%d-%d" % (number, each) for number, rows in enumerate([8, 7, 7]) for each in range(rows)]
    assert sorted(found) == sorted(expected)
    assert [fins(peer) for peer in peers] == [8, 7, 7], "each is answered on its own connection"
    assert [requeues(peer) for peer in peers] == [0, 0, 0], "nothing came in excess"
    assert not any(peer.in_flight for peer in peers)


async def test_a_chunk_has_messages_of_all_connections() -> None:
    async with fake_nsqd(allowing(4)) as nsqd:
        async with bounded_reader(options_for(nsqd, maxInFlight=8), nsqd.address, 100) as reader:
            peers = await peers_of(nsqd, 2)
            await peers[0].offer(b"old", b"old")
            await anyio.sleep(0.05)
            await peers[1].offer(b"young", b"young", b"young")
            chunk = await reader.take()
            assert bodies([chunk.record_batch()]) == [b"old", b"old", b"young", b"young"]
            assert reader.holds(chunk)
            reader.finish(chunk)
            await until(lambda: [len(peer.in_flight) for peer in peers] == [0, 1])


async def test_what_waits_is_touched_while_messages_of_another_connection_are_stored() -> None:
    async def script(peer: FakeConnection) -> None:
        await peer.subscribe({"max_rdy_count": 4, "msg_timeout": 1_000, "max_msg_timeout": 60_000})
        await peer.follow()

    async with fake_nsqd(script) as nsqd:
        async with bounded_reader(options_for(nsqd, maxInFlight=8), nsqd.address, 100) as reader:
            peers = await peers_of(nsqd, 2)
            await peers[0].offer(*[b"stored"] * 4)
            chunk = await reader.take()
            await peers[1].offer(b"waits")
            await peers[1].saw(b"TOUCH " + message_id(1))
            assert reader.holds(chunk)


@pytest.mark.parametrize(
    ("rdy", "in_flight", "rows", "max_bytes", "expected"),
    [
        pytest.param(1, 10, 100, None, [1, 1, 1, 1], id="no more than four"),
        pytest.param(10, 10, 100, None, [10], id="one is enough"),
        pytest.param(4, 10, 4, None, [4], id="few rows"),
        pytest.param(4, 10, 100, 1_000, [1], id="bytes are bounded"),
    ],
)
async def test_as_many_connections_as_are_needed(
    rdy: int, in_flight: int, rows: int, max_bytes: int | None, expected: list[int]
) -> None:
    async with fake_nsqd(allowing(rdy)) as nsqd:
        options = options_for(nsqd, maxInFlight=in_flight)
        async with bounded_reader(options, nsqd.address, rows, max_bytes=max_bytes):
            await until(lambda: [peer.rdy for peer in nsqd.connections] == expected)


async def test_one_that_is_lost_comes_back_with_its_share() -> None:
    async def lost(peer: FakeConnection) -> None:
        await peer.subscribe({"max_rdy_count": 4})
        await peer.expect(b"RDY 4")
        await peer.messages(b"again", b"again")
        await anyio.sleep(0.05)
        await peer.close()

    async with fake_nsqd(allowing(4), lost, allowing(4)) as nsqd:
        async with bounded_reader(options_for(nsqd, maxInFlight=8, maxWait=10), nsqd.address, 10) as reader:
            first, _, third = await peers_of(nsqd, 3)
            await first.offer(*[b"first"] * 10)
            await third.offer(*[b"again"] * 10)
            assert sorted(await drained(reader)) == [b"again"] * 5 + [b"first"] * 5
        assert not first.in_flight
        assert not third.in_flight


async def test_the_others_go_on_without_one_that_cannot_connect() -> None:
    """The plan is an upper bound: what waits in nsqd is for the next batch."""
    async with fake_nsqd(allowing(4), refuse) as nsqd:
        async with bounded_reader(options_for(nsqd, maxInFlight=8, maxWait=0.3), nsqd.address, 10) as reader:
            await (await nsqd.subscribed()).offer(*[b"first"] * 10)
            assert await drained(reader) == [b"first"] * 5


async def test_what_nsqd_delivers_beyond_a_share_is_taken_as_well() -> None:
    """As when messages time out while they are stored; it must not keep the reader busy with nothing."""
    async with fake_nsqd(allowing(4)) as nsqd:
        async with bounded_reader(options_for(nsqd, maxInFlight=8, maxWait=0.3), nsqd.address, 10) as reader:
            first, _ = await peers_of(nsqd, 2)
            await until(lambda: first.rdy == 4)
            await first.messages(*[b"first"] * 9)
            with anyio.fail_after(5):
                assert await drained(reader) == [b"first"] * 9
            assert not first.in_flight


async def test_a_refusal_of_one_ends_the_block() -> None:
    async def forbid(peer: FakeConnection) -> None:
        await peer.identify({"max_rdy_count": 4})
        await peer.command()
        await peer.error(b"E_BAD_CHANNEL SUB channel name is not valid")

    async with fake_nsqd(allowing(4), forbid) as nsqd:
        with pytest.raises(PermanentRefusal, match="E_BAD_CHANNEL"), anyio.fail_after(20):
            async with bounded_reader(options_for(nsqd, maxInFlight=8), nsqd.address, 10):
                await anyio.sleep_forever()
        await until(nsqd.connections[0].ended.is_set)


async def test_all_hand_back_what_they_hold_when_the_block_is_cancelled() -> None:
    async with fake_nsqd(allowing(4)) as nsqd:
        with anyio.CancelScope() as scope:
            async with bounded_reader(options_for(nsqd, maxInFlight=8), nsqd.address, 100) as reader:
                for peer in await peers_of(nsqd, 2):
                    await peer.offer(*[b"x"] * 4)
                assert len(await reader.take()) == 4
                scope.cancel()
                await anyio.sleep_forever()
        assert scope.cancelled_caught
        await until(lambda: all(peer.ended.is_set() for peer in nsqd.connections))
    assert len(nsqd.connections) == 2
    for peer in nsqd.connections:
        end = peer.lines[peer.lines.index(b"CLS") + 1 :]
        assert sorted(end) == sorted(b"REQ %b 0" % message_id(number) for number in range(1, 5))


async def test_one_that_subscribes_only_when_the_block_is_over_lets_nothing_in() -> None:
    """Nobody would hand back the messages, so they would be in flight until they time out."""
    closing, looked = anyio.Event(), anyio.Event()
    silent: list[bool] = []

    async def first(peer: FakeConnection) -> None:
        await peer.subscribe({"max_rdy_count": 4})
        await peer.expect(b"RDY 4", b"CLS")
        closing.set()
        await looked.wait()
        await peer.response(b"CLOSE_WAIT")
        await peer.follow()

    async def late(peer: FakeConnection) -> None:
        await peer.identify({"max_rdy_count": 4})
        await peer.expect(b"SUB t c")
        await closing.wait()
        await peer.response()
        silent.append(await peer.quiet(0.2))
        looked.set()
        await peer.eof()

    async with fake_nsqd(first, late) as nsqd:
        async with bounded_reader(options_for(nsqd, maxInFlight=8), nsqd.address, 100):
            await nsqd.connection(1)
    assert silent == [True]


async def test_one_that_does_not_answer_cls_delays_the_end_of_none(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(peer: FakeConnection) -> None:
        await peer.subscribe({"max_rdy_count": 4})
        await peer.follow(answer_cls=False)

    monkeypatch.setattr("nsq_anyio.spark.links.CLOSE_TIMEOUT", 1.0)
    async with fake_nsqd(allowing(4), silent) as nsqd:
        started_at = anyio.current_time()
        async with bounded_reader(options_for(nsqd, maxInFlight=8), nsqd.address, 100):
            peers = await peers_of(nsqd, 2)
        assert 1.0 <= anyio.current_time() - started_at < 10
        assert [peer.lines.count(b"CLS") for peer in peers] == [1, 1]
    assert "did not confirm the last answers: rows may come twice" in caplog.text


async def test_nsqd_with_a_small_max_rdy_count_gives_each_message_once() -> None:
    with running_nsqd("real", ["--max-rdy-count=20"]) as nsqd:
        topic = nsqd.topic("shared")
        topic.publish_numbers(2_000)
        options = options_of(topic, maxInFlight=100)
        found: list[bytes] = []
        async with bounded_reader(options, nsqd.tcp_address, 1_500) as reader:
            while chunk := await reader.take():
                state = await anyio.to_thread.run_sync(topic.state)
                assert state.in_flight <= 80
                assert state.clients <= 4
                found += bodies([chunk.record_batch()])
                reader.finish(chunk)
        assert len(found) == len(set(found)) == 1_500
        state = topic.state()
        assert (state.depth, state.in_flight, state.requeued, state.clients) == (500, 0, 0, 0)
