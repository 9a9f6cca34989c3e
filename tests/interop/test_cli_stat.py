"""``nsq-anyio stat`` on clusters of both kinds: beside nsq_stat, and while an nsqd goes away."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

import nsq_anyio as nsq

from ..processes import ending
from ..real_servers import program
from .cluster import Cluster, Kind, Server
from .observe import until_told

pytestmark = pytest.mark.anyio

OURS = (sys.executable, "-m", "nsq_anyio", "stat")
LIMIT = 20.0
INTERVAL = "--interval=200ms"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


async def _with_channel(nsqds: Sequence[Server]) -> None:
    for nsqd in nsqds:
        async with nsqd.http() as http:
            await http.create_topic("clicks")
            await http.create_channel("clicks", "archive")


async def _listed(lookupd: Server, count: int) -> None:
    async def are_listed() -> bool:
        async with lookupd.lookup_http() as http:
            return len(await http.nodes()) == count

    await until_told(are_listed, LIMIT)


async def _rows(*command: str) -> list[list[str]]:
    """The figures of two reports."""
    with anyio.fail_after(LIMIT):
        result = await anyio.run_process([*command, INTERVAL, "--count=2"])
    lines = result.stdout.decode().splitlines()
    assert len(lines) == 4, lines
    return [line.split() for line in lines]


@pytest.mark.parametrize("kind", ["embedded", "real"])
async def test_the_same_figures_as_nsq_stat(cluster: Cluster, kind: Kind) -> None:
    lookupd = await cluster.nsqlookupd(kind)
    nsqds = [await cluster.nsqd(kind, lookupds=[lookupd]) for _ in range(2)]
    await _with_channel(nsqds)
    await _listed(lookupd, 2)
    for nsqd in nsqds:
        await nsqd.publish("clicks", *[b"m"] * 10)
    async with nsq.consume(
        "clicks", "archive", nsqd=[nsqd.tcp_address for nsqd in nsqds], max_in_flight=8
    ) as consumer:
        with anyio.fail_after(LIMIT):
            first = await anext(consumer)
            first.finish()
            second = await anext(consumer)
            second.requeue(delay=60.0, backoff=False)
        await until_told(partial(_are_answered, nsqds), LIMIT)
        consumer.pause()
        where = f"--lookupd-http-address={lookupd.http_address}"
        flags = ("--topic=clicks", "--channel=archive", where)
        theirs = await _rows(str(program("nsq_stat")), *flags)
        ours = await _rows(*OURS, *flags)
    assert ours == theirs
    assert ours[2][-3:] == ["0", "20", "2"]


async def _are_answered(nsqds: Sequence[Server]) -> bool:
    """Whether one message was finished, and one requeued for later."""
    stats = [await nsqd.channel("clicks", "archive") for nsqd in nsqds]
    left = sum(each.depth + each.in_flight_count + each.deferred_count for each in stats)
    return left == 19 and sum(each.deferred_count for each in stats) == 1


@asynccontextmanager
async def _stat(*arguments: str) -> AsyncGenerator[tuple[Process, AsyncGenerator[dict[str, Any]]]]:
    """The command, and its reports."""

    async def reports() -> AsyncGenerator[dict[str, Any]]:
        assert process.stdout is not None
        lines = BufferedByteReceiveStream(process.stdout)
        while True:
            yield json.loads(await lines.receive_until(b"\n", 1_000_000))

    process = await anyio.open_process([*OURS, "--json", INTERVAL, *arguments], stderr=subprocess.PIPE)
    async with ending(process), aclosing(reports()) as found:
        yield process, found


@pytest.mark.parametrize("by_nsqlookupd", [True, False], ids=["nsqlookupd", "nsqd"])
async def test_it_goes_on_without_an_nsqd_that_is_killed_and_says_which(
    cluster: Cluster, by_nsqlookupd: bool
) -> None:
    lookupd = await cluster.nsqlookupd("real")
    one, other = [await cluster.nsqd("real", lookupds=[lookupd]) for _ in range(2)]
    await _with_channel([one, other])
    await _listed(lookupd, 2)
    await one.publish("clicks", b"1")
    await other.publish("clicks", b"2")
    where = (
        [f"--lookupd-http-address={lookupd.http_address}"]
        if by_nsqlookupd
        else [f"--nsqd-http-address={nsqd.http_address}" for nsqd in (one, other)]
    )
    with anyio.fail_after(LIMIT):
        async with _stat("--topic=clicks", "--channel=archive", *where) as (process, reports):
            report = await anext(reports)
            assert report["failures"] == []
            assert report["channels"][0]["messages"] == 2
            await one.kill()
            async for report in reports:
                if report["failures"]:
                    break
            assert [failure["url"] for failure in report["failures"]] == [one.http_url]
            assert report["channels"][0]["messages"] == 1
            back = await cluster.nsqd("real", lookupds=[lookupd], succeeding=one)
            await _with_channel([back])
            await back.publish("clicks", b"3")
            async for report in reports:
                if not report["failures"] and report["channels"][0]["messages"] == 2:
                    break
            process.terminate()
            assert await process.wait() == 0
            assert process.stderr is not None
            with pytest.raises(anyio.EndOfStream):
                await process.stderr.receive()


async def test_it_goes_on_when_all_are_away(cluster: Cluster) -> None:
    nsqd = await cluster.nsqd("real")
    await _with_channel([nsqd])
    with anyio.fail_after(LIMIT):
        async with _stat(f"--nsqd-http-address={nsqd.http_address}") as (process, reports):
            assert (await anext(reports))["failures"] == []
            await nsqd.kill()
            report = await anext(reports)
            while not report["failures"]:
                report = await anext(reports)
            assert report["channels"] == []
            process.terminate()
            assert await process.wait() == 0
