"""``nsq-anyio pub`` on real and embedded nsqds: beside to_nsq, and nsqds that go away in the middle."""

from __future__ import annotations

import re
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.abc import Process

from ..cli.processes import COMMAND
from ..processes import ending
from ..real_servers import program
from .cluster import Cluster, Kind, Server
from .observe import LIMIT, consume_now, until_told

pytestmark = pytest.mark.anyio

PUB = (*COMMAND, "pub")
COUNTED = re.compile(r"; (\d+) messages? (?:was|were) published before(?:, and (\d+) more may have been)?\n")


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    """Of the command; the tests themselves do nothing that depends on theirs."""
    found: str = request.param
    return f"--backend={found}"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def publishing(*arguments: str) -> AsyncGenerator[Process]:
    """Run ``pub``, which reads a pipe; it is killed at the end if it still runs."""
    process = await anyio.open_process([*PUB, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    async with ending(process):
        yield process


async def ended(process: Process) -> tuple[int, str]:
    """Its exit code, and what it said."""
    assert process.stderr is not None
    with anyio.fail_after(2 * LIMIT):
        log = b"".join([chunk async for chunk in process.stderr])
        return await process.wait(), log.decode()


async def stored(nsqd: Server) -> int:
    """The messages of topic t that wait in its channel c."""
    return (await nsqd.channel("t", "c")).depth


async def until_stored(nsqd: Server, count: int) -> None:
    async def are_there() -> bool:
        return await stored(nsqd) >= count

    await until_told(are_there)


async def test_the_same_as_to_nsq(cluster: Cluster, backend: str) -> None:
    """But for the end of the last line, of which to_nsq cuts a byte off."""
    nsqd = await cluster.nsqd("real", channels={"ours": ["c"], "theirs": ["c"]})
    lines = [b"message %d \x00\xff\x1b[0m\r" % number for number in range(2000)]
    data = b"\n".join([*lines[:1000], b"", *lines[1000:], b""])
    common = (f"--nsqd-tcp-address={nsqd.tcp_address}", "--delimiter=\n", "--rate=0")
    await anyio.run_process([*PUB, *common, "--topic=ours", backend], input=data)
    await anyio.run_process([str(program("to_nsq")), *common, "--topic=theirs"], input=data)
    ours = await consume_now("ours", "c", nsqd.tcp_address, 2000)
    assert ours == await consume_now("theirs", "c", nsqd.tcp_address, 2000) == sorted(lines)


@pytest.mark.parametrize("max_body_size", [10_000, 1000])
async def test_an_nsqd_that_takes_little_at_once(
    cluster: Cluster, nsqd_kind: Kind, max_body_size: int
) -> None:
    """Its --max-body-size bounds an MPUB, of which to_nsq knows nothing: it publishes one by one."""
    nsqd = await cluster.nsqd(
        nsqd_kind, channels={"ours": ["c"], "theirs": ["c"]}, max_msg_size=1000, max_body_size=max_body_size
    )
    lines = [b"%03d" % number + b"x" * 97 for number in range(300)]
    flags = (f"--nsqd-tcp-address={nsqd.tcp_address}",)
    data = b"\n".join([*lines, b""])
    await anyio.run_process([*PUB, *flags, "--topic=ours"], input=data)
    await anyio.run_process([str(program("to_nsq")), *flags, "--topic=theirs"], input=data)
    ours = await consume_now("ours", "c", nsqd.tcp_address, len(lines))
    assert ours == await consume_now("theirs", "c", nsqd.tcp_address, len(lines)) == lines


async def test_the_last_line_is_whole(cluster: Cluster, nsqd_kind: Kind, backend: str) -> None:
    nsqd = await cluster.nsqd(nsqd_kind, channels={"t": ["c"]})
    flags = (f"--nsqd-tcp-address={nsqd.tcp_address}", "--topic=t", backend)
    await anyio.run_process([*PUB, *flags, r"--delimiter=\0\xff"], input=b"first\0\xffsecond\n\0")
    assert await consume_now("t", "c", nsqd.tcp_address, 2) == [b"first", b"second\n\0"]


async def test_batches_of_any_size(cluster: Cluster, nsqd_kind: Kind, tmp_path: Path, backend: str) -> None:
    """From one message that is as large as nsqd takes it to thousands of small ones."""
    nsqd = await cluster.nsqd(nsqd_kind, channels={"t": ["c"]})
    bodies = [b"x" * 1024 * 1024, *(b"%d" % number for number in range(20_000)), b"y" * 1024 * 1024]
    source = tmp_path / "lines"
    source.write_bytes(b"\n".join(bodies))
    await anyio.run_process(
        [*PUB, f"--nsqd-tcp-address={nsqd.tcp_address}", "--topic=t", backend, str(source)]
    )
    assert await consume_now("t", "c", nsqd.tcp_address, len(bodies)) == sorted(bodies)


async def test_a_restart_between_messages_loses_nothing(
    cluster: Cluster, nsqd_kind: Kind, tmp_path: Path, backend: str
) -> None:
    before = await cluster.nsqd(nsqd_kind, channels={"t": ["c"]}, data_path=tmp_path)
    async with publishing(f"--nsqd-tcp-address={before.tcp_address}", "--topic=t", backend) as process:
        assert process.stdin is not None
        await process.stdin.send(b"before\n")
        await until_stored(before, 1)
        await before.stop()
        await process.stdin.send(b"meanwhile\n")
        after = await cluster.nsqd(nsqd_kind, channels={"t": ["c"]}, data_path=tmp_path, succeeding=before)
        await process.stdin.send(b"after\n")
        await process.stdin.aclose()
        code, log = await ended(process)
    assert code == 0, log
    # The real one and the stored one have kept the first on disk.
    expected = [b"after", b"meanwhile"] if nsqd_kind == "embedded" else [b"after", b"before", b"meanwhile"]
    assert await consume_now("t", "c", after.tcp_address, len(expected)) == expected


async def test_nsqd_goes_away_in_the_middle(
    cluster: Cluster, nsqd_kind: Kind, tmp_path: Path, backend: str
) -> None:
    """What it says was published is there; what may have been, may be there."""
    nsqd = await cluster.nsqd(nsqd_kind, channels={"t": ["c"]}, data_path=tmp_path)
    flags = (f"--nsqd-tcp-address={nsqd.tcp_address}", "--topic=t", "--producer-opt=connect_timeout,500ms")
    source = tmp_path / "lines"
    source.write_bytes(b"".join(b"%d\n" % number for number in range(1_000_000)))
    async with publishing(*flags, "--rate=20000", backend, str(source)) as process:
        await until_stored(nsqd, 1000)
        seen = await stored(nsqd)
        await nsqd.stop()
        code, log = await ended(process)
    assert code == 3
    assert "Traceback" not in log
    counted = COUNTED.search(log)
    assert counted is not None, log
    told, maybe = int(counted[1]), int(counted[2] or 0)
    assert seen <= told + maybe < 1_000_000
    if nsqd_kind != "embedded":
        successor = await cluster.nsqd(nsqd_kind, channels={"t": ["c"]}, data_path=tmp_path, succeeding=nsqd)
        found = await stored(successor)
        assert told <= found <= told + maybe
        bodies = await consume_now("t", "c", successor.tcp_address, found)
        assert bodies == sorted(b"%d" % number for number in range(found))


async def test_nsqd_is_killed_in_the_middle(cluster: Cluster, tmp_path: Path, backend: str) -> None:
    nsqd = await cluster.nsqd("real", channels={"t": ["c"]}, mem_queue_size=0, data_path=tmp_path)
    flags = (f"--nsqd-tcp-address={nsqd.tcp_address}", "--topic=t", "--producer-opt=connect_timeout,500ms")
    async with publishing(*flags, backend) as process:
        assert process.stdin is not None
        await process.stdin.send(b"a\nb\n")
        await until_stored(nsqd, 2)
        await nsqd.kill()
        await process.stdin.send(b"c\n")
        code, log = await ended(process)
    assert code == 3
    assert log.splitlines()[-1].endswith("; 2 messages were published before")


async def test_another_nsqd_takes_over(cluster: Cluster, nsqd_kind: Kind, backend: str) -> None:
    first, second = [await cluster.nsqd(nsqd_kind, channels={"t": ["c"]}) for _ in range(2)]
    addresses = [f"--nsqd-tcp-address={nsqd.tcp_address}" for nsqd in (first, second)]
    async with publishing(*addresses, "--topic=t", "--mode=round-robin", backend) as process:
        assert process.stdin is not None
        await process.stdin.send(b"before\n")

        async def is_there() -> bool:
            return await stored(first) + await stored(second) == 1

        await until_told(is_there)
        left = await stored(second)
        await first.stop()
        for number in range(10):
            await process.stdin.send(b"%d\n" % number)
        await process.stdin.aclose()
        code, log = await ended(process)
    assert code == 0, log
    assert await stored(second) == left + 10
