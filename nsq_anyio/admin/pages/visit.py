"""What a page is given, and what it returns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ...monitoring import History, View
from ...serving.http_messages import Request, Response
from ...serving.nsq_api import Arguments
from ...serving.streaming import StreamedResponse
from ..access import Access
from ..actions import Actions
from ..options import AdminOptions
from ..upstream import Upstream
from .client_rows import Clients
from .digest import Digest, Digester
from .per_view import PerView
from .security import page_response

__all__ = ["Endpoint", "Page", "PageError", "Site", "Values", "Visit", "make_site"]

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
    """

    options: AdminOptions
    access: Access
    actions: Actions
    upstream: Upstream
    history: History
    digester: Digester
    clients: PerView[Clients]


def make_site(
    options: AdminOptions, access: Access, actions: Actions, upstream: Upstream, history: History
) -> Site:
    """Return a site, with what it keeps of each view."""
    clients = PerView[Clients](lambda found: len(found.clients), _MOST_CLIENTS)
    return Site(options, access, actions, upstream, history, Digester(history), clients)


@dataclass(frozen=True, slots=True)
class Visit:
    """One request for a page.

    :ivar view: the last view, of which all of the page is to be
    :ivar parameters: what stands in the path for the ``:name`` segments of the page's pattern
    :ivar query: the parameters of the query
    :ivar root: stands before the path of each link; empty, or without a slash at its end
    :ivar may_act: whether the user may act. The server refuses the actions of others all the same
    :ivar request: the request; pages that are cached must not depend on it in any other way
    :ivar render: renders a template, with these values beside those that every template has
    """

    site: Site
    view: View
    parameters: tuple[str, ...]
    query: Arguments
    root: str
    may_act: bool
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
    """A page that is the same for all who may do the same.

    :ivar template: its name
    :ivar gather: returns the values of the template
    :ivar section: the entry of the navigation that it belongs to
    """

    template: str
    gather: Callable[[Visit], Awaitable[Values]]
    section: str


Endpoint: TypeAlias = Callable[[Visit], Awaitable[Response | StreamedResponse]]
"""Answers a request that is not for a page, such as an action, in its own way."""
