"""What real and embedded nsqds write to a data path, and how they answer when the disk is full."""

import json
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from tests.embedded.raw_client import dpub, mpub, pub, raw_client

from .cluster import Cluster, Kind

pytestmark = pytest.mark.anyio

BOTH: tuple[Kind, ...] = ("real", "stored")


def topics_in(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((path / "nsqd.dat").read_bytes())
    for topic in content["topics"] or ():
        topic["channels"] = sorted(topic["channels"] or (), key=lambda channel: channel["name"]) or None
    content["topics"] = sorted(content["topics"] or (), key=lambda topic: topic["name"]) or None
    return content


def names_in(content: dict[str, Any]) -> dict[str, list[str]]:
    """The names of the channels of each topic."""
    return {
        topic["name"]: [channel["name"] for channel in topic["channels"] or ()]
        for topic in content["topics"] or ()
    }


async def settled_topics(path: Path, names: dict[str, list[str]]) -> dict[str, Any]:
    """What the list of topics says once it has these topics and channels: nsqd writes it a moment later."""
    with anyio.fail_after(10):
        while names_in(found := topics_in(path)) != names:  # noqa: ASYNC110 - no nsqd tells when it has written
            await anyio.sleep(0.01)
    return found


async def test_the_list_of_topics(cluster: Cluster, tmp_path: Path) -> None:
    seen: list[list[object]] = []
    for kind in BOTH:
        path = tmp_path / kind
        path.mkdir()
        steps: list[object] = []
        nsqd = await cluster.nsqd(kind, data_path=path)
        async with nsqd.http() as http:
            steps.append(await settled_topics(path, {}))
            await http.create_topic("t")
            await http.create_topic("t#ephemeral")
            await http.create_channel("t", "c")
            await http.create_channel("t", "e#ephemeral")
            steps.append(await settled_topics(path, {"t": ["c"]}))
            await http.pause_channel("t", "c")
            steps.append(topics_in(path))
            await http.pause_topic("t")
            steps.append(topics_in(path))
            await http.delete_channel("t", "c")
            await http.unpause_topic("t")
            steps.append(topics_in(path))
            await http.delete_topic("t")
            # nsqd may write the file before it forgets the topic; the next change writes it again.
            await http.create_topic("last")
            steps.append(await settled_topics(path, {"last": []}))
        await nsqd.stop()
        steps.append(topics_in(path))
        seen.append(steps)
    assert seen[0] == seen[1]


async def test_the_files_of_one_queue(cluster: Cluster, tmp_path: Path) -> None:
    """Messages differ in their ids and times, so sizes are compared."""
    seen: list[dict[str, object]] = []
    for kind in BOTH:
        path = tmp_path / kind
        path.mkdir()
        nsqd = await cluster.nsqd(kind, data_path=path, mem_queue_size=0, max_bytes_per_file=1000)
        await nsqd.publish("t", *(b"%050d" % number for number in range(40)))
        await nsqd.stop()
        seen.append(
            {
                file.name: file.read_text() if "meta" in file.name else file.stat().st_size
                for file in path.iterdir()
                if file.name.startswith("t.")
            }
        )
    assert seen[0] == seen[1]


@pytest.mark.parametrize("command", ["PUB", "MPUB", "DPUB"])
async def test_a_full_disk(cluster: Cluster, tmp_path: Path, command: str) -> None:
    seen: list[list[object]] = []
    for kind in BOTH:
        path = tmp_path / kind
        path.mkdir()
        nsqd = await cluster.nsqd(kind, data_path=path, mem_queue_size=0)
        async with nsqd.http() as http:
            await http.create_topic("t")
            await http.pause_topic("t")
        (path / "t.diskqueue.000000.dat").symlink_to("/dev/full")
        sent = {"PUB": pub("t", b"x"), "MPUB": mpub("t", b"x", b"y"), "DPUB": dpub("t", 1000, b"x")}[command]
        async with raw_client(nsqd.tcp_address) as client:
            await client.send(sent)
            answers: list[object] = [await client.error(), await client.closed()]
        async with httpx.AsyncClient(trust_env=False, base_url=nsqd.http_url) as plain:
            for reply in (
                await plain.get("/ping"),
                await plain.post("/pub?topic=t", content=b"x"),
                await plain.post("/mpub?topic=t", content=b"x\ny"),
            ):
                answers += [reply.status_code, reply.headers.get("Content-Type"), reply.text]
            answers.append((await plain.get("/stats?format=json")).json()["health"])
            (path / "t.diskqueue.000000.dat").unlink()
            answers.append((await plain.post("/pub?topic=t", content=b"x")).text)
            answers.append((await plain.get("/ping")).text)
        seen.append([str(answer).replace(str(path), "PATH") for answer in answers])
    assert seen[0] == seen[1]
