"""Pages of a view that a test makes up, without any server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from nsq_anyio.admin.access import Access
from nsq_anyio.admin.actions import Actions
from nsq_anyio.admin.notifications import Notifications
from nsq_anyio.admin.options import AdminOptions
from nsq_anyio.admin.pages.pages import Pages
from nsq_anyio.admin.pages.request import Context
from nsq_anyio.admin.upstream import Upstream
from nsq_anyio.http import ChannelStats, Node, NsqdSurvey, NsqlookupdSurvey, Stats, Survey, TopicStats
from nsq_anyio.monitoring import History, Meter, Snapshot, Watch
from nsq_anyio.monitoring.last_answers import LastAnswers
from nsq_anyio.serving.http_messages import Request, Response, Target
from nsq_anyio.serving.nsq_router import Router

BEGIN = 1_800_000_000.0


class Stage:
    """Pages of the last of some surveys, which were taken a few seconds after each other."""

    def __init__(self, *surveys: Survey, **options: object) -> None:
        given = AdminOptions(**options)  # type: ignore[arg-type]
        access = Access(given)
        meter, answers = Meter(), LastAnswers()
        self.history = History(given.history, given.poll_interval)
        for number, survey in enumerate(surveys, 1):
            figures = meter.update(survey, survey.time)
            before = answers.update(survey, survey.time)
            self.view = Snapshot(number, survey, figures, survey.topics(), last_answers=before)
            self.history.record(self.view)
        # No page asks what is at this port: names that are asked for are not there.
        upstream = Upstream(("http://127.0.0.1:9",), (), given)
        actions = Actions(access, Notifications(None, given.timeout), lambda: None)
        watch = cast("Watch", _Watched(self.view, self.history))
        site = Context(given, access, actions, upstream, watch)
        self.pages = Router(Pages(given.base, site, watch).routes, base=given.base)

    async def get(self, path: str, *, root: str = "", **headers: str) -> Response:
        """Ask for a page."""
        target = Target.parse(path)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        reply = await self.pages(Request("GET", Target(target.path, target.query, root), given))
        assert isinstance(reply, Response), path
        return reply

    async def text(self, path: str) -> str:
        """Return a page, which must be there."""
        reply = await self.get(path)
        assert reply.status == 200, reply.body.decode()
        return reply.body.decode()


class _Watched:
    """What pages use of a `Watch`."""

    def __init__(self, view: Snapshot, history: History) -> None:
        self.last = view
        self.history = history

    def charge(self, seconds: float) -> None:
        """What pages cost makes no difference here."""

    async def after(self, _: Snapshot | None) -> Snapshot:
        return self.last


def survey(*nsqds: NsqdSurvey, lookups: Sequence[NsqlookupdSurvey] = (), seconds: float = 0.0) -> Survey:
    return Survey(time=BEGIN + seconds, seconds=0.25, nsqds=nsqds, nsqlookupds=tuple(lookups))


def nsqd(
    number: int,
    *topics: TopicStats,
    error: str = "",
    hostname: str = "",
    version: str = "1.3.0",
    health: str = "OK",
) -> NsqdSurvey:
    stats = Stats(version=version, health=health, start_time=int(BEGIN) - 7200, topics=topics)
    return NsqdSurvey(node=node(number, hostname=hostname), error=error, seconds=0.01, stats=stats)


def node(number: int, *topics: str, hostname: str = "", tombstoned: tuple[str, ...] = ()) -> Node:
    host = f"nsqd-{number}"
    return Node(
        url=f"http://{host}:4151",
        hostname=hostname or host,
        broadcast_address=host,
        tcp_port=4150,
        http_port=4151,
        version="1.3.0",
        topics=topics,
        tombstoned=tombstoned,
    )


def topic(name: str, *channels: ChannelStats, **counts: int | bool) -> TopicStats:
    return TopicStats(topic_name=name, channels=channels, **counts)  # type: ignore[arg-type]


def channel(name: str, **counts: int | bool) -> ChannelStats:
    return ChannelStats(channel_name=name, **counts)  # type: ignore[arg-type]
