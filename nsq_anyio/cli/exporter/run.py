"""The exporter: polls a cluster, and serves its metrics over HTTP."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from http import HTTPStatus

from ...address import Address, ListenAddress
from ...instrumentation.prometheus import ClusterCollector, ClusterLabels, Exposition
from ...monitoring import Poller
from ...re2_pattern import Pattern
from ...serving.compression import accepts_gzip
from ...serving.http_messages import Request, Response
from ...serving.http_server import serve_http
from ...serving.listener import local_port, open_listener
from ...tasks import background_tasks
from ..flags.cluster import ClusterFlags

_log = logging.getLogger(__name__)


class Exporter:
    """Polls a cluster, and serves its metrics.

    :param flags: the cluster
    :param address: where to listen
    :param interval: seconds between polls
    :param forget_after: see `Poller`
    :param topic_pattern: is found in the names of the topics to export; None for all
    :param exclude_topic_pattern: is found in the names of the topics to leave out; None for none

    `ClusterLabels` describes the other parameters.
    """

    def __init__(
        self,
        flags: ClusterFlags,
        address: ListenAddress,
        *,
        interval: float,
        forget_after: float,
        topic_pattern: Pattern | None,
        exclude_topic_pattern: Pattern | None,
        ephemeral: bool,
        by_nsqd: bool,
        clients: bool,
        max_channels: int,
    ) -> None:
        self._flags = flags
        self._address = address
        self._interval = interval
        self._forget_after = forget_after

        def is_exported(topic: str) -> bool:
            return (topic_pattern is None or topic_pattern.is_in(topic)) and not (
                exclude_topic_pattern is not None and exclude_topic_pattern.is_in(topic)
            )

        self._labels = ClusterLabels(
            topics=is_exported,
            ephemeral=ephemeral,
            by_nsqd=by_nsqd,
            clients=clients,
            max_channels=max_channels,
        )

    async def start(self, servers: AsyncExitStack) -> None:
        """Begin to poll and to listen, until the stack is closed.

        :raises InvalidOption: for a value out of range
        :raises ListenFailed: if the address cannot be listened on
        """
        listener = await servers.enter_async_context(await open_listener(*self._address))
        cluster = await servers.enter_async_context(self._flags.open())
        poller = await servers.enter_async_context(
            Poller(
                cluster,
                interval=self._interval,
                forget_after=self._forget_after,
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
