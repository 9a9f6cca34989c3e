"""What changes while it is looked at: ``/events`` and ``/history``."""

from __future__ import annotations

import json
import math

import anyio

from ..monitoring import View, Watch
from ..monitoring.history import MEASURES, measured
from ..serving.http_messages import Request, Response
from ..serving.nsq_api import Refusal, arguments, error_response, json_response
from ..serving.streaming import EVENT_STREAM, KEEP_ALIVE, StreamedResponse, Write, server_sent_event
from .access import Access

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
