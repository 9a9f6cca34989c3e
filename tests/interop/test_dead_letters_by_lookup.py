"""``nsq-anyio dead-letter`` with --lookupd-http-address, where the letters are on two nsqds."""

from __future__ import annotations

import json
from collections import Counter

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio import envelope
from nsq_anyio.dead_letters import ChannelScan, Filter, LetterProcessor, LetterReader

from ..cli.processes import COMMAND
from .cluster import Cluster, Kind, Server
from .observe import LIMIT, until_told

pytestmark = pytest.mark.anyio


async def test_a_retry(cluster: Cluster, nsqd_kind: Kind, nsqlookupd_kind: Kind) -> None:
    lookupd = await cluster.nsqlookupd(nsqlookupd_kind)
    channels = {"t": ["c"], "t.dead": ["dead-letter"]}
    nsqds = [await cluster.nsqd(nsqd_kind, lookupds=[lookupd], channels=channels) for _ in range(2)]
    bodies = {b"message %d" % number for number in range(20)}
    for place, nsqd in enumerate(nsqds):
        async with nsq.produce(nsqd.tcp_address) as producer:
            for body in sorted(bodies)[place::2]:
                await producer.publish("t", body)
            dead_letter = nsq.DeadLetter("{topic}.dead", producer=producer)
            async with nsq.consume("t", "c", nsqd=nsqd.tcp_address, dead_letter=dead_letter) as consumer:
                for _ in range(10):
                    async with await anext(consumer):
                        raise nsq.Discard("no such user")

    async def command(name: str, *more: str) -> list[dict[str, object]]:
        at = ["--topic=t.dead", f"--lookupd-http-address={lookupd.http_url}", "--json", *more]
        with anyio.fail_after(LIMIT):
            done = await anyio.run_process([*COMMAND, "dead-letter", name, *at])
        return [json.loads(line) for line in done.stdout.splitlines()]

    async def depth(topic: str, channel: str) -> int:
        found = [await nsqd.channel(topic, channel) for nsqd in nsqds]
        return sum(each.depth + each.in_flight_count + each.deferred_count for each in found)

    async def both_are_registered() -> bool:
        async with nsq.http.Nsqlookupd(lookupd.http_url) as client:
            return len((await client.lookup("t.dead")).producers) == 2

    await until_told(both_are_registered)
    assert len(await command("list", "--limit=0")) == 20
    (done,) = await command("retry")
    assert (done["retried"], done["left"]) == (20, 0)
    assert await depth("t.dead", "dead-letter") == 0
    assert await depth("t", "c") == 20
    async with nsq.consume("t", "c", nsqlookupd=lookupd.http_url, max_in_flight=20) as consumer:
        seen: set[bytes] = set()
        while len(seen) < 20:
            with anyio.fail_after(LIMIT):
                async with await anext(consumer) as message:
                    seen.add(message.body)
    assert seen == bodies


async def test_a_retry_where_addresses_are_mapped(cluster: Cluster) -> None:
    lookupd = await cluster.nsqlookupd("embedded")
    channels = {"t": ["c"], "t.dead": ["dead-letter"]}
    nsqd = await cluster.nsqd(
        "real", lookupds=[lookupd], channels=channels, broadcast_address="nsqd-1.invalid"
    )
    async with nsq.http.Nsqd(nsqd.http_url) as http:
        await http.publish("t.dead", envelope.encode(b"one", {"nsq-dead-body": "raw", "nsq-dead-topic": "t"}))
    port = nsqd.tcp_address.rpartition(":")[2]
    async with nsq.http.Nsqlookupd(lookupd.http_url) as client:

        async def is_registered() -> bool:
            return bool((await client.lookup("t.dead")).producers)

        await until_told(is_registered)
    done = await anyio.run_process(
        [
            *(
                *COMMAND,
                "dead-letter",
                "retry",
                "--topic=t.dead",
                f"--lookupd-http-address={lookupd.http_url}",
            ),
            f"--map-address=nsqd-1.invalid:{port}={nsqd.tcp_address}",
        ]
    )
    assert done.stdout == b"retried 1 letter\n"
    assert (await nsqd.channel("t", "c")).depth == 1


async def test_an_id_names_a_letter_of_one_nsqd(cluster: Cluster) -> None:
    """Two nsqds on hosts whose names have the same hash make the same ids."""
    channels = {"t.dead": ["dead-letter"]}
    nsqds = [await cluster.nsqd("real", channels=channels, node_id=1) for _ in range(2)]

    async def publish(nsqd: Server) -> None:
        async with nsq.http.Nsqd(nsqd.http_url) as http:
            await http.publish_many("t.dead", [b"%d" % number for number in range(1000)])

    async def found(*ids: str) -> list[str]:
        look = LetterReader(walk(), Filter(ids=ids), 0, enough=False)
        await look.run(anyio.Event())
        return [letter.message.id for letter in look.letters]

    def walk() -> ChannelScan:
        return ChannelScan("t.dead", "dead-letter", nsqd=[nsqd.tcp_address for nsqd in nsqds], wait=0.1)

    shared: list[str] = []
    while not shared:
        async with anyio.create_task_group() as tasks:
            for nsqd in nsqds:
                tasks.start_soon(publish, nsqd)
        shared = [id for id, times in Counter(await found()).items() if times == 2]
    assert await found(shared[0]) == [shared[0]] * 2
    before = [(await nsqd.channel("t.dead", "dead-letter")).depth for nsqd in nsqds]
    work = LetterProcessor(walk(), Filter(keys=[f"{nsqds[1].tcp_address}/{shared[0]}"]), 0)
    await work.drop(anyio.Event())
    assert work.done == 1
    after = [(await nsqd.channel("t.dead", "dead-letter")).depth for nsqd in nsqds]
    assert after == [before[0], before[1] - 1]
