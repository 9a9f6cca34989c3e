"""What a page is given, and what it returns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from ...monitoring import History, View, Watch
from ...serving.asgi import StreamedResponse
from ...serving.http_messages import Request, Response
from ...serving.nsq_api import Arguments
from ..access import Access
from ..actions import Actions
from ..messages.messages import Messages
from ..options import AdminOptions
from ..upstream import Upstream
from .once import Once
from .per_view import PerView, Worker
from .rendering import Assets, Renderer, page_response
from .tables import Clients, Digest, Digester

T = TypeVar("T")


Values: TypeAlias = Mapping[str, object]
"""The values of a template."""

_MOST_CLIENTS = 100_000


@dataclass(frozen=True, slots=True)
class Site:
    """What all pages share.

    :ivar history: of the cluster
    :ivar upstream: to ask servers what the view does not have
    :ivar digester: computes what pages need of a view
    :ivar clients: the consumers of the channels that somebody looks at
    :ivar once: so that a form that is sent twice acts once
    :ivar worker: computes what is long in worker threads
    :ivar renderer: renders what is not a part of one visit
    :ivar messages: the live tails and the work on dead letters; None if messages are not shown
    """

    options: AdminOptions
    access: Access
    actions: Actions
    upstream: Upstream
    history: History
    digester: Digester
    clients: PerView[Clients]
    worker: Worker
    renderer: Renderer
    messages: Messages | None
    once: Once = field(default_factory=Once)


def make_site(
    options: AdminOptions,
    access: Access,
    actions: Actions,
    upstream: Upstream,
    watch: Watch,
    *,
    messages: Messages | None = None,
) -> Site:
    """Return a site, with what it keeps of each view."""
    clients = PerView[Clients](lambda found: len(found.clients), _MOST_CLIENTS)
    worker = Worker(watch.charge)
    digester = Digester(watch.history, worker)
    renderer = Renderer(Assets())
    return Site(
        options, access, actions, upstream, watch.history, digester, clients, worker, renderer, messages
    )


@dataclass(frozen=True, slots=True)
class Visit:
    """One request for a page.

    :ivar view: the last view, of which all of the page is to be
    :ivar parameters: what stands in the path for the ``:name`` segments of the page's pattern
    :ivar query: the parameters of the query
    :ivar root: stands before the path of each link; empty, or without a slash at its end
    :ivar may_act: whether the user may act. The server refuses the actions of others all the same
    :ivar may_read: whether the user may see messages
    :ivar request: the request; pages that are cached must not depend on it in any other way
    :ivar render: renders a template, with these values beside those that every template has
    """

    site: Site
    view: View
    parameters: tuple[str, ...]
    query: Arguments
    root: str
    may_act: bool
    may_read: bool
    request: Request
    render: Callable[[str, Values], bytes]

    async def digest(self) -> Digest:
        """Return what pages need of the view."""
        return await self.site.digester.of(self.view)

    def show(self, template: str, values: Values, *, status: int = 200) -> Response:
        """Return the response of an `Endpoint` that shows a template, such as a dialog."""
        return page_response(self.render(template, values), status)


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

    :ivar template: its name
    :ivar gather: returns the values of the template
    :ivar section: the entry of the navigation that it belongs to
    :ivar is_shared: whether it is the same for all who may do the same, until the next poll
    """

    template: str
    gather: Callable[[Visit], Awaitable[Values]]
    section: str
    is_shared: bool = True


Endpoint: TypeAlias = Callable[[Visit], Awaitable[Response | StreamedResponse]]
"""Answers a request that is not for a page, such as an action, in its own way."""
