"""A connection on which nsqd has gone silent, on Trio's virtual clock: an interval is a second or more."""

import anyio
import pytest
from trio.testing import MockClock

from nsq_anyio.connection import NoMessages, open_connection
from nsq_anyio.errors import HeartbeatTimeout
from nsq_anyio.options import ConnectionOptions

from ..fake_nsqd import FakeConnection, fake_nsqd, hold

pytestmark = pytest.mark.anyio

OPTIONS = ConnectionOptions(heartbeat_interval=10)


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, object]]:
    # The clock jumps when nothing has happened for so long in real time, which loopback needs far less of.
    return "trio", {"clock": MockClock(autojump_threshold=0.01)}


async def test_silence_of_two_intervals_ends_the_connection() -> None:
    async def silent(connection: FakeConnection) -> None:
        await connection.identify()
        await hold(connection)

    async with fake_nsqd(silent) as nsqd:
        began = anyio.current_time()
        with pytest.raises(
            HeartbeatTimeout, match=r"nothing received for 2.* with a heartbeat expected every"
        ):
            async with open_connection(nsqd.parsed, OPTIONS, NoMessages()):
                await anyio.sleep_forever()
        assert 20 <= anyio.current_time() - began <= 22
        await nsqd.connections[0].eof()


async def test_heartbeats_keep_an_idle_connection_for_as_long_as_they_come() -> None:
    async def beating(connection: FakeConnection) -> None:
        await connection.identify()
        for _ in range(20):
            await anyio.sleep(10)
            await connection.heartbeat()
            await connection.expect(b"NOP")
        await hold(connection)

    async with fake_nsqd(beating) as nsqd:
        began = anyio.current_time()
        with pytest.raises(HeartbeatTimeout):
            async with open_connection(nsqd.parsed, OPTIONS, NoMessages()):
                await anyio.sleep_forever()
        assert 220 <= anyio.current_time() - began <= 222


async def test_without_heartbeats_silence_is_no_reason() -> None:
    async def silent(connection: FakeConnection) -> None:
        await connection.identify()
        await hold(connection)

    async with (
        fake_nsqd(silent) as nsqd,
        open_connection(nsqd.parsed, ConnectionOptions(heartbeat_interval=-1), NoMessages()) as connection,
    ):
        await anyio.sleep(10_000)
        assert not connection.ended
