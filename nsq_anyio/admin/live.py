"""Live endpoints: ``/events``, ``/history`` and ``/metrics``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

import anyio

from ..monitoring import Poller, Snapshot, Watch
from ..monitoring.history import MEASURES, measured
from ..serving.asgi import (
    EVENT_STREAM,
    KEEP_ALIVE_INTERVAL,
    StreamedResponse,
    StreamingHandler,
    Write,
    keep_alive_event,
    server_sent_event,
)
from ..serving.compression import accepts_gzip
from ..serving.http_messages import Request, Response
from ..serving.nsq_api import Refusal, arguments, json_response, plain_response
from ..serving.places import Places
from .access import Access

if TYPE_CHECKING:
    from ..instrumentation.prometheus import Exposition

_MOST_VIEWERS = 200


class Live:
    """Serves the snapshots of one `Watch`.

    ``/events`` sends an event ``poll`` for each snapshot, with its number and the cluster's measures; a slow
    viewer misses snapshots. It sends an event ``alive`` at first, and every 5 seconds.
    ``/history?topic=&channel=`` is a series as JSON, in which unknown values are null. ``/metrics`` has the
    metrics of ``nsq-anyio exporter``: for topics and channels a series for each nsqd, up to the exporter's
    default limit, or with ``?nsqds=sum`` the sums over all nsqds.

    :ivar routes: the handlers by method and path
    """

    def __init__(self, access: Access, watch: Watch) -> None:
        self._access = access
        self._watch = watch
        self._viewers = Places(_MOST_VIEWERS)
        self._headline: tuple[Snapshot, bytes] | None = None
        metrics = self._checked(_Metrics(watch).answer)
        self.routes: Mapping[tuple[str, str], StreamingHandler] = {
            ("GET", "/events"): self._checked(self._events),
            ("GET", "/history"): self._checked(self._history),
            ("GET", "/metrics"): metrics,
            ("HEAD", "/metrics"): metrics,
        }

    def _checked(self, handler: StreamingHandler) -> StreamingHandler:
        async def handle(request: Request) -> Response | StreamedResponse:
            self._access.check_host(request)
            return await handler(request)

        return handle

    async def _history(self, request: Request) -> Response:
        query = arguments(request)
        series = self._watch.history.series(query.optional("topic"), query.optional("channel"))
        columns = {name: list(map(_known, values)) for name, values in series.values.items()}
        return json_response({"times": list(series.times), **columns})

    async def _events(self, request: Request) -> StreamedResponse:
        address = request.remote.rpartition(":")[0]
        if not self._viewers.has_room(address):
            raise Refusal(503, "TOO_MANY_VIEWERS")

        async def send(write: Write) -> None:
            if self._viewers.has_room(address):  # others may have come in between
                with self._viewers.taken(address):
                    await self._send_snapshots(write)

        return StreamedResponse(200, send, EVENT_STREAM)

    async def _send_snapshots(self, write: Write) -> None:
        snapshot: Snapshot | None = None
        alive = -math.inf
        while True:
            if anyio.current_time() >= alive:
                await write(keep_alive_event())
                alive = anyio.current_time() + KEEP_ALIVE_INTERVAL
            new = snapshot
            with anyio.CancelScope(deadline=alive):
                new = await self._watch.after(snapshot)
            if new is not None and new is not snapshot:
                snapshot = new
                await write(self._event(snapshot))

    def _event(self, snapshot: Snapshot) -> bytes:
        """Return the event of a snapshot, made once for all viewers."""
        if self._headline is None or self._headline[0] is not snapshot:
            self._headline = snapshot, _event(snapshot)
        return self._headline[1]


def _event(snapshot: Snapshot) -> bytes:
    *_, (_, values) = measured(snapshot)  # the cluster comes last
    headline = {
        "number": snapshot.number,
        "time": snapshot.survey.time,
        "interval": snapshot.interval,
        "errors": len(snapshot.survey.errors),
        **dict(zip(MEASURES, map(_known, values), strict=True)),
    }
    return server_sent_event(json.dumps(headline), event="poll", number=snapshot.number)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


class _Metrics:
    """Answers ``/metrics``, or reports that the extra ``prometheus`` is missing."""

    def __init__(self, poller: Poller) -> None:
        self._missing = ""
        self._expositions: dict[str, Exposition] = {}
        try:
            from ..instrumentation.prometheus import (  # noqa: PLC0415 - needs the extra
                ClusterCollector,
                ClusterLabels,
                Exposition,
            )
        except ImportError as error:
            self._missing = str(error)
            return
        for name, labels in (("", ClusterLabels()), ("sum", ClusterLabels(by_nsqd=False))):
            self._expositions[name] = Exposition(poller, ClusterCollector(poller, labels=labels))

    async def answer(self, request: Request) -> Response:
        nsqds = arguments(request).optional("nsqds")
        if self._missing:
            return plain_response(f"{self._missing}\n", HTTPStatus.NOT_IMPLEMENTED)
        if nsqds not in self._expositions:
            raise Refusal(HTTPStatus.BAD_REQUEST, "INVALID_ARG_NSQDS")
        gzipped = accepts_gzip(request.headers.get("accept-encoding", ""))
        text, content_type = await self._expositions[nsqds].text(
            request.headers.get("accept", ""), gzipped=gzipped
        )
        headers = [("Content-Type", content_type), ("Vary", "Accept, Accept-Encoding")]
        if gzipped:
            headers.append(("Content-Encoding", "gzip"))
        return Response(HTTPStatus.OK, text, tuple(headers))
