"""``topic``, ``channel`` and ``node`` as processes, on clusters of both kinds, whole and with one gone."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import anyio
import pytest

from .cluster import Cluster, Kind, Server
from .observe import until_told

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@dataclass(frozen=True)
class Done:
    code: int
    lines: Sequence[str]
    errors: Sequence[str]


@dataclass(frozen=True)
class Setup:
    """Two nsqds, and the two nsqlookupds that both are registered with."""

    nsqlookupds: Sequence[Server]
    nsqds: Sequence[Server]

    async def run(self, *arguments: str, answer: bytes = b"") -> Done:
        named = [f"--lookupd-http-address={each.http_address}" for each in self.nsqlookupds]
        command = [sys.executable, "-m", "nsq_anyio", *arguments, *named]
        done = await anyio.run_process(command, input=answer, check=False)
        return Done(done.returncode, done.stdout.decode().splitlines(), done.stderr.decode().splitlines())

    async def listed(self, *arguments: str) -> Sequence[str]:
        done = await self.run(*arguments)
        assert (done.code, done.errors) == (0, [])
        return done.lines

    async def are_registered(self, topic: str) -> bool:
        """Whether both nsqlookupds know both nsqds for a topic."""
        for nsqlookupd in self.nsqlookupds:
            async with nsqlookupd.lookup_http() as http:
                if len((await http.lookup(topic)).producers) < len(self.nsqds):
                    return False
        return True


async def set_up(cluster: Cluster, kind: Kind) -> Setup:
    """Each nsqd has a topic ``clicks`` with a channel ``archive`` and three messages there."""
    nsqlookupds = [await cluster.nsqlookupd(kind) for _ in range(2)]
    nsqds = [
        await cluster.nsqd(kind, lookupds=nsqlookupds, channels={"clicks": ["archive"]}) for _ in range(2)
    ]
    for nsqd in nsqds:
        await nsqd.publish("clicks", b"1", b"2", b"3")
    setup = Setup(nsqlookupds, nsqds)
    await until_told(lambda: setup.are_registered("clicks"))
    return setup


async def depths(setup: Setup) -> list[int]:
    return [(await nsqd.channel("clicks", "archive")).depth for nsqd in setup.nsqds]


@pytest.mark.timeout(120)
async def test_all_that_can_be_done(cluster: Cluster, nsqd_kind: Kind) -> None:
    setup = await set_up(cluster, nsqd_kind)
    urls = sorted(nsqd.http_url for nsqd in setup.nsqds)

    assert await setup.listed("topic", "list") == ["clicks"]
    assert await setup.listed("channel", "list", "clicks") == ["archive"]
    (nodes,) = await setup.listed("node", "list", "--json")
    assert sorted(f"http://{node['name']}" for node in json.loads(nodes)["nodes"]) == urls

    done = await setup.run("channel", "pause", "clicks", "archive")
    assert (done.code, done.errors) == (0, [])
    assert sorted(done.lines) == [f"{url}: paused topic clicks channel archive" for url in urls]
    assert [(await nsqd.channel("clicks", "archive")).paused for nsqd in setup.nsqds] == [True, True]
    await setup.listed("channel", "unpause", "clicks", "archive")
    assert [(await nsqd.channel("clicks", "archive")).paused for nsqd in setup.nsqds] == [False, False]

    assert await setup.listed("channel", "empty", "clicks", "archive", "--dry-run") == [
        "empty topic clicks channel archive, with 6 messages, on:",
        *(f"  nsqd {url}, 3 messages" for url in urls),
    ]
    refused = await setup.run("channel", "empty", "clicks", "archive", answer=b"n\n")
    assert (refused.code, refused.lines) == (1, [])
    assert await depths(setup) == [3, 3]
    agreed = await setup.run("channel", "empty", "clicks", "archive", answer=b"y\n")
    assert agreed.code == 0
    assert sorted(agreed.lines) == [f"{url}: emptied topic clicks channel archive" for url in urls]
    assert await depths(setup) == [0, 0]

    await setup.listed("topic", "create", "views")
    assert await setup.listed("topic", "list") == ["clicks", "views"]
    name = setup.nsqds[0].http_address
    await setup.listed("node", "tombstone", "clicks", name, "--yes")
    assert [len((await nsqd.stats()).topics) for nsqd in setup.nsqds] == [0, 1]
    await setup.listed("topic", "delete", "clicks", "--yes")
    await setup.listed("topic", "delete", "views", "--yes")
    assert await setup.listed("topic", "list") == []
    assert [len((await nsqd.stats()).topics) for nsqd in setup.nsqds] == [0, 0]


@pytest.mark.timeout(120)
async def test_what_one_cannot_do_the_others_still_do(cluster: Cluster, nsqd_kind: Kind) -> None:
    setup = await set_up(cluster, nsqd_kind)
    gone, left = setup.nsqlookupds[0], setup.nsqds
    await gone.stop()

    done = await setup.run("topic", "list")
    assert (done.code, done.lines) == (3, ["clicks"])
    (error,) = done.errors
    assert error.startswith(f"Error: {gone.http_url}/")

    done = await setup.run("channel", "empty", "clicks", "archive", "--yes", "--json")
    assert done.code == 3
    (line,) = done.lines
    found = json.loads(line)
    assert sorted(found["done"]) == sorted(nsqd.http_url for nsqd in left)
    assert {failure["url"].startswith(gone.http_url) for failure in found["failures"]} == {True}
    assert await depths(setup) == [0, 0]

    await setup.nsqlookupds[1].stop()
    done = await setup.run("topic", "list")
    assert (done.code, done.lines) == (1, [])
    assert len(done.errors) == 1
