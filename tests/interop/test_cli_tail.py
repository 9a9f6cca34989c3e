"""``nsq-anyio tail`` on real and embedded nsqds: beside nsq_tail, several topics and nodes, and restarts."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.abc import Process

from ..cli.processes import COMMAND
from ..processes import ending
from ..real_servers import program
from .cluster import Cluster, Kind, Server
from .observe import LIMIT, until, until_told

pytestmark = pytest.mark.anyio

TAIL = (*COMMAND, "tail")


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    """Of the command; the tests themselves do nothing that depends on theirs."""
    found: str = request.param
    return f"--backend={found}"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


async def output(*command: str) -> bytes:
    """What a command prints that succeeds by itself."""
    with anyio.fail_after(LIMIT):
        done = await anyio.run_process(command, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@asynccontextmanager
async def printing(path: Path, *command: str) -> AsyncGenerator[Process]:
    """Run a command that prints to a file; it is killed at the end if it still runs."""
    with path.open("wb") as file:
        process = await anyio.open_process(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.PIPE
        )
    async with ending(process):
        yield process


async def end(process: Process) -> None:
    process.send_signal(signal.SIGTERM)
    with anyio.fail_after(LIMIT):
        assert await process.wait() == 0


async def depths(nsqds: Sequence[Server], topic: str, channel: str = "c") -> int:
    """What waits in the channel, or is on its way."""
    found = [await nsqd.channel(topic, channel) for nsqd in nsqds]
    return sum(each.depth + each.in_flight_count + each.deferred_count for each in found)


@pytest.mark.parametrize("more", [(), ("--print-topic",), ("--max-in-flight=7",)])
async def test_the_same_as_nsq_tail(cluster: Cluster, more: Sequence[str], backend: str) -> None:
    nsqd = await cluster.nsqd("real", channels={"t": ["ours", "theirs"]})
    await nsqd.publish("t", *(b"message %d \x00\xff\x1b[0m" % number for number in range(1000)), b"\n\n")
    common = ("--topic=t", f"--nsqd-tcp-address={nsqd.tcp_address}", "-n=1001", *more)
    ours = await output(*TAIL, *common, "--channel=ours", backend)
    theirs = await output(str(program("nsq_tail")), *common, "--channel=theirs")
    assert ours == theirs
    assert len(ours) > 1000
    # nsq_tail ends before its last answers are sent; nothing is left of ours.
    assert await depths([nsqd], "t", "ours") == 0


async def test_a_count_over_topics_and_nodes(
    cluster: Cluster, nsqd_kind: Kind, nsqlookupd_kind: Kind, backend: str
) -> None:
    lookupd = await cluster.nsqlookupd(nsqlookupd_kind)
    nsqds = [
        await cluster.nsqd(nsqd_kind, lookupds=[lookupd], channels={"a": ["c"], "b": ["c"]}) for _ in range(2)
    ]
    sent: set[bytes] = set()
    for node, nsqd in enumerate(nsqds):
        for topic in ("a", "b"):
            bodies = [f"{node} {topic} {number}".encode() for number in range(50)]
            await nsqd.publish(topic, *bodies)
            sent.update(bodies)

    async def are_known() -> bool:
        async with lookupd.lookup_http() as http:
            return all([len((await http.lookup(topic)).producers) == 2 for topic in ("a", "b")])

    await until_told(are_known)
    printed: list[bytes] = []
    for number in (1, 30, 169):
        more = await output(
            *TAIL,
            "--topic=a",
            "--topic=b",
            "--channel=c",
            f"-n={number}",
            f"--lookupd-http-address={lookupd.http_address}",
            backend,
        )
        assert len(more.splitlines()) == number
        printed += more.splitlines()
        # What was not printed was put back, at once.
        assert await depths(nsqds, "a") + await depths(nsqds, "b") == 200 - len(printed)
    assert set(printed) == sent


async def test_nothing_is_lost_over_restarts(
    cluster: Cluster, tmp_path: Path, nsqd_kind: Kind, backend: str
) -> None:
    nsqd = await cluster.nsqd(nsqd_kind, channels={"t": ["c"]}, data_path=tmp_path)
    sink = tmp_path / "printed"
    flags = ("--topic=t", "--channel=c", f"--nsqd-tcp-address={nsqd.tcp_address}", "--log-level=error")
    async with printing(sink, *TAIL, *flags, backend) as process:
        await nsqd.publish("t", b"before")
        await until(lambda: sink.read_bytes() == b"before\n")
        await nsqd.stop()
        nsqd = await cluster.nsqd(nsqd_kind, channels={"t": ["c"]}, data_path=tmp_path, succeeding=nsqd)
        await nsqd.publish("t", b"after")
        await until(lambda: sink.read_bytes().endswith(b"after\n"))
        await end(process)
    assert await depths([nsqd], "t") == 0


async def test_what_a_killed_one_did_not_print_comes_again(
    cluster: Cluster, tmp_path: Path, nsqd_kind: Kind, backend: str
) -> None:
    nsqd = await cluster.nsqd(nsqd_kind, channels={"t": ["c"]})
    sent = {b"%d" % number for number in range(20_000)}
    await nsqd.publish("t", *sent)
    sink = tmp_path / "printed"
    flags = (
        "--topic=t",
        "--channel=c",
        f"--nsqd-tcp-address={nsqd.tcp_address}",
        "--max-in-flight=50",
        "--consumer-opt=msg_timeout,1s",  # only after this nsqd gives to another what a killed one held
    )
    async with printing(sink, *TAIL, *flags, backend) as process:
        await until(lambda: sink.stat().st_size > 0)
        process.kill()
        await process.wait()
    printed = sink.read_bytes().splitlines()
    assert len(printed) < len(sent)

    async def is_free() -> bool:
        return not (await nsqd.channel("t", "c")).in_flight_count

    await until_told(is_free)
    left = await depths([nsqd], "t")
    assert left >= len(sent) - len(printed)
    printed += (await output(*TAIL, *flags, f"-n={left}", backend)).splitlines()
    assert set(printed) == sent


async def test_metadata(cluster: Cluster, nsqd_kind: Kind, backend: str) -> None:
    nsqd = await cluster.nsqd(nsqd_kind, channels={"t": ["c"]})
    await nsqd.publish("t", b"text", b"\xff")
    flags = ("--topic=t", "--channel=c", f"--nsqd-tcp-address={nsqd.tcp_address}", "-n=2", "--json")
    records = [json.loads(line) for line in (await output(*TAIL, *flags, backend)).splitlines()]
    assert {record.get("body", record.get("body_base64")) for record in records} == {"text", "/w=="}
    assert {
        (record["topic"], record["channel"], record["nsqd"], record["attempts"]) for record in records
    } == {("t", "c", nsqd.tcp_address, 1)}
