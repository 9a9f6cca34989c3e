"""The poller and the HTTP server of ``nsq-anyio exporter``."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from http import HTTPStatus

from ...address import Address, ListenAddress
from ...instrumentation.prometheus import ClusterCollector, ClusterLabels, Exposition
from ...monitoring import Poller
from ...serving.compression import accepts_gzip
from ...serving.http_messages import Request, Response
from ...serving.http_server import serve_http
from ...serving.listener import local_port, open_listener
from ...tasks import background_tasks
from .flags import ExporterFlags

_log = logging.getLogger(__name__)


class Exporter:
    """Polls a cluster, and serves its metrics."""

    def __init__(self, flags: ExporterFlags) -> None:
        self._flags = flags
        self._address = ListenAddress.parse(flags.http_address)
        self._labels = ClusterLabels(
            topics=self._is_exported,
            ephemeral=not flags.no_ephemeral,
            by_nsqd=not flags.sum_nsqds,
            clients=flags.client_metrics,
            max_channels=flags.max_channels,
        )

    def _is_exported(self, topic: str) -> bool:
        wanted, excluded = self._flags.topic_pattern, self._flags.exclude_topic_pattern
        return (wanted is None or wanted.is_in(topic)) and not (excluded and excluded.is_in(topic))

    async def start(self, servers: AsyncExitStack) -> None:
        """Start polling and serving, until the stack is closed.

        :raises InvalidOption: for a value out of range
        :raises ListenFailed: if the address cannot be listened on
        """
        listener = await servers.enter_async_context(await open_listener(*self._address))
        cluster = await servers.enter_async_context(self._flags.cluster.open())
        poller = await servers.enter_async_context(
            Poller(
                cluster,
                interval=self._flags.interval,
                forget_after=self._flags.forget_after,
                include_clients=self._labels.clients,
            )
        )
        exposition = Exposition(poller, ClusterCollector(poller, labels=self._labels))
        tasks = await servers.enter_async_context(background_tasks())
        tasks.start_soon(serve_http, listener, Endpoint(poller, exposition).answer)
        _log.info("HTTP: listening on %s", Address(self._address.host, local_port(listener)))


_TEXT = ("Content-Type", "text/plain; charset=utf-8")
_PATHS = ("/metrics", "/ping", "/-/healthy", "/-/ready")


class Endpoint:
    """Answers ``/metrics``, ``/ping``, ``/-/healthy`` and ``/-/ready``."""

    def __init__(self, poller: Poller, exposition: Exposition) -> None:
        self._poller = poller
        self._exposition = exposition

    async def answer(self, request: Request) -> Response:
        """Answer a request."""
        path = request.target.path
        if path not in _PATHS:
            return _text(HTTPStatus.NOT_FOUND, f"use {', '.join(_PATHS)}")
        if request.method not in ("GET", "HEAD"):
            return Response(HTTPStatus.METHOD_NOT_ALLOWED, headers=(("Allow", "GET, HEAD"),))
        if path == "/metrics":
            return await self._metrics(request)
        if path == "/-/ready" and self._poller.last is None:
            return _text(HTTPStatus.SERVICE_UNAVAILABLE, "the first poll has not ended")
        return _text(HTTPStatus.OK, "OK")

    async def _metrics(self, request: Request) -> Response:
        gzipped = accepts_gzip(request.headers.get("accept-encoding", ""))
        text, content_type = await self._exposition.text(request.headers.get("accept", ""), gzipped=gzipped)
        headers = [("Content-Type", content_type), ("Vary", "Accept, Accept-Encoding")]
        if gzipped:
            headers.append(("Content-Encoding", "gzip"))
        return Response(HTTPStatus.OK, text, tuple(headers))


def _text(status: HTTPStatus, line: str) -> Response:
    return Response(status, f"{line}\n".encode(), (_TEXT,))
