"""What changes while it is looked at: ``/events`` and ``/history``."""

from __future__ import annotations

import json
import math
from http import HTTPStatus
from typing import TYPE_CHECKING

import anyio

from ..monitoring import Poller, View, Watch
from ..monitoring.history import MEASURES, measured
from ..serving.asgi import EVENT_STREAM, KEEP_ALIVE, StreamedResponse, Write, server_sent_event
from ..serving.compression import accepts_gzip
from ..serving.http_messages import Request, Response
from ..serving.nsq_api import Refusal, arguments, error_response, json_response, plain_response
from .access import Access

if TYPE_CHECKING:
    from ..instrumentation.prometheus import Exposition


_MOST_VIEWERS = 200
_IDLE = 15.0


class Live:
    """Answers for the views of one watch.

    ``/events`` sends an event ``poll`` for each view, with its number and the cluster's measures; a viewer
    that is slow misses views. ``/history?topic=&channel=`` is a series as JSON, with null where
    nothing is known.

    :param base: the path below which it is, without a slash at its end
    """

    def __init__(self, base: str, access: Access, watch: Watch) -> None:
        self._base = base
        self._access = access
        self._watch = watch
        self._viewers = 0
        self._headline: tuple[View, bytes] | None = None

    async def __call__(self, request: Request) -> Response | StreamedResponse | None:
        """Answer a request; return None if its path is another's."""
        path = request.target.path
        if request.method != "GET" or not path.startswith(self._base):
            return None
        path = path[len(self._base) :]
        if path not in ("/events", "/history"):
            return None
        try:
            self._access.check_host(request)
            return self._events() if path == "/events" else self._history(request)
        except Refusal as refusal:
            return error_response(refusal.status, refusal.code)

    def _history(self, request: Request) -> Response:
        query = arguments(request)
        series = self._watch.history.series(query.optional("topic"), query.optional("channel"))
        columns = {name: list(map(_known, values)) for name, values in series.values.items()}
        return json_response({"times": list(series.times), **columns})

    def _events(self) -> StreamedResponse:
        if self._viewers >= _MOST_VIEWERS:
            raise Refusal(503, "TOO_MANY_VIEWERS")
        return StreamedResponse(200, self._send_views, EVENT_STREAM)

    async def _send_views(self, write: Write) -> None:
        self._viewers += 1
        try:
            view: View | None = None
            while True:
                new = view
                with anyio.move_on_after(_IDLE):
                    new = await self._watch.after(view)
                if new is None or new is view:
                    await write(KEEP_ALIVE)
                    continue
                view = new
                await write(self._event(view))
        finally:
            self._viewers -= 1

    def _event(self, view: View) -> bytes:
        """Return the event of a view, made once for all viewers."""
        if self._headline is None or self._headline[0] is not view:
            self._headline = view, _event(view)
        return self._headline[1]


def _event(view: View) -> bytes:
    *_, (_, values) = measured(view)  # the cluster comes last
    headline = {
        "number": view.number,
        "time": view.survey.time,
        "interval": view.interval,
        "errors": len(view.survey.errors),
        **dict(zip(MEASURES, map(_known, values), strict=True)),
    }
    return server_sent_event(json.dumps(headline), event="poll", number=view.number)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


class Metrics:
    """Answers ``/metrics``, with the metrics of ``nsq-anyio exporter``.

    Topics and channels have series for each nsqd, up to the exporter's default limit; with ``?nsqds=sum``,
    sums over all nsqds.

    :param base: the path below which it is, without a slash at its end
    :param poller: what polls the cluster
    """

    def __init__(self, base: str, access: Access, poller: Poller) -> None:
        self._path = f"{base}/metrics"
        self._access = access
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

    async def __call__(self, request: Request) -> Response | None:
        """Answer a request; return None if its path is another's."""
        if request.target.path != self._path or request.method not in ("GET", "HEAD"):
            return None
        try:
            self._access.check_host(request)
            exposition = self._exposition(arguments(request).optional("nsqds"))
        except Refusal as refusal:
            return error_response(refusal.status, refusal.code)
        if exposition is None:
            return plain_response(f"{self._missing}\n", HTTPStatus.NOT_IMPLEMENTED)
        gzipped = accepts_gzip(request.headers.get("accept-encoding", ""))
        text, content_type = await exposition.text(request.headers.get("accept", ""), gzipped=gzipped)
        headers = [("Content-Type", content_type), ("Vary", "Accept, Accept-Encoding")]
        if gzipped:
            headers.append(("Content-Encoding", "gzip"))
        return Response(HTTPStatus.OK, text, tuple(headers))

    def _exposition(self, nsqds: str) -> Exposition | None:
        """Return what writes the text; None without the extra.

        :raises Refusal: 400 ``INVALID_ARG_NSQDS`` for what is neither empty nor ``sum``
        """
        if self._missing:
            return None
        if nsqds not in self._expositions:
            raise Refusal(HTTPStatus.BAD_REQUEST, "INVALID_ARG_NSQDS")
        return self._expositions[nsqds]
