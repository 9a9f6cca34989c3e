"""Requests for pages, and the context that all pages share."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import anyio
import anyio.to_thread

from ...monitoring import History, Snapshot, Watch
from ...serving.asgi import StreamedResponse
from ...serving.http_messages import Request, Response
from ...serving.nsq_api import Arguments
from ...serving.single_flight import SingleFlight
from ..access import Access
from ..actions import Actions
from ..delayed import DelayReader
from ..messages.messages import Messages
from ..options import AdminOptions
from ..upstream import Upstream
from .rendering import Assets, Renderer
from .tables import Consumers, Tables, make_tables

T = TypeVar("T")

Values: TypeAlias = Mapping[str, object]
"""The values of a template."""

_HEADERS = (
    ("Content-Type", "text/html; charset=utf-8"),
    # A page depends on its user, and is out of date after the next poll.
    ("Cache-Control", "private, no-cache"),
    # htmx gets a part of the page.
    ("Vary", "HX-Request"),
)
_MOST_CONSUMERS = 100_000
_MOST_FORMS = 200
_MOST_THREADS = 4
"""The threads that compute pages at once; polls compute in others."""


def _one(_: object) -> int:
    return 1


class Context:
    """The context that all pages share.

    :param watch: polls the cluster
    :ivar upstream: asks servers for data that is not in the snapshot
    :ivar consumers: the consumers of the channels that somebody looks at
    :ivar messages: the state of the message pages; None if messages are not shown
    :ivar delays: reads the file of delayed messages; None if there is none
    """

    def __init__(
        self,
        options: AdminOptions,
        access: Access,
        actions: Actions,
        upstream: Upstream,
        watch: Watch,
        *,
        messages: Messages | None = None,
    ) -> None:
        self.options: AdminOptions = options
        self.access: Access = access
        self.actions: Actions = actions
        self.upstream: Upstream = upstream
        self.history: History = watch.history
        self.messages: Messages | None = messages
        file = options.delay_file
        self.delays: DelayReader | None = None if file is None else DelayReader(file)
        self.renderer: Renderer = Renderer(Assets())
        self.consumers: SingleFlight[Consumers] = SingleFlight(
            lambda found: len(found.consumers), _MOST_CONSUMERS
        )
        self._charge = watch.charge
        self._threads = anyio.CapacityLimiter(_MOST_THREADS)
        self._tables = SingleFlight[Tables](_one, 1)
        self._submitted = SingleFlight[Response](_one, _MOST_FORMS)

    async def compute(self, function: Callable[..., T], *arguments: object) -> T:
        """Call a function in one of the worker threads of the pages, which are few."""
        return await anyio.to_thread.run_sync(function, *arguments, limiter=self._threads)

    async def tables(self, snapshot: Snapshot) -> Tables:
        """Return the tables of a snapshot, computed when a page first asks for them.

        Their CPU time counts towards the cost of polls, because it is spent once for each poll.
        """

        def timed() -> tuple[Tables, float]:
            began = time.thread_time()
            tables = make_tables(snapshot, self.history)
            return tables, time.thread_time() - began

        async def compute() -> Tables:
            tables, seconds = await self.compute(timed)
            self._charge(seconds)
            return tables

        return await self._tables.get(snapshot.number, "", compute)

    async def submit(self, number: str, act: Callable[[], Awaitable[Response]]) -> Response:
        """Return the response to a form. A form that is sent twice acts once.

        :param number: identifies the form; without one, ``act`` is always called
        """
        return await (self._submitted.get(0, number, act) if number else act())

    def show(
        self,
        template: str,
        values: Values,
        *,
        root: str,
        snapshot: Snapshot | None,
        may_act: bool = False,
        may_read: bool = False,
        status: int = 200,
    ) -> Response:
        """Render a template with ``values``, and the values that all templates have."""
        interval = self.options.poll_interval if snapshot is None else snapshot.interval
        shared = {
            "root": root,
            "snapshot": snapshot,
            "may_act": may_act,
            "may_read": may_read,
            "interval": interval,
            "has_delays": self.delays is not None,
        }
        return Response(status, self.renderer.render(template, {**shared, **values}), _HEADERS)


@dataclass(frozen=True, slots=True)
class PageRequest:
    """One request for a page.

    :ivar http: the HTTP request; the values of a shared page depend only on the fields below
    :ivar snapshot: the snapshot that the whole page is built from
    :ivar parameters: the segments of the path that match ``:name`` in the page's pattern
    :ivar query: the parameters of the query
    :ivar root: the prefix of each link's path; empty, or without a slash at its end
    :ivar may_act: whether the page offers actions; the server checks each action in any case
    :ivar may_read: whether the user may see messages
    """

    context: Context
    http: Request
    snapshot: Snapshot
    parameters: tuple[str, ...]
    query: Arguments
    root: str
    may_act: bool
    may_read: bool

    async def tables(self) -> Tables:
        """Return the tables of the snapshot."""
        return await self.context.tables(self.snapshot)

    def show(self, template: str, values: Values, *, status: int = 200) -> Response:
        """Return the response that shows a template, such as a page or a dialog."""
        return self.context.show(
            template,
            values,
            root=self.root,
            snapshot=self.snapshot,
            may_act=self.may_act,
            may_read=self.may_read,
            status=status,
        )


class PageError(Exception):
    """Raised by a page that cannot be shown.

    :param title: what is wrong, in a few words
    :param text: what is wrong and what to do next, in whole sentences
    """

    def __init__(self, status: int, title: str, text: str) -> None:
        super().__init__(f"{status} {title}: {text}")
        self.status = status
        self.title = title
        self.text = text


@dataclass(frozen=True, slots=True)
class Page:
    """A page.

    :ivar gather: returns the values of the template
    :ivar section: its entry in the navigation
    :ivar is_shared: whether all users with the same permissions see the same page until the next poll
    """

    template: str
    gather: Callable[[PageRequest], Awaitable[Values]]
    section: str
    is_shared: bool = True


Endpoint: TypeAlias = Callable[[PageRequest], Awaitable[Response | StreamedResponse]]
"""Answers a request that is not for a page, such as an action."""
