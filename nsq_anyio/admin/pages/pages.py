"""Which page a path is, and the response."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from urllib.parse import quote

import anyio

from ...monitoring import View, Watch
from ...serving.asgi import StreamedResponse
from ...serving.http_messages import Request, Response
from ...serving.nsq_api import Refusal, arguments
from ...serving.nsq_router import matched
from .actions import act, confirm
from .letters import confirm_job, letter, letters, start_job, stop_job
from .lookup import lookup
from .nodes import node, nodes
from .overview import counter, overview
from .per_view import PerView
from .publishing import publish, publish_form
from .rendering import page_response
from .request import Endpoint, Page, PageError, Site, Values, Visit
from .tail import live, permit_draining, stream
from .topics import channel, topic, topics

PAGES: Mapping[str, Page] = {
    "/": Page("overview.html", overview, "overview"),
    "/topics": Page("topics.html", topics, "topics"),
    "/topics/:topic": Page("topic.html", topic, "topics"),
    "/topics/:topic/:channel": Page("channel.html", channel, "topics"),
    "/nodes": Page("nodes.html", nodes, "nodes"),
    "/nodes/:node": Page("node.html", node, "nodes"),
    "/lookup": Page("lookup.html", lookup, "lookup"),
    "/counter": Page("counter.html", counter, "counter"),
    "/live/:topic": Page("live.html", live, "topics", is_shared=False),
    "/letters/:topic": Page("letters.html", letters, "topics", is_shared=False),
}
"""The pages by their paths, in which ``:name`` stands for any segment."""

ENDPOINTS: Mapping[str, Mapping[str, Endpoint]] = {
    "GET": {
        "/confirm": confirm,
        "/live/:topic/messages": stream,
        "/letters/:topic/confirm": confirm_job,
        "/letters/:topic/letter": letter,
        "/publish/:topic": publish_form,
    },
    "POST": {
        "/actions": act,
        "/live/:topic": permit_draining,
        "/letters/:topic": start_job,
        "/letters/:topic/stop": stop_job,
        "/publish/:topic": publish,
    },
}
"""What else is answered, by method and path; a path that is there comes before one with ``:name``."""

_REFUSALS = {
    "FORBIDDEN": ("You may not do this", "Only administrators may act. Ask one of them, or the operator."),
    "INVALID_HOST": (
        "This host name is not served",
        "Use one of the names that the operator allowed with --allowed-host.",
    ),
    "INVALID_REQUEST": (
        "This address is not valid",
        "Its query cannot be read. Start again from the overview.",
    ),
}

_FIRST_POLL = 5.0
_MOST_RENDERED = 32 * 1024 * 1024


class Pages:
    """Answers requests for pages and their files; None for what is neither.

    :param base: the path below which it is, without a slash at its end
    """

    def __init__(self, base: str, site: Site, watch: Watch) -> None:
        self._base = base
        self._site = site
        self._watch = watch
        self._renderer = site.renderer
        self._assets = site.renderer.assets
        self._rendered = PerView[bytes](len, _MOST_RENDERED)

    async def __call__(self, request: Request) -> Response | StreamedResponse | None:
        """Answer a request; return None if its path is another's."""
        path = request.target.path
        if not path.startswith(self._base):
            return None
        path = path[len(self._base) :] or "/"
        method = "GET" if request.method == "HEAD" else request.method
        if method == "GET" and path.startswith("/static/"):
            return self._assets.answer(path, request)
        found = _find(method, path)
        if found is None:
            is_known = method == "GET" and _find("GET", path.rstrip("/")) is not None
            return self._without_slash(request) if is_known else None
        target, parameters = found
        root = request.target.origin + self._base
        try:
            access = self._site.access
            access.check_host(request)
            may_act = access.may_act(request)
            may_read = self._site.messages is not None and access.is_admin(request)
            view = await self._view()
            visit = Visit(
                self._site,
                view,
                parameters,
                arguments(request),
                root,
                may_act,
                may_read,
                request,
                partial(self._render, root, view, may_act, may_read),
            )
            return await (self._page(target, visit) if isinstance(target, Page) else target(visit))
        except PageError as error:
            return self._error(request, root, error)
        except Refusal as refusal:
            return self._error(request, root, _explained(refusal))

    async def _page(self, page: Page, visit: Visit) -> Response:
        request = visit.request
        layout = _layout(request)
        rights = visit.may_act, visit.may_read
        key = (page.template, visit.parameters, request.target.query, visit.root, rights, layout)

        async def render() -> bytes:
            here = request.target.origin + quote(request.target.path, errors="replace")
            shared = {"layout": layout, "section": page.section, "here": here}
            values = {**shared, **await page.gather(visit)}
            return await self._site.worker.run(visit.render, page.template, values)

        if not page.is_shared:
            return page_response(await render())
        return page_response(await self._rendered.get(visit.view.number, key, render))

    async def _view(self) -> View:
        with anyio.move_on_after(_FIRST_POLL):
            return await self._watch.after(None)
        raise PageError(
            503,
            "The first poll is still under way",
            "The servers have not answered yet. Try again in a moment.",
        )

    def _error(self, request: Request, root: str, error: PageError) -> Response:
        values = {"layout": _layout(request), "section": "", "error": error}
        body = self._render(root, self._watch.last, False, False, "error.html", values)
        return page_response(body, error.status)

    def _render(
        self, root: str, view: View | None, may_act: bool, may_read: bool, template: str, values: Values
    ) -> bytes:
        """Render a template with the values that every template has."""
        interval = self._site.options.poll_interval if view is None else view.interval
        shared = {"root": root, "view": view, "may_act": may_act, "may_read": may_read, "interval": interval}
        return self._renderer.render(template, {**shared, **values})

    @staticmethod
    def _without_slash(request: Request) -> Response:
        place = request.target.origin + quote(request.target.path.rstrip("/"), errors="replace")
        return Response(301, headers=(("Location", place),))


def _layout(request: Request) -> str:
    """Return the template around a page: htmx asks for a part of one, unless it restores its history."""
    headers = request.headers
    is_part = "hx-request" in headers and "hx-history-restore-request" not in headers
    return "fragment.html" if is_part else "base.html"


def _find(method: str, path: str) -> tuple[Page | Endpoint, tuple[str, ...]] | None:
    """Return what answers a path, and what stands there for the ``:name`` segments."""
    tables: list[Mapping[str, Page | Endpoint]] = [ENDPOINTS.get(method, {})]
    if method == "GET":
        tables.append(PAGES)
    for table in tables:
        if path in table:
            return table[path], ()
        for pattern, target in table.items():
            names = matched(pattern, path)
            if names is not None:
                return target, names
    return None


def _explained(refusal: Refusal) -> PageError:
    title, text = _REFUSALS.get(
        refusal.code, ("This request is not valid", f"The server answered {refusal.code}.")
    )
    return PageError(refusal.status, title, text)
