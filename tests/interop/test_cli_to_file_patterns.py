"""``--topic-pattern`` beside nsq_to_file: the same pattern takes the same topics."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..patterns import MATCHES, NAMES
from ..real_servers import program
from .cluster import Cluster, Server
from .observe import until_told
from .to_file import TO_FILE, running

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

TOOLS = {"go": (str(program("nsq_to_file")),), "ours": TO_FILE}
TOPICS = [name for name in NAMES if name != ".."]  # which nsq_to_file takes for a directory


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


async def topics_with(nsqd: Server, channel: str) -> list[str]:
    """The topics that have a channel of this name."""
    topics = (await nsqd.stats()).topics
    return sorted(
        topic.topic_name for topic in topics if any(each.channel_name == channel for each in topic.channels)
    )


@pytest.mark.parametrize("pattern", [text for text in MATCHES if text and set(MATCHES[text]) & set(TOPICS)])
async def test_the_same_topics(cluster: Cluster, tmp_path: Path, pattern: str) -> None:
    lookupd = await cluster.nsqlookupd("real")
    nsqd = await cluster.nsqd("real", lookupds=[lookupd])
    for topic in TOPICS:
        await nsqd.publish(topic, b"m")
    async with lookupd.lookup_http() as http:

        async def are_known() -> bool:
            return len(await http.topics()) == len(TOPICS)

        await until_told(are_known)
    expected = sorted(set(MATCHES[pattern]) & set(TOPICS))
    for tool, command in TOOLS.items():

        async def are_taken(channel: str = tool) -> bool:
            return len(await topics_with(nsqd, channel)) >= len(expected)

        arguments = [
            f"--topic-pattern={pattern}",
            f"--channel={tool}",
            f"--lookupd-http-address={lookupd.http_address}",
            f"--output-dir={tmp_path / tool}",
            "--topic-refresh=100ms",
        ]
        async with running(tmp_path, *arguments, command=command) as archiver:
            await until_told(are_taken)
            assert await archiver.end() == 0, archiver.log
        assert await topics_with(nsqd, tool) == expected
