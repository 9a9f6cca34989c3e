"""The ASGI application."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from typing import Self

import anyio

from ..http.reply import printable
from ..monitoring import Watch, history_kept
from ..options.checks import each_of
from ..serving.asgi import Receive, Scope, Send, StreamedResponse, request_of, send_response, stream_response
from ..serving.compression import Compression
from ..serving.http_messages import PeerVanished, Request, Response
from ..serving.nsq_api import error_response, plain_response
from ..serving.nsq_router import Router
from ..tasks import user_block_tasks
from .access import Access
from .actions import Actions
from .api.configuration import Configuration
from .api.endpoints import Api
from .live import Live
from .messages.messages import Messages
from .notifications import Notifications
from .options import AdminOptions
from .pages.pages import Pages
from .pages.request import Context
from .upstream import Upstream

_logger = logging.getLogger(__name__)

_CLOSED = (
    "This dashboard is not open, so it does not poll the cluster and has no pages. "
    "Enter it in the lifespan of the application that mounts it: async with dashboard: ...\n"
)
_NO_SNIFFING = ("X-Content-Type-Options", "nosniff")


def app(
    nsqlookupd: str | Sequence[str] = (),
    nsqd: str | Sequence[str] = (),
    *,
    options: AdminOptions | None = None,
) -> Admin:
    """Return the dashboard and nsqadmin's HTTP API as an ASGI 3 application.

    Give it to any ASGI server, or mount it in another application::

        application = Starlette(routes=[Mount("/nsq", app=nsq_anyio.admin.app("http://127.0.0.1:4161"))])

    :param nsqlookupd: URL or URLs of all nsqlookupds
    :param nsqd: URL or URLs of nsqds, in place of ``nsqlookupd``
    :param options: the other settings
    :raises InvalidAddress: if a URL is not valid
    :raises InvalidOption: if there is no server, or there are both nsqlookupds and nsqds
    """
    return Admin(nsqlookupd, nsqd, options=options)


class Admin(anyio.AsyncContextManagerMixin):
    """The application that `app` returns.

    While it is open, it polls the cluster, serves the pages and answers ``/events``, ``/history`` and
    ``/metrics``; requests share connections to the servers, and notifications are posted by a task. It is
    open in its ``async with`` block, or while an ASGI server runs its lifespan. A host does not run the
    lifespan of an application that it mounts, so enter this one in the lifespan of the host. While it is not
    open, only the API works: each request opens its own connections, and posts its own notifications after
    its response.
    """

    def __init__(
        self,
        nsqlookupd: str | Sequence[str] = (),
        nsqd: str | Sequence[str] = (),
        *,
        options: AdminOptions | None = None,
    ) -> None:
        options = options or AdminOptions()
        nsqds = each_of(nsqd)
        self._upstream = Upstream(each_of(nsqlookupd), nsqds, options)
        self._notifications = Notifications(options.notification_http_endpoint, options.timeout)
        self._is_open = False
        access = self._access = Access(options)
        self._actions = Actions(access, self._notifications, self._poll_soon)
        self._options = options
        self._watch: Watch | None = None
        self._pages: Pages | None = None
        self._compression = Compression("text/css", "text/javascript")
        self._api = Api(
            options.base,
            self._upstream,
            access,
            self._actions,
            Configuration(options, self._upstream, nsqds),
        )
        self._closed_router = Router[Response | StreamedResponse](self._api.routes, base=options.base)
        self._router = self._closed_router

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        options = self._options
        watch = Watch(self._upstream, interval=options.poll_interval, history=options.history)
        file = options.history_file
        kept = nullcontext() if file is None else history_kept(watch.history, file)
        async with self._upstream.opened(), kept, user_block_tasks() as tasks:
            tasks.start_soon(self._notifications.run)
            tasks.start_soon(watch.run)
            self._watch = watch
            messages = Messages.of(tasks, watch, self._upstream, options) if options.messages else None
            context = Context(options, self._access, self._actions, self._upstream, watch, messages=messages)
            self._pages = Pages(options.base, context, watch)
            others = {**self._pages.routes, **Live(self._access, watch).routes}
            self._router = Router(self._api.routes, base=options.base, unlisted=others)
            self._is_open = True
            try:
                yield self
            finally:
                self._is_open = False
                self._router = self._closed_router
                self._pages = self._watch = None
                await self._notifications.close()

    def _poll_soon(self) -> None:
        if self._watch is not None:
            self._watch.poll_soon()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        else:
            raise ValueError(f"scope {scope['type']!r} is not valid: this application speaks HTTP")

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        phase = "startup"
        try:
            async with self:
                await send({"type": "lifespan.startup.complete"})
                phase = "shutdown"
                await receive()
        except Exception as error:
            _logger.exception("the %s of the application failed", phase)
            await send({"type": f"lifespan.{phase}.failed", "message": str(error)})
            return
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = request_of(scope, receive)
        try:
            response = await self._response(request)
        except PeerVanished:
            return
        except Exception:
            _logger.exception("%s %s failed", request.method, printable(request.target.path))
            response = error_response(500, "INTERNAL_ERROR")
        response = replace(response, headers=(*response.headers, _NO_SNIFFING))
        if isinstance(response, StreamedResponse):
            await stream_response(receive, send, response)
            return
        await send_response(send, await self._compression(request, response))
        if not self._is_open:
            await self._notifications.flush()

    async def _response(self, request: Request) -> Response | StreamedResponse:
        if self._pages is not None and (file := self._pages.file(request)) is not None:
            return file
        response = await self._router(request)
        is_closed = self._pages is None and response.status == 404
        if is_closed and "text/html" in request.headers.get("accept", ""):
            return plain_response(_CLOSED, 503)
        return response
