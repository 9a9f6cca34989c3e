"""Routing of paths to pages, and the rendering of pages."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

import anyio

from ...monitoring import Snapshot, Watch
from ...serving.asgi import StreamedResponse
from ...serving.http_messages import Request, Response
from ...serving.nsq_api import Refusal, arguments
from ...serving.nsq_router import Routes
from ...serving.single_flight import SingleFlight
from .actions import act, confirm
from .letters import confirm_job, letter, letters, start_job, stop_job
from .lookup import lookup
from .nodes import node, nodes
from .overview import counter, overview
from .publishing import publish, publish_form
from .rendering import page_response
from .request import Context, Endpoint, Page, PageError, PageRequest
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
"""The pages by path, in which ``:name`` stands for any segment."""

ENDPOINTS: Mapping[tuple[str, str], Endpoint] = {
    ("GET", "/confirm"): confirm,
    ("GET", "/live/:topic/messages"): stream,
    ("GET", "/letters/:topic/confirm"): confirm_job,
    ("GET", "/letters/:topic/letter"): letter,
    ("GET", "/publish/:topic"): publish_form,
    ("POST", "/actions"): act,
    ("POST", "/live/:topic"): permit_draining,
    ("POST", "/letters/:topic"): start_job,
    ("POST", "/letters/:topic/stop"): stop_job,
    ("POST", "/publish/:topic"): publish,
}
"""Other endpoints, by method and path."""

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
    """Answers requests for pages and static files.

    A page is rendered once for each snapshot and set of permissions, however many users look at it.

    :param base: the prefix of each path, without a slash at its end
    """

    def __init__(self, base: str, context: Context, watch: Watch) -> None:
        self._base = base
        self._context = context
        self._watch = watch
        self._rendered = SingleFlight[bytes](len, _MOST_RENDERED)
        pages = {("GET", path): page for path, page in PAGES.items()}
        self._routes = Routes[Page | Endpoint]({**ENDPOINTS, **pages})

    async def __call__(self, request: Request) -> Response | StreamedResponse | None:
        """Answer a request; return None for any other path."""
        path = request.target.path
        if not path.startswith(self._base):
            return None
        path = path[len(self._base) :] or "/"
        method = "GET" if request.method == "HEAD" else request.method
        if method == "GET" and path.startswith("/static/"):
            return self._context.renderer.assets.answer(path, request)
        found = self._routes.find(method, path)
        if found is None:
            is_known = method == "GET" and self._routes.find("GET", path.rstrip("/")) is not None
            return _without_slash(request) if is_known else None
        target, parameters = found
        root = request.target.origin + self._base
        try:
            access = self._context.access
            access.check_host(request)
            asked = PageRequest(
                context=self._context,
                http=request,
                snapshot=await self._snapshot(),
                parameters=parameters,
                query=arguments(request),
                root=root,
                may_act=access.may_act(request),
                may_read=self._context.messages is not None and access.is_admin(request),
            )
            return await (self._page(target, asked) if isinstance(target, Page) else target(asked))
        except PageError as error:
            return self._error(request, root, error)
        except Refusal as refusal:
            return self._error(request, root, _explained(refusal))

    async def _page(self, page: Page, request: PageRequest) -> Response:
        target = request.http.target
        layout = _layout(request.http)
        rights = request.may_act, request.may_read
        key = (page.template, request.parameters, target.query, request.root, rights, layout)

        async def render() -> bytes:
            here = target.origin + quote(target.path, errors="replace")
            shared = {"layout": layout, "section": page.section, "here": here}
            values = {**shared, **await page.gather(request)}
            return await self._context.compute(request.render, page.template, values)

        if not page.is_shared:
            return page_response(await render())
        return page_response(await self._rendered.get(request.snapshot.number, key, render))

    async def _snapshot(self) -> Snapshot:
        with anyio.move_on_after(_FIRST_POLL):
            return await self._watch.after(None)
        raise PageError(
            503,
            "The first poll is still under way",
            "The servers have not answered yet. Try again in a moment.",
        )

    def _error(self, request: Request, root: str, error: PageError) -> Response:
        values = {"layout": _layout(request), "section": "", "error": error}
        body = self._context.render("error.html", values, root=root, snapshot=self._watch.last)
        return page_response(body, error.status)


def _without_slash(request: Request) -> Response:
    place = request.target.origin + quote(request.target.path.rstrip("/"), errors="replace")
    return Response(301, headers=(("Location", place),))


def _layout(request: Request) -> str:
    """Return the template around a page: htmx asks for a part of one, unless it restores its history."""
    headers = request.headers
    is_part = "hx-request" in headers and "hx-history-restore-request" not in headers
    return "fragment.html" if is_part else "base.html"


def _explained(refusal: Refusal) -> PageError:
    title, text = _REFUSALS.get(
        refusal.code, ("This request is not valid", f"The server answered {refusal.code}.")
    )
    return PageError(refusal.status, title, text)
