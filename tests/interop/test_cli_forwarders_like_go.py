"""``to-http`` and ``to-nsq`` beside nsq_to_http and nsq_to_nsq: the same command line has the same effect."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from ..cli.forwarders import Request, flags, http_sink
from .cluster import Cluster, Kind
from .forwarding import TOOLS, command, forward
from .observe import consume_now

pytestmark = pytest.mark.anyio

BODIES = [b"plain", b"\x00\xff\r\n\x80", b"a b&c=d/e?f#g+h%i", "h\u00e9".encode(), b"~" * 5000]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


def essence(request: Request) -> tuple[str, str, bytes, dict[str, str]]:
    """What must be the same; the others name the program, and what it understands of the answer."""
    kept = ("host", "content-type", "content-length", "authorization", "x-source")
    headers = {name: value for name, value in request.headers.items() if name in kept}
    return request.method, request.path, request.body, headers


@pytest.mark.parametrize("way", ["post", "get"])
async def test_to_http(cluster: Cluster, nsqd_kind: Kind, topic: str, way: str) -> None:
    nsqd = await cluster.nsqd(nsqd_kind, channels={topic: list(TOOLS)})
    await nsqd.publish(topic, *BODIES)
    sent: dict[str, list[tuple[str, str, bytes, dict[str, str]]]] = {}
    with http_sink() as sink:
        target = sink.url.replace("//", "//us%%40er:pass@") + "/in/put?x=1&y=%%20"
        more = [f"--get={target}&m=%s"]
        if way == "post":
            more = [f"--post={target.replace('%%', '%')}", "--content-type=text/plain"]
        more += ["--header=X-Source: nsq", "--mode=round-robin", "-n=3", "--sample=1", "--status-every=2"]
        for tool in TOOLS:
            await forward(nsqd, topic, tool, len(BODIES), *command(tool, "to-http"), *more)
            sent[tool] = sorted(map(essence, sink.requests), key=lambda request: request[:3])
            sink.requests.clear()
    assert sent["ours"] == sent["go"]
    assert len(sent["go"]) == len(BODIES)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"whitelist_json_field": ["id", "kind"]},
        {"require_json_field": "kind"},
        {"require_json_field": "kind", "require_json_value": "click"},
        {"require_json_field": "id", "require_json_value": "2", "whitelist_json_field": "kind"},
    ],
    ids=["all", "fields", "required", "value", "number"],
)
async def test_to_nsq(
    cluster: Cluster, nsqd_kind: Kind, topic: str, more: dict[str, str | Sequence[str]]
) -> None:
    bodies = [
        b'{"id": 1, "kind": "click", "note": "\\u00e9"}',
        b'{"kind": "view", "id": 2.0, "more": {"kind": [1, 2]}}',
        b'{"id": 3, "kind": null}',
        b'{"id": 4, "kind": true}',
        # Without the field: asked for its value, nsq_to_nsq tries such a one 5 times over minutes.
        *([] if "require_json_value" in more else [b'{"note": "none of them"}', b"{}"]),
        # What is no JSON object is dropped by both, unless all passes.
        b"no JSON",
        b"[1]",
    ]
    nsqd = await cluster.nsqd(nsqd_kind, channels={topic: list(TOOLS)})
    await nsqd.publish(topic, *bodies)
    published: dict[str, list[object]] = {}
    for tool in TOOLS:
        destination = await cluster.nsqd(nsqd_kind, channels={"copy": ["check"]})
        to_there = flags(
            destination_topic="copy", destination_nsqd_tcp_address=destination.tcp_address, **more
        )
        await forward(nsqd, topic, tool, len(bodies), *command(tool, "to-nsq"), *to_there)
        count = (await destination.channel("copy", "check")).message_count
        found = await consume_now("copy", "check", destination.tcp_address, count)
        published[tool] = sorted(map(_value, found), key=repr) if more else list(found)
    assert published["ours"] == published["go"]
    assert published["go"]


@pytest.mark.parametrize("depth", [999, 5000, 9999])
async def test_to_nsq_passes_what_is_nested_deeply(cluster: Cluster, topic: str, depth: int) -> None:
    body = b'{"kind": "click", "deep": %b}' % (b"[" * depth + b"]" * depth)
    nsqd = await cluster.nsqd("real", channels={topic: list(TOOLS)})
    await nsqd.publish(topic, body)
    published: dict[str, object] = {}
    for tool in TOOLS:
        destination = await cluster.nsqd("real", channels={"copy": ["check"]})
        to_there = flags(
            destination_topic="copy",
            destination_nsqd_tcp_address=destination.tcp_address,
            require_json_field="kind",
            require_json_value="click",
        )
        await forward(nsqd, topic, tool, 1, *command(tool, "to-nsq"), *to_there)
        published[tool] = await consume_now("copy", "check", destination.tcp_address, 1)
    assert published["ours"] == published["go"] == [body]


def _value(body: bytes) -> object:
    """nsq_to_nsq sorts the members, and writes them anew."""
    return sorted(json.loads(body).items())
