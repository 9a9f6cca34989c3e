"""The table of pages, and the responses to requests for pages and static files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar
from urllib.parse import quote

import anyio

from ...monitoring import Snapshot, Watch
from ...serving.asgi import StreamedResponse, StreamingHandler
from ...serving.http_messages import Request, Response
from ...serving.nsq_api import Refusal, arguments
from ...serving.nsq_router import parameters
from ...serving.single_flight import SingleFlight
from .actions import act, confirm
from .delays import delays
from .letters import confirm_job, letter, letters, start_job, stop_job
from .lookup import lookup
from .nodes import node, nodes
from .overview import counter, overview
from .publishing import publish, publish_form
from .request import Context, Endpoint, Page, PageError, PageRequest
from .tail import live, permit_draining, stream
from .topics import channel, topic, topics

_Response = TypeVar("_Response", Response, StreamedResponse, Response | StreamedResponse)

PAGES: Mapping[str, Page] = {
    "/": Page("overview.html", overview, "overview"),
    "/topics": Page("topics.html", topics, "topics"),
    "/topics/:topic": Page("topic.html", topic, "topics"),
    "/topics/:topic/:channel": Page("channel.html", channel, "topics"),
    "/nodes": Page("nodes.html", nodes, "nodes"),
    "/nodes/:node": Page("node.html", node, "nodes"),
    "/lookup": Page("lookup.html", lookup, "lookup"),
    "/counter": Page("counter.html", counter, "counter"),
    "/delays": Page("delays.html", delays, "delays"),
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

_POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "connect-src": "'self'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
    "base-uri": "'none'",
}
_SECURITY_HEADERS = (
    ("Content-Security-Policy", "; ".join(f"{name} {value}" for name, value in _POLICY.items())),
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
)
"""The headers of every page and file: only scripts of this server run, and no site may frame a page."""

_FIRST_POLL = 5.0
_MOST_RENDERED = 32 * 1024 * 1024


class Pages:
    """Answers requests for pages and static files.

    A shared page is rendered once for each snapshot, address and set of permissions, however many users look
    at it.

    :param base: the prefix of each path, without a slash at its end
    :ivar routes: the handlers by method and path, without the prefix
    """

    def __init__(self, base: str, context: Context, watch: Watch) -> None:
        self._base = base
        self._context = context
        self._watch = watch
        self._rendered = SingleFlight[Response](lambda page: len(page.body), _MOST_RENDERED)
        targets: dict[tuple[str, str], Page | Endpoint] = dict(ENDPOINTS)
        targets |= {("GET", path): page for path, page in PAGES.items()}
        routes = {key: partial(self._answer, target, key[1]) for key, target in targets.items()}
        routes["GET", ""] = routes["GET", "/"]
        routes |= {("HEAD", path): handle for (method, path), handle in routes.items() if method == "GET"}
        self.routes: Mapping[tuple[str, str], StreamingHandler] = routes

    def file(self, request: Request) -> Response | None:
        """Return the static file that is requested; None if there is none."""
        path = request.target.path
        if request.method not in ("GET", "HEAD") or not path.startswith(self._base):
            return None
        file = self._context.renderer.assets.answer(path[len(self._base) :])
        return None if file is None else _secured(file)

    async def _answer(
        self, target: Page | Endpoint, pattern: str, request: Request
    ) -> Response | StreamedResponse:
        root = request.target.origin + self._base
        try:
            access = self._context.access
            access.check_host(request)
            asked = PageRequest(
                context=self._context,
                http=request,
                snapshot=await self._snapshot(),
                parameters=parameters(request, pattern, base=self._base),
                query=arguments(request),
                root=root,
                may_act=access.may_act(request),
                may_read=self._context.messages is not None and access.is_admin(request),
            )
            return _secured(await (self._page(target, asked) if isinstance(target, Page) else target(asked)))
        except PageError as error:
            return _secured(self._error(request, root, error))
        except Refusal as refusal:
            return _secured(self._error(request, root, _explained(refusal)))

    async def _page(self, page: Page, request: PageRequest) -> Response:
        target = request.http.target
        layout = _layout(request.http)
        rights = request.may_act, request.may_read
        key = (page.template, request.parameters, target.query, request.root, rights, layout)

        async def render() -> Response:
            here = target.origin + quote(target.path, errors="replace")
            shared = {"layout": layout, "section": page.section, "here": here}
            values = {**shared, **await page.gather(request)}
            return await self._context.compute(request.show, page.template, values)

        if not page.is_shared:
            return await render()
        return await self._rendered.get(request.snapshot.number, key, render)

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
        return self._context.show(
            "error.html", values, root=root, snapshot=self._watch.last, status=error.status
        )


def _secured(response: _Response) -> _Response:
    return replace(response, headers=(*response.headers, *_SECURITY_HEADERS))


def _layout(request: Request) -> str:
    """Return the layout of a page: a fragment for htmx, unless it restores its history."""
    headers = request.headers
    is_part = "hx-request" in headers and "hx-history-restore-request" not in headers
    return "fragment.html" if is_part else "base.html"


def _explained(refusal: Refusal) -> PageError:
    title, text = _REFUSALS.get(
        refusal.code, ("This request is not valid", f"The server answered {refusal.code}.")
    )
    return PageError(refusal.status, title, text)
