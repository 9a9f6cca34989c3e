"""What the dashboard says of situations that real servers are brought into.

All situations stand side by side in one cluster, each in a topic that is named as it. The dashboard polls
every second; a situation is judged by what is said when its mark first comes, and by how soon it comes. What
takes an hour of real time stands in tests/monitoring/test_health.py.
"""

from __future__ import annotations

import html
import json
import re
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

import anyio
import httpx
import pytest
from anyio.abc import TaskGroup

import nsq_anyio as nsq
from nsq_anyio.admin import Admin, AdminOptions

from ..generated_pages import DOCS
from ..promtool import promtool
from .cluster import Cluster, Server, run_cluster

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

LATE = 30.0
"""The most seconds from the beginning of a situation to its mark."""

LEAST_TREND = 45.0
"""The seconds for which a depth must be seen before its trend counts."""

SCRAPED = 5
"""The seconds between scrapes, as Prometheus makes them."""

WATCHED = 75.0
"""The seconds for which the cluster is watched."""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """What servers are in which situation does not depend on the event loop."""
    return "asyncio"


@dataclass(frozen=True)
class Mark:
    """A mark when it first comes.

    :ivar late: the seconds from the beginning of the situation to that of the poll
    :ivar own: the sentence on the page of the topic or server
    :ivar pages: the marks with their sentences on the overview, and on the channel's page if it has one
    :ivar metrics: the lines of ``/metrics`` about the topic or server
    """

    late: float
    own: str
    pages: Mapping[str, Sequence[tuple[str, str]]]
    metrics: str


@dataclass
class Board:
    """The servers, and what was said.

    :ivar paths: the page of each situation, by its name
    :ivar subjects: the text that is in each line of ``/metrics`` about it
    :ivar began: when each situation began, by time.time()
    :ivar marks: by situation and label
    :ivar last: the marks of each situation at the end
    :ivar first: the overview before anything could be known
    :ivar scrapes: the values of all series, every `SCRAPED` seconds
    """

    nsqds: list[Server]
    lookups: list[Server]
    down: Server
    hung: Server
    shy: Server
    paths: dict[str, str] = field(default_factory=dict[str, str])
    subjects: dict[str, str] = field(default_factory=dict[str, str])
    began: dict[str, float] = field(default_factory=dict[str, float])
    marks: dict[tuple[str, str], Mark] = field(default_factory=dict[tuple[str, str], Mark])
    last: dict[str, Sequence[tuple[str, str]]] = field(default_factory=dict[str, Sequence[tuple[str, str]]])
    first: str = ""
    scrapes: list[Mapping[str, str]] = field(default_factory=list[Mapping[str, str]])


async def publish(server: Server, topic: str, count: int = 5, *, defer: float | None = None) -> None:
    async with server.http() as http:
        if defer is not None:
            for _ in range(count):
                await http.publish(topic, b"x", defer=defer)
        else:
            await http.publish_many(topic, [b"x"] * count)


async def publish_steadily(server: Server, topic: str, every: float, count: int = 1) -> None:
    async with server.http() as http:
        while True:
            await http.publish_many(topic, [b"x"] * count)
            await anyio.sleep(every)


def consumer(
    server: Server, topic: str, channel: str = "c", *, msg_timeout: float = 600.0, max_in_flight: int = 5
) -> AbstractAsyncContextManager[nsq.Consumer]:
    return nsq.consume(
        topic,
        channel,
        nsqd=server.tcp_address,
        max_in_flight=max_in_flight,
        options=nsq.ConsumerOptions(max_attempts=0, max_deliveries=0, max_backoff_duration=0),
        connection=nsq.ConnectionOptions(msg_timeout=msg_timeout),
    )


async def hold(server: Server, topic: str) -> None:
    """Take messages, and answer none."""
    async with consumer(server, topic) as consuming:
        held = [message async for message in consuming]
    del held


async def finish(server: Server, topic: str, channel: str = "c", pause: float = 0.0) -> None:
    async with consumer(server, topic, channel, max_in_flight=100) as consuming:
        async for message in consuming:
            await anyio.sleep(pause)
            message.finish()


async def finish_for(server: Server, topic: str, seconds: float) -> None:
    """Finish messages for some seconds; then hold them."""
    async with consumer(server, topic) as consuming:
        end = time.monotonic() + seconds
        held: list[nsq.Message] = []
        async for message in consuming:
            if time.monotonic() < end:
                message.finish()
            else:
                held.append(message)


async def subscribe_only(server: Server, topic: str) -> None:
    """Subscribe, and leave RDY at 0."""
    async with consumer(server, topic) as consuming:
        consuming.pause()
        await anyio.sleep_forever()


async def poison(server: Server, topic: str) -> None:
    """Let each message that is called poison time out, again and again; finish the others."""
    async with consumer(server, topic, msg_timeout=2.0, max_in_flight=2) as consuming:
        async for message in consuming:
            if message.body != b"poison":
                message.finish()


async def requeue(server: Server, topic: str, seconds: float = 3600.0) -> None:
    async with consumer(server, topic) as consuming:
        end = time.monotonic() + seconds
        async for message in consuming:
            if time.monotonic() < end:
                await anyio.sleep(0.05)
                message.requeue(0.2)
            else:
                message.finish()


@asynccontextmanager
async def situations(cluster: Cluster, tasks: TaskGroup) -> AsyncGenerator[Board]:
    """Bring servers into all situations."""
    lookups = [await cluster.nsqlookupd("real") for _ in range(3)]
    a, b, c, down, hung = [await cluster.nsqd("real", lookupds=lookups) for _ in range(5)]
    shy = await cluster.nsqd("real", lookupds=lookups[:1])
    board = Board([a, b, c], lookups, down, hung, shy)
    start = tasks.start_soon

    async def channel(topic: str, name: str = "c", *servers: Server) -> None:
        for server in servers or (a,):
            async with server.http() as http:
                await http.create_topic(topic)
                await http.create_channel(topic, name)

    for name in ("busy", "slow-handlers", "no-consumer", "deferred", "channel-paused", "stalled", "held"):
        await channel(name)
    for name in ("rdy-0", "poison", "poison-among-good", "requeued", "was-requeued", "stops", "grows"):
        await channel(name)
    await channel("overflows", "c#ephemeral")
    await channel("topic-paused")
    await channel("paused-on-one", "c", a, b)
    await channel("consumed-on-one", "c", a, b)
    await channel("tombstoned")
    await publish(a, "no-channel")

    await publish(a, "no-consumer")
    await publish(a, "deferred", defer=1800.0)
    async with a.http() as http:
        await http.pause_channel("channel-paused", "c")
        await http.pause_topic("topic-paused")
        await http.pause_channel("paused-on-one", "c")
    await publish(a, "channel-paused")
    await publish(a, "topic-paused")
    await publish(a, "paused-on-one")
    await publish(b, "paused-on-one")
    start(finish, b, "paused-on-one")
    await publish(a, "consumed-on-one")
    start(finish, b, "consumed-on-one")
    start(publish_steadily, b, "consumed-on-one", 0.5)
    # On one of two nsqds the consumer hangs.
    await channel("held-on-one", "c", a, b)
    await publish(a, "held-on-one", 20)
    start(hold, a, "held-on-one")
    start(publish_steadily, b, "held-on-one", 0.2)
    start(finish, b, "held-on-one")
    # One nsqd has the topic without the channel.
    await channel("channel-missing", "c", a)
    async with b.http() as http:
        await http.create_topic("channel-missing")
        await http.create_channel("channel-missing", "other")

    start(publish_steadily, a, "busy", 0.1, 10)
    start(finish, a, "busy")
    await publish(a, "slow-handlers", 200)
    start(finish, a, "slow-handlers", "c", 3.0)
    await publish(a, "stalled", 20)
    start(hold, a, "stalled")
    await publish(a, "held", 3)
    start(hold, a, "held")
    await publish(a, "rdy-0")
    start(subscribe_only, a, "rdy-0")
    async with a.http() as http:
        await http.publish("poison", b"poison")
        await http.publish("poison-among-good", b"poison")
    start(poison, a, "poison")
    start(poison, a, "poison-among-good")
    start(publish_steadily, a, "poison-among-good", 0.2)
    await publish(a, "requeued")
    start(requeue, a, "requeued")
    await publish(a, "was-requeued", 5)
    start(requeue, a, "was-requeued", 10.0)
    start(publish_steadily, a, "stops", 0.1)
    start(finish_for, a, "stops", 15.0)
    await publish(a, "grows", 10)
    start(publish_steadily, a, "grows", 0.1, 5)
    start(finish, a, "grows", "c", 0.2)
    await publish(a, "overflows", 12_000)
    start(publish_steadily, a, "overflows", 0.1, 20)
    start(finish, a, "overflows", "c#ephemeral", 0.02)

    await publish(a, "tombstoned")
    start(finish, b, "tombstoned")
    for lookup in lookups:
        async with lookup.lookup_http() as http_lookup:
            (node,) = [each for each in await http_lookup.nodes() if each.http_port == a.http_port]
            await http_lookup.tombstone_topic("tombstoned", f"{node.broadcast_address}:{node.http_port}")
    now = time.time()
    for each in (await a.stats()).topics:
        board.paths[each.topic_name] = f"/topics/{each.topic_name}"
        board.subjects[each.topic_name] = f'topic="{each.topic_name}"'
    for name, server in (("down", down), ("hung", hung), ("shy", shy)):
        board.paths[name] = f"/nodes/127.0.0.1:{server.http_port}"
        board.subjects[name] = server.http_address
    board.paths["lookup-down"] = "/"
    board.subjects["lookup-down"] = lookups[2].http_address
    board.began = dict.fromkeys(board.paths, now)
    board.began["stops"] = now + 15.0
    yield board


PROBLEM = re.compile(
    r"<li[^>]*>\s*(?:<span class=\"subject\">.*?</span>\s*)?<span[^>]*>(?P<text>.*?)</span>\s*"
    r"<span class=\"tag (?:bad|warn)\">(?P<label>.*?)</span>",
    re.DOTALL,
)


def marks(page: str) -> list[tuple[str, str]]:
    """Return the marks of a page with their sentences."""
    found = page.partition('<ul class="problems')[2].partition("</ul>")[0]
    return [(plain(each["label"]), plain(each["text"])) for each in PROBLEM.finditer(found)]


def polled(page: str) -> float:
    """Return when the poll of a page began."""
    status = page.partition('id="status"')[2]
    found = re.search(r'<time[^>]* datetime="([^"]+)"', status)
    assert found, status
    return datetime.fromisoformat(found[1]).timestamp()


def plain(text: str) -> str:
    """Return text without markup."""
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", "", text))).strip()


@pytest.fixture(scope="module")
async def board() -> AsyncGenerator[Board]:
    async with run_cluster() as cluster, anyio.create_task_group() as tasks:
        async with situations(cluster, tasks) as board:
            options = AdminOptions(poll_interval=1.0, timeout=2.0)
            application = Admin([server.http_url for server in board.lookups], options=options)
            transport = httpx.ASGITransport(application)
            async with (
                application,
                httpx.AsyncClient(transport=transport, base_url="http://dashboard") as client,
            ):
                board.first = await page(client, "/")
                await anyio.sleep(3)
                await break_servers(board)
                with anyio.move_on_after(WATCHED):
                    async with anyio.create_task_group() as watching:
                        watching.start_soon(scrape, board, client)
                        while True:
                            await note(board, client)
                            await anyio.sleep(1)
            yield board
        tasks.cancel_scope.cancel()


async def break_servers(board: Board) -> None:
    await board.down.kill()
    board.hung.suspend()
    await board.lookups[2].kill()
    now = time.time()
    board.began |= {"down": now, "hung": now, "lookup-down": now}


async def page(client: httpx.AsyncClient, path: str) -> str:
    reply = await client.get(path)
    assert reply.status_code == 200, (path, reply.text)
    return reply.text


async def scrape(board: Board, client: httpx.AsyncClient) -> None:
    at = anyio.current_time()
    while True:
        lines = (await page(client, "/metrics")).splitlines()
        values = [line.rpartition(" ") for line in lines if not line.startswith("#")]
        board.scrapes.append({series: value for series, _, value in values})
        at += SCRAPED
        await anyio.sleep_until(at)


async def note(board: Board, client: httpx.AsyncClient) -> None:
    """Look at the page of each situation, and note its marks; of new ones, what stands elsewhere."""
    for name, path in board.paths.items():
        text = await page(client, path)
        board.last[name] = marks(text)
        for label, own in board.last[name]:
            if (name, label) in board.marks:
                continue
            late = polled(text) - board.began[name]
            pages = {"overview": marks(await page(client, "/"))}
            channel = own.partition(":")[0]
            if path.startswith("/topics/") and channel in ("c", "c#ephemeral"):
                pages["channel"] = marks(await page(client, f"{path}/{quote(channel)}"))
            lines = (await page(client, "/metrics")).splitlines()
            exposed = [line for line in lines if board.subjects[name] in line]
            board.marks[name, label] = Mark(late, own, pages, "\n".join(exposed))


GROWTH = LEAST_TREND + LATE
"""The most seconds until a trend is known."""

SITUATIONS = [
    ("no-channel", "no channels", "5 messages wait until the first one is created", LATE),
    ("no-consumer", "no consumers", "No consumer is connected, and 5 messages wait.*Since", LATE),
    ("deferred", "no consumers", "5 messages deferred in it will come due", LATE),
    ("topic-paused", "paused", "The topic is paused, and 5 messages wait", LATE),
    ("channel-paused", "paused", "The channel is paused, and 5 messages wait.*Since", LATE),
    ("paused-on-one", "paused", r"The channel is paused on \S+, and 5 messages wait there.*Since", LATE),
    (
        "consumed-on-one",
        "no consumers",
        r"No consumer is connected to \S+, where 5 messages wait.*Since",
        LATE,
    ),
    ("channel-missing", "channel missing", "has the topic and not this channel", LATE),
    ("tombstoned", "tombstoned", "consumers do not find it there, where 5 messages wait", LATE),
    ("stalled", "stalled", r"Nothing is finished: 15 messages wait, and consumers hold 5.*Since", LATE),
    ("held-on-one", "stalled", r"Nothing is finished on \S+: 15 .* hold 5.*Since", LATE),
    ("held", "no answers", "Consumers hold 3 messages and answer none.*Since", LATE),
    ("rdy-0", "stalled", "5 messages wait, and every consumer has RDY 0.*Since", LATE),
    ("stops", "stalled", "consumers hold 5 and answer none.*Since", LATE),
    ("poison", "timeouts", "nothing was finished meanwhile.*Since", LATE),
    ("poison-among-good", "timeouts", "other messages are finished meanwhile.*Since", LATE),
    ("requeued", "requeues", "nothing was finished meanwhile: their handlers fail.*Since", LATE),
    ("grows", "growing", r"The depth grew by .*Since", GROWTH),
    ("overflows", "overflows", "nsqd drops further messages.*Since", GROWTH),
    ("down", "down", "This nsqd does not answer.*Since", LATE),
    ("hung", "down", "This nsqd does not answer.*Since", LATE),
    ("lookup-down", "down", "This nsqlookupd does not answer.*Since", LATE),
    ("shy", "not registered", "consumers that ask there alone miss it", LATE),
]


@pytest.mark.parametrize(
    ("name", "label", "sentence", "most"), SITUATIONS, ids=[each[0] for each in SITUATIONS]
)
async def test_a_mark_comes_soon_on_all_pages(
    board: Board, name: str, label: str, sentence: str, most: float
) -> None:
    assert (name, label) in board.marks, board.last[name]
    mark = board.marks[name, label]
    assert re.search(sentence, mark.own), mark.own
    assert mark.late <= most
    for where, shown in mark.pages.items():
        assert label in [each for each, _ in shown], (where, shown)
    assert mark.metrics


@pytest.mark.parametrize("name", ["busy", "slow-handlers"])
async def test_nothing_is_said_of_what_moves(board: Board, name: str) -> None:
    assert [label for topic, label in board.marks if topic == name] == []


async def test_what_is_over_is_past_tense(board: Board) -> None:
    ((label, text),) = board.last["was-requeued"]
    assert label == "requeues"
    assert re.search(r"Consumers requeued: \d+ messages. That is over. Between \S+ and \S+", text), text


async def test_what_is_not_known_at_the_start(board: Board) -> None:
    assert "Nothing is stuck" not in board.first
    assert re.search(r"Whether the messages of \d+ channels move is not known yet", plain(board.first))


ALERTS = {
    "no-channel": "NsqTopicWithoutChannels",
    "no-consumer": "NsqChannelWithoutConsumers",
    "deferred": "NsqChannelWithoutConsumers",
    "topic-paused": "NsqTopicPaused",
    "channel-paused": "NsqChannelPaused",
    "paused-on-one": "NsqChannelPaused",
    "consumed-on-one": "NsqNsqdWithoutConsumers",
    "channel-missing": "NsqChannelMissing",
    "tombstoned": "NsqTopicTombstoned",
    "stalled": "NsqChannelStalled",
    "held-on-one": "NsqNsqdStalled",
    "held": "NsqChannelUnanswered",
    "rdy-0": "NsqChannelStalled",
    "stops": "NsqChannelStalled",
    "poison": "NsqChannelTimeouts",
    "poison-among-good": "NsqChannelTimeouts",
    "requeued": "NsqChannelRequeues",
    "grows": "NsqChannelBacklogGrows",
    "overflows": "NsqChannelOverflows",
    "down": "NsqdDown",
    "hung": "NsqdDown",
    "lookup-down": "NsqlookupdDown",
    "shy": "NsqdNotRegistered",
}
"""The alert of each situation."""

LATER = 70
"""The minutes for which each situation goes on, in Prometheus's eyes, as it went on at the end."""


def series(scrapes: Sequence[Mapping[str, str]], name: str) -> str:
    """Return the values of a series as promtool takes them: as scraped, then going on."""
    values = [each.get(name, "_") for each in scrapes]
    if values[-1] == "_":
        return " ".join([*values, "stale"])
    last = [float(value) for value in values[-7:] if value != "_"]
    rises = name.partition("{")[0].endswith("_total") or all(a < b for a, b in pairwise(last))
    step = (last[-1] - last[0]) / (len(last) - 1) if rises and len(last) > 1 else 0.0
    return " ".join([*values, f"{last[-1]}+{step}x{LATER * 60 // SCRAPED}"])


async def test_the_alerts_fire(board: Board, tmp_path: Path) -> None:
    """promtool runs the rules of docs/ over what was scraped."""
    names = {name for each in board.scrapes for name in each if "NaN" not in each[name]}
    watched = len(board.scrapes) * SCRAPED
    later = watched + LATER * 60
    firing = "ALERTS{alertstate='firing',"
    tests: list[dict[str, object]] = []
    for name, alert in ALERTS.items():
        is_topic = board.paths[name].startswith("/topics/")
        of = f"max by (topic) ({firing}alertname='{alert}',topic='{name}'}})"
        labels = f'{{topic="{name}"}}' if is_topic else "{}"
        expr = of if is_topic else f"max({firing}alertname='{alert}'}})"
        # nsqlookupd drops a tombstone after 45 s.
        at = watched if name == "tombstoned" else later
        tests.append({"expr": expr, "exp_samples": [{"labels": labels, "value": 1}], "eval_time": f"{at}s"})
    for name in ("busy", "slow-handlers"):
        tests.append({"expr": f"{firing}topic='{name}'}}", "exp_samples": [], "eval_time": f"{later}s"})
    check = {
        "rule_files": [str(DOCS / "prometheus-alerts.yml")],
        "evaluation_interval": "30s",
        "tests": [
            {
                "interval": f"{SCRAPED}s",
                "input_series": [
                    {"series": name, "values": series(board.scrapes, name)} for name in sorted(names)
                ],
                "promql_expr_test": tests,
            }
        ],
    }
    path = tmp_path / "alerts.test.yml"
    path.write_text(json.dumps(check), "utf-8")  # JSON is YAML
    promtool("test", "rules", str(path))
