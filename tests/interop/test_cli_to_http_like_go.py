"""``to-http`` beside nsq_to_http, on servers that speak HTTP badly: what they have accepted is finished."""

from __future__ import annotations

from collections import Counter

import pytest

from ..cli.forwarders import flags
from ..cli.hostile_http import BODIES_THAT_FAIL, MORE_THAN_ASKED_FOR, OTHER_ANSWERS, hostile_server
from .cluster import Cluster
from .forwarding import TOOLS, command, forward

pytestmark = pytest.mark.anyio

BODIES = [b"%d" % number for number in range(5)]

# A request on a connection that the server closes meanwhile fails in either program; the next try comes soon.
SOON = ["--consumer-opt=default_requeue_delay,100ms", "--consumer-opt=max_backoff_duration,100ms"]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize("name", [*BODIES_THAT_FAIL, *OTHER_ANSWERS])
async def test_each_message_is_sent_once(cluster: Cluster, topic: str, name: str) -> None:
    nsqd = await cluster.nsqd("real", channels={topic: list(TOOLS)})
    await nsqd.publish(topic, *BODIES)
    sent: dict[str, Counter[bytes]] = {}
    for tool in TOOLS:
        with hostile_server((BODIES_THAT_FAIL | OTHER_ANSWERS)[name]) as server:
            # Only an answer that never ends needs a short limit; the others must outlast a busy machine.
            limit = "1s" if name in BODIES_THAT_FAIL else "20s"
            arguments = flags(post=server.url, n="5", http_client_request_timeout=limit, status_every="1")
            await forward(nsqd, topic, tool, len(BODIES), *command(tool, "to-http"), *arguments, *SOON)
            sent[tool] = Counter(server.bodies)
    assert sent["ours"] == sent["go"] == Counter(BODIES)


@pytest.mark.parametrize("name", [name for name in MORE_THAN_ASKED_FOR if name != "later"])
async def test_what_is_finished_was_accepted(cluster: Cluster, topic: str, name: str) -> None:
    """What comes later than its answer can be taken for the next one's by both, if that request is there.

    Go's client can do the same with what has come together with its answer: it looks at that beside the
    program, which may have begun the next request. So Go gets the next message only when the one before is
    finished. Ours gets all at once.
    """
    nsqd = await cluster.nsqd("real", channels={topic: list(TOOLS)})
    for tool, one_by_one in {"go": BODIES, "ours": []}.items():
        with hostile_server(MORE_THAN_ASKED_FOR[name]) as server:
            arguments = [
                *command(tool, "to-http"),
                *flags(post=server.url, n="1", http_client_request_timeout="2s", status_every="1"),
                *SOON,
            ]
            await forward(nsqd, topic, tool, len(BODIES), *arguments, one_by_one=one_by_one)
            assert set(server.accepted) == set(BODIES), tool
